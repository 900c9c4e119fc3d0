/**
 * Refusals, and failures of the world around Perdure: a code for programs, a message and the next
 * command for people.
 *
 * Owns: the one type of error that the use cases throw, the remedy for each failure of the journal
 * and of files, and the one text form of the next command.
 * Does not: print, or choose an exit status; the faces do, by the code.
 */
import type { Owner } from "../core/event.ts";
import { Refusal as CoreRefusal } from "../core/graph/rewind.ts";
import { JournalError, type JournalErrorCode } from "../journal/journal.ts";
import { storageError } from "../journal/storage-error.ts";
import type { Diagnostic } from "../pipeline/diagnostic.ts";
import { commandText } from "../view/text.ts";
import { WorkspaceError } from "../workspace/workspace-error.ts";

/** Why something is refused; logic reads this, never the message. */
export type RefusalCode =
  /** An option or an argument that cannot be understood, or that contradicts another one. */
  | "bad-option"
  | "bad-input"
  | "missing-file"
  | "invalid-pipeline"
  /** The plan relies on variables that are not set. */
  | "missing-variables"
  /** Agents or programs that the plan needs are not installed. */
  | "not-ready"
  | "unknown-price"
  | "bad-price-file"
  /** No run was ever started here. */
  | "no-runs"
  | "unknown-run"
  | "ambiguous-run"
  | "no-unfinished-run"
  /** The last run did not simply stop, so somebody has to name the run that is meant. */
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
  /** Processes of a run whose owner is dead, or that nobody here can see. */
  | "steps-alive"
  | "agent-open"
  /** Another run with agents works in the same directory. */
  | "directory-shared"
  | "project-copied"
  /** `perdure clean` has removed the files of the run. */
  | "files-removed"
  /** Something must not happen before a person agrees to it. */
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
  /** A run that changed nothing, or committed nothing. */
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
  | `journal-${JournalErrorCode}`
  | `files-${WorkspaceError["code"]}`;

/** One thing that helps: something to do, a command, or both in this order. */
export interface Next {
  /** For whom the command is: "if you know that it is dead". */
  readonly when?: string;
  /** What to do before the command, or instead of one. */
  readonly first?: string;
  /** The words of the command line behind `perdure`. */
  readonly command?: readonly string[];
  readonly note?: string;
}

/** `perdure WORDS` helps. */
export function command(...words: readonly string[]): Next {
  return { command: words };
}

/** No command helps, but this does. */
export function advice(first: string): Next {
  return { first };
}

/** After that has been done, `perdure WORDS` helps. */
export function after(first: string, ...words: readonly string[]): Next {
  return { first, command: words };
}

/** `perdure WORDS` helps in this case. */
export function when(condition: string, ...words: readonly string[]): Next {
  return { when: condition, command: words };
}

/** What helps, as a person reads it: each way on a line of its own. */
export function nextLines(next: readonly Next[]): readonly string[] {
  return next.map(({ when: condition, first, command: words, note }) => {
    const typed =
      words && `${condition === undefined ? "" : `${condition}: `}${commandText(...words)}`;
    const parts = [first, typed].filter((part) => part !== undefined).join(", then: ");
    return note === undefined ? parts : `${parts}   (${note})`;
  });
}

/** Something that is refused, or that failed outside of Perdure. */
export class Refusal extends Error {
  override readonly name: string = "Refusal";
  readonly code: RefusalCode;
  /** What helps; the likeliest first. */
  readonly next: readonly Next[];

  constructor(code: RefusalCode, message: string, next?: Next | readonly Next[], cause?: unknown) {
    super(message, cause === undefined ? {} : { cause });
    this.code = code;
    this.next = next === undefined ? [] : Array.isArray(next) ? next : [next as Next];
  }
}

/** A pipeline with mistakes; nothing was run. */
export class PipelineInvalid extends Refusal {
  override readonly name = "PipelineInvalid";
  readonly diagnostics: readonly Diagnostic[];
  /** The text of the file, in which the mistakes are shown. */
  readonly text: string;

  constructor(
    message: string,
    next: Next | undefined,
    { diagnostics, text }: { readonly diagnostics: readonly Diagnostic[]; readonly text: string },
  ) {
    super("invalid-pipeline", message, next);
    this.diagnostics = diagnostics;
    this.text = text;
  }
}

/** Another process drives the run. */
export class RunOwned extends Refusal {
  override readonly name = "RunOwned";
  /** Who has it; absent when it was taken from us while we drove it. */
  readonly owner: Owner | undefined;

  constructor(owner: Owner | undefined, message: string, next: Next, cause?: unknown) {
    super("run-owned", message, next, cause);
    this.owner = owner;
  }
}

/** An error that a run met; what helps then names the run. */
export class RunError extends Error {
  override readonly name = "RunError";
  readonly shortId: string;

  constructor(shortId: string, cause: unknown) {
    super(`run ${shortId} met an error`, { cause });
    this.shortId = shortId;
  }
}

/** Names the run in what its body throws. */
export function naming<T>(shortId: string, body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw new RunError(shortId, error);
  }
}

let driven: string | undefined;

/** Says which run this process drives, while it does. */
export function setDrivenRun(shortId: string | undefined): void {
  driven = shortId;
}

/** The run that this process drives now, for errors that nobody awaited. */
export function drivenRun(): string | undefined {
  return driven;
}

/** An error as a refusal; undefined when it is a bug of ours. */
export function asRefusal(error: unknown, shortId?: string): Refusal | undefined {
  if (error instanceof RunError) return asRefusal(error.cause, error.shortId);
  if (error instanceof Refusal) return error;
  if (error instanceof CoreRefusal) {
    const next = shortId === undefined ? command("list", "runs") : command("show", shortId);
    return new Refusal(error.code, error.message, next, error);
  }
  if (error instanceof WorkspaceError) return filesRefusal(error, shortId);
  // A disk that fails under a projection or an attempt's folder is told like one under the journal.
  const { path, code } = error as NodeJS.ErrnoException;
  const stored = storageError(error, path ?? "the state of the run");
  if (!(stored instanceof JournalError)) return undefined;
  const run = shortId === undefined ? [] : [shortId];
  const limit = LIMITS[code ?? ""];
  const next = limit === undefined ? REMEDIES[stored.code](run) : after(limit, "resume", ...run);
  if (stored.code === "stale-writer") return new RunOwned(undefined, stored.message, next, error);
  return new Refusal(`journal-${stored.code}`, stored.message, next, error);
}

/** What helps, by the code of a journal's failure; `run` is the run that met it, if one did. */
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
  busy: (run) =>
    after(
      "end the program that keeps the database locked (`fuser .perdure/state.db` names it)",
      "resume",
      ...run,
    ),
  "unknown-run": () => when("see the existing runs with", "list", "runs"),
  io: (run) =>
    after("nothing recorded is lost; look at the disk (space, quota, limits)", "resume", ...run),
};

/** What helps where the system gives no more of something. */
const LIMITS: Readonly<Record<string, string>> = {
  EMFILE: "nothing recorded is lost; raise the limit on open files (`ulimit -n 1024`)",
  ENFILE: "nothing recorded is lost; close programs that keep many files open",
  EAGAIN: "nothing recorded is lost; raise the limit on processes (`ulimit -u`)",
  ENOMEM: "nothing recorded is lost; free some memory",
};

/** A failure of files or git; without a run, the remedy alone has to do. */
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
