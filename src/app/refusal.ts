/**
 * Refusals, and failures of the world around Perdure: a code for programs, a message and the next
 * command for people.
 *
 * Owns: the one type of error that the use cases throw, the remedy for each failure of the journal
 * and of files, the one text form of the next command, and the document that every face gives a program
 * for a refusal or a bug of Perdure.
 * Does not: print, or choose an exit status; the faces do, by the code.
 */
import type { Owner } from "../core/event.ts";
import { Refusal as CoreRefusal } from "../core/graph/rewind.ts";
import { JournalError, type JournalErrorCode, storageError } from "../journal/journal-error.ts";
import type { ConfigurationText } from "../pipeline/configuration.ts";
import type { Diagnostic } from "../pipeline/diagnostic.ts";
import type { DocumentJson } from "../view/json/documents.ts";
import { diagnosticJson } from "../view/json/part-json.ts";
import { commandText } from "../view/text.ts";
import { WorkspaceError } from "../workspace/workspace-error.ts";

/** The reason of a refusal; logic reads this, never the message. */
export type RefusalCode =
  /** An option or an argument is invalid, or contradicts another one. */
  | "bad-option"
  | "bad-input"
  | "missing-file"
  | "invalid-pipeline"
  /** The plan relies on variables that are not set. */
  | "missing-variables"
  /** The plan needs agents or programs that are not installed. */
  | "not-ready"
  | "unknown-price"
  | "bad-price-file"
  /** No run was ever started here. */
  | "no-runs"
  /** No store of a fleet is named. */
  | "no-store"
  | "of-fleet"
  | "worker-running"
  | "unknown-run"
  | "ambiguous-run"
  | "no-unfinished-run"
  /** The last run completed or failed, so a person has to name the run to resume. */
  | "run-not-named"
  | "wrong-pipeline"
  | "unknown-step"
  | "ambiguous-step"
  /** The step has no agent with a conversation, or none yet. */
  | "no-conversation"
  /** The core cannot do that to a run in this state. */
  | "impossible"
  /** The living owner of a run cannot do that while this step runs. */
  | "step-running"
  | "turns-used-up"
  | "run-owned"
  /** Steps of the run outlived its owner, or run where this process cannot see them. */
  | "steps-alive"
  | "agent-open"
  /** Another run with agents works in the same directory. */
  | "directory-shared"
  | "project-copied"
  /** `perdure clean` has removed the files of the run. */
  | "files-removed"
  /** A person has to agree first. */
  | "not-confirmed"
  | "no-terminal"
  | "run-changed"
  | "no-edit-possible"
  | "nothing-to-stop"
  | "not-asked"
  | "already-answered"
  | "bad-answer"
  | "no-snapshots"
  | "no-workspace"
  /** The run changed nothing, or committed nothing. */
  | "nothing-to-take"
  | "merge-conflict"
  /** A program of the user's, such as git or gh, failed. */
  | "tool-failed"
  | "not-empty"
  | "output-missing"
  | "not-started"
  | "no-program"
  | "cannot-write"
  | "bad-archive"
  | "run-exists"
  | "import-running"
  | "files-in-the-way"
  | "bad-logs-directory"
  | "logs-directory-used"
  /** A `.perdure` that Perdure has not made. */
  | "untrusted-state"
  | "cannot-keep-state"
  | "missing-journal"
  | "state-removed"
  | "unreadable-plan"
  | "no-proc"
  | "no-directory"
  /** Another process is the service of this user. */
  | "service-running"
  /** A file, or a whole run, is larger than the store takes. */
  | "too-large"
  | `journal-${JournalErrorCode}`
  | `files-${WorkspaceError["code"]}`;

/** One remedy: something to do, a command, or both in this order. */
export interface Next {
  /** The condition for the command: "if you know that it is dead". */
  readonly when?: string;
  /** What to do before the command, or instead of one. */
  readonly first?: string;
  /** The arguments of the `perdure` command. */
  readonly command?: readonly string[];
  readonly note?: string;
}

/** The remedy `perdure WORDS`. */
export function command(...words: readonly string[]): Next {
  return { command: words };
}

/** A remedy without a command. */
export function advice(first: string): Next {
  return { first };
}

/** The remedy to do something first, then `perdure WORDS`. */
export function after(first: string, ...words: readonly string[]): Next {
  return { first, command: words };
}

/** The remedy `perdure WORDS` under a condition. */
export function when(condition: string, ...words: readonly string[]): Next {
  return { when: condition, command: words };
}

/** The text of remedies, one line for each. */
export function nextLines(next: readonly Next[]): readonly string[] {
  return next.map(({ when: condition, first, command: words, note }) => {
    const typed =
      words && `${condition === undefined ? "" : `${condition}: `}${commandText(...words)}`;
    const parts = [first, typed].filter((part) => part !== undefined).join(", then: ");
    return note === undefined ? parts : `${parts}   (${note})`;
  });
}

/** A refusal of Perdure, or a failure outside of it. */
export class Refusal extends Error {
  override readonly name: string = "Refusal";
  readonly code: RefusalCode;
  /** The remedies, the most likely one first. */
  readonly next: readonly Next[];

  constructor(code: RefusalCode, message: string, next?: Next | readonly Next[], cause?: unknown) {
    super(message, cause === undefined ? {} : { cause });
    this.code = code;
    this.next = next === undefined ? [] : Array.isArray(next) ? next : [next as Next];
  }
}

/** The refusal of a pipeline with mistakes. */
export class PipelineInvalid extends Refusal {
  override readonly name = "PipelineInvalid";
  readonly diagnostics: readonly Diagnostic[];
  /** The text of the file, for the lines that diagnostics show. */
  readonly text: string;
  /** The texts of the configuration files. */
  readonly configuration: readonly ConfigurationText[];

  constructor(message: string, next: Next | undefined, files: DiagnosticTexts) {
    super("invalid-pipeline", message, next);
    this.diagnostics = files.diagnostics;
    this.text = files.text;
    this.configuration = files.configuration;
  }
}

/** The refusal of an input that does not fit the schema of its pipeline. */
export class InputRefusal extends Refusal {
  override readonly name = "InputRefusal";
  /** What is wrong, by the path of the value in the input; an empty path is the whole input. */
  readonly fields: Readonly<Record<string, string>>;

  constructor(message: string, next: Next, fields: InputRefusal["fields"]) {
    super("bad-input", message, next);
    this.fields = fields;
  }
}

/** An error as a command prints it. */
export type ErrorJson = DocumentJson<"error">["error"];

/** The refusal that another process of Perdure printed. */
export class PrintedRefusal extends Refusal {
  override readonly name = "PrintedRefusal";
  readonly printed: ErrorJson;

  constructor(printed: ErrorJson) {
    const next = printed.next.map(({ text }) => advice(text));
    super(printed.code as RefusalCode, printed.message, next);
    this.printed = printed;
  }
}

/** The mistakes of a pipeline, and the texts that they are in. */
export interface DiagnosticTexts {
  readonly diagnostics: readonly Diagnostic[];
  readonly text: string;
  readonly configuration: readonly ConfigurationText[];
}

/** The refusal of a run that another process owns. */
export class RunOwned extends Refusal {
  override readonly name = "RunOwned";
  /** The other owner; absent when it took the run from this process. */
  readonly owner: Owner | undefined;

  constructor(owner: Owner | undefined, message: string, next: Next, cause?: unknown) {
    super("run-owned", message, next, cause);
    this.owner = owner;
  }
}

/** An error during the work on a run, with the id that its remedy names. */
export class RunError extends Error {
  override readonly name = "RunError";
  readonly shortId: string;

  constructor(shortId: string, cause: unknown) {
    super(`run ${shortId} met an error`, { cause });
    this.shortId = shortId;
  }
}

/** Adds the id of a run to an error of `body`. */
export function naming<T>(shortId: string, body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw new RunError(shortId, error);
  }
}

let driven: string | undefined;

/** Sets the run that this process drives; undefined afterwards. */
export function setDrivenRun(shortId: string | undefined): void {
  driven = shortId;
}

/** The run that this process drives, for errors that no code caught. */
export function drivenRun(): string | undefined {
  return driven;
}

/** The refusal for an error; undefined when the error is a bug of Perdure. */
export function asRefusal(error: unknown, shortId?: string): Refusal | undefined {
  if (error instanceof RunError) return asRefusal(error.cause, error.shortId);
  if (error instanceof Refusal) return error;
  if (error instanceof CoreRefusal) {
    const next = shortId === undefined ? command("list", "runs") : command("show", shortId);
    return new Refusal(error.code, error.message, next, error);
  }
  if (error instanceof WorkspaceError) return filesRefusal(error, shortId);
  // A disk failure has the same remedy in the journal, in a projection and in an attempt's folder.
  const { path, code } = error as NodeJS.ErrnoException;
  const stored = storageError(error, path ?? "the state of the run");
  if (!(stored instanceof JournalError)) return undefined;
  const run = shortId === undefined ? [] : [shortId];
  const limit = LIMITS[code ?? ""];
  const next = limit === undefined ? REMEDIES[stored.code](run) : after(limit, "resume", ...run);
  if (stored.code === "stale-writer") return new RunOwned(undefined, stored.message, next, error);
  return new Refusal(`journal-${stored.code}`, stored.message, next, error);
}

/** The remedy for each failure of the journal; `run` is the id of the run, if there is one. */
const REMEDIES: Readonly<Record<JournalErrorCode, (run: readonly string[]) => Next>> = {
  "stale-writer": (run) =>
    when("another process has taken this run over; follow it with", "attach", ...run),
  "disk-full": (run) =>
    after("nothing recorded is lost and running steps continue; free some space", "resume", ...run),
  "read-only": (run) => after("nothing recorded is lost; make .perdure writable", "resume", ...run),
  broken: () =>
    when("set it aside and rebuild it from the events files with", "doctor", "--repair"),
  newer: () => advice("use the newer perdure that wrote it"),
  older: () =>
    advice(
      "finish its runs with the perdure that wrote it, or start again: mv .perdure .perdure.old",
    ),
  "not-set-up": () =>
    when("let a user who may create tables and roles set the store up, with", "store", "init"),
  forbidden: () => advice("use a login with the rights for it: a worker, a submitter, a reader"),
  "login-refused": () =>
    advice("check PERDURE_STORE: user, password, database, and the certificate of the server"),
  busy: (run) =>
    after(
      "end the program that keeps the database locked (`fuser .perdure/state.db` names it)",
      "resume",
      ...run,
    ),
  "unknown-run": () => when("see the existing runs with", "list", "runs"),
  "unknown-blob": () =>
    advice("check that all machines use the same store and the same directory for its files"),
  unreachable: (run) =>
    after(
      "nothing recorded is lost; look at the server and the network between",
      ...(run.length > 0 ? ["show", ...run] : ["list", "runs"]),
    ),
  io: (run) =>
    after("nothing recorded is lost; look at the disk (space, quota, limits)", "resume", ...run),
};

/** The remedy when the system has no more of a resource, by the code of the error. */
const LIMITS: Readonly<Record<string, string>> = {
  EMFILE: "nothing recorded is lost; raise the limit on open files (`ulimit -n 1024`)",
  ENFILE: "nothing recorded is lost; close programs that keep many files open",
  EAGAIN: "nothing recorded is lost; raise the limit on processes (`ulimit -u`)",
  ENOMEM: "nothing recorded is lost; free some memory",
};

/** The refusal for a failure of files or git; its command names the run, if there is one. */
export function filesRefusal(error: WorkspaceError, shortId: string | undefined): Refusal {
  const { code, message, remedy } = error;
  const refusal = (next: Next | readonly Next[]): Refusal =>
    new Refusal(`files-${code}`, message, next, error);
  if (shortId === undefined) return refusal(advice(remedy));
  if (code !== "changed-by-others") return refusal(after(remedy, "resume", shortId));
  return refusal([
    { ...command("resume", shortId, "--files", "keep"), note: "continue with them" },
    { ...command("resume", shortId, "--files", "restore"), note: "set them aside" },
  ]);
}

/** The value of a refusal. */
export function refusalJson(refusal: Refusal): DocumentJson<"error"> {
  if (refusal instanceof PrintedRefusal) return { error: refusal.printed };
  const { code, message, next } = refusal;
  const texts = nextLines(next);
  return {
    error: {
      code,
      message,
      next: next.map(({ command: words }, index) => ({
        text: texts[index] ?? "",
        command: words === undefined ? null : commandText(...words),
      })),
      ...(refusal instanceof PipelineInvalid
        ? { diagnostics: refusal.diagnostics.map(diagnosticJson) }
        : {}),
      ...(refusal instanceof InputRefusal ? { fields: refusal.fields } : {}),
    },
  };
}

/** The value of any error; one that is no refusal is a bug of Perdure. */
export function errorJson(error: unknown): DocumentJson<"error"> {
  const refusal = asRefusal(error);
  if (refusal !== undefined) return refusalJson(refusal);
  const run = error instanceof RunError ? [error.shortId] : [];
  const text = "This is a bug in perdure. The journal is valid; continue";
  const next = [{ text, command: commandText("resume", ...run) }];
  return { error: { code: "internal", message: bugText(error), next } };
}

/** The stack of an error that is a bug of Perdure. */
export function bugText(error: unknown): string {
  const bug = error instanceof RunError ? error.cause : error;
  return bug instanceof Error ? (bug.stack ?? bug.message) : String(bug);
}
