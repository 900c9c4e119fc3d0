/**
 * A run for a program: a handle on a run that this process drives, its events, its state, and the answers
 * that the program gives to its questions.
 *
 * Owns: the events, the result and the stop request of a driven run, and asking the program's function
 * once about each open question. Each reader of events has its own position in the journal, so a slow
 * reader needs no queue and misses nothing.
 * Does not: drive the run (app/drive/drive.ts), handle signals, print, or record answers (room `engine`).
 * Of several answers the first counts, also if it comes from elsewhere.
 * Invariants:
 * - library/H1 A reader is optional: the run continues whether a program reads its events or not.
 * - library/H2 When `done` settles, the lease is released. The process still lives, so a lease that
 *   names it would block the next owner.
 */
import { dirname } from "node:path";
import { driveOwned, type ExecuteOptions } from "../app/drive/drive.ts";
import { OwnerRequests } from "../app/drive/owner-requests.ts";
import { type OwnedRun, own } from "../app/drive/ownership.ts";
import {
  type Display,
  NO_DISPLAY,
  type PromptOptions,
  type QuestionPrompt,
} from "../app/drive/screen.ts";
import { type LoadedRun, loadRun, whyInputOf } from "../app/loaded-run.ts";
import { openProject, type Project } from "../app/project/project.ts";
import { asRefusal, Refusal } from "../app/refusal.ts";
import { replyOf } from "../core/attempt/gate.ts";
import type { Output, StopMode } from "../core/event.ts";
import { waitsFor } from "../core/graph/visit-state.ts";
import { attemptOf, type Run, type Visit } from "../core/run.ts";
import { attemptText } from "../core/step-path.ts";
import { type RunStatus, type StepState, stepStateOf } from "../core/summary.ts";
import type { Journal } from "../journal/journal.ts";
import type { Subscription } from "../journal/subscription.ts";
import type { Json, JsonObject } from "../util/json.ts";
import { EXIT, type ExitCode, exitCodeOf } from "../view/exit-code.ts";
import { type EventJson, eventJson } from "../view/json/part-json.ts";
import { gateName } from "../view/question-text.ts";
import { runStatusOf } from "../view/step-status.ts";
import { type StepNode, stepTree } from "../view/step-tree.ts";
import { type Why, why } from "../view/why.ts";

/** The state of a run after this process has driven it. */
export interface RunResult extends RunView {
  /** The exit status of the command line: 0 done, 3 failed, 5 timed out, 6 waiting, 143 stopped. */
  readonly exitCode: ExitCode;
}

/** A run that this process drives; iterating over it gives its events. */
export interface RunHandle extends AsyncIterable<EventJson> {
  readonly id: string;
  /** The events since this process took the run over; each iterator gets all of them. */
  readonly events: AsyncIterable<EventJson>;
  /**
   * Resolves when this process has finished with the run, even when the pipeline failed. Rejects if
   * the run cannot continue.
   */
  readonly done: Promise<RunResult>;
  /** Stops the run so that it can be resumed; a second call ends its processes at once. */
  stop(mode?: StopMode): Promise<RunResult>;
}

type HandleOptions = Omit<ExecuteOptions, "display" | "openingLines"> & {
  readonly signal?: AbortSignal | undefined;
  readonly answer?: AnswerSource | undefined;
};

/**
 * Acquires a run and drives it; throws if another process owns it. Closes the project at the end.
 */
export async function drivenRun(
  project: Project,
  known: LoadedRun,
  after: number,
  options: HandleOptions,
): Promise<RunHandle> {
  const { id } = known;
  const requests = await OwnerRequests.open(project.journal.inbox, id);
  const display = answeringDisplay(options.answer);
  const owned = await own(project, known, { ...options, beside: true });
  const abort = (): void => requests.end("its program");
  options.signal?.addEventListener("abort", abort);
  if (options.signal?.aborted === true) abort();
  let over = false;
  const drive = async (): Promise<RunResult> => {
    try {
      const run = await driveOwned(project, owned, requests, { ...options, display });
      await project.journal.leases.release(id, owned.epoch);
      const exitCode = exitCodeOf(run, requests.first);
      return { ...runView(await loadRun(project, id)), exitCode };
    } catch (error) {
      await releaseIfPossible(project, owned);
      throw asRefusal(error) ?? error;
    } finally {
      options.signal?.removeEventListener("abort", abort);
      await project.journal.close();
      over = true;
    }
  };
  const from = dirname(project.dir.root);
  return handleOf({ from, runId: id, after, isOver: async () => over }, drive(), (mode) =>
    requests.end("its program", mode),
  );
}

/** The handle of a run that has already ended. */
export async function endedRun(project: Project, known: LoadedRun): Promise<RunHandle> {
  const done = Promise.resolve({ ...runView(known), exitCode: EXIT.done });
  await project.journal.close();
  const { id: runId, run } = known;
  const from = dirname(project.dir.root);
  return handleOf({ from, runId, after: run.seq, isOver: async () => true }, done, () => undefined);
}

function handleOf(
  stream: StreamOptions,
  done: Promise<RunResult>,
  stop: (mode: StopMode | undefined) => void,
): RunHandle {
  async function* events(): AsyncGenerator<EventJson, void> {
    yield* eventStream(stream);
    // A program that only reads events gets the error, too.
    await done;
  }
  // library/H1: the rejection must not end a program that reads neither events nor `done`.
  done.catch(() => undefined);
  return {
    id: stream.runId,
    done,
    events: { [Symbol.asyncIterator]: events },
    [Symbol.asyncIterator]: events,
    stop: (mode) => {
      stop(mode);
      return done;
    },
  };
}

/** Releases the lease; a refusal here (a full disk) must not hide the first error of the run. */
async function releaseIfPossible(project: Project, { known, epoch }: OwnedRun): Promise<void> {
  try {
    await project.journal.leases.release(known.id, epoch);
  } catch (error) {
    if (asRefusal(error) === undefined) throw error;
  }
}

interface StreamOptions {
  /** A directory of the project. */
  readonly from: string;
  readonly runId: string;
  /** Events after this one. */
  readonly after: number;
  /** Called before each read; true when the journal has all events already. */
  readonly isOver: (journal: Journal) => Promise<boolean>;
}

/** Gives the recorded events and then the new ones, until the run has ended. */
export async function* eventStream(options: StreamOptions): AsyncGenerator<EventJson, void> {
  const { journal } = await openProject(options.from, "read-only", options.runId);
  let seq = options.after;
  let subscription: Subscription | undefined;
  try {
    for (;;) {
      const over = await options.isOver(journal);
      const news = await journal.log.eventsAfter(options.runId, seq);
      if (news.length > 0) {
        // The reader may take long; it needs no subscription meanwhile.
        subscription?.close();
        subscription = undefined;
        for (const recorded of news) {
          seq = recorded.seq;
          yield eventJson(options.runId, recorded);
        }
      } else if (over) {
        return;
      } else if (subscription === undefined) {
        subscription = journal.log.subscribe(options.runId);
      } else {
        await subscription.changed();
      }
    }
  } finally {
    await journal.close();
  }
}

export interface RunView {
  readonly id: string;
  readonly pipeline: string;
  readonly status: RunStatus;
  /** The sequence number of the last event in this view. */
  readonly seq: number;
  readonly input: Json;
  /** The run's key-value store. */
  readonly context: JsonObject;
  readonly steps: readonly StepView[];
  /** What happened in words, and the commands that continue from here. */
  readonly why: Why;
}

export interface StepView {
  /** `build`, or `each@1.1[3]/test` for a step inside another step. */
  readonly id: string;
  readonly state: StepState;
  /** The number of the latest visit; 0 when the run has not visited the step. */
  readonly visit: number;
  /** The number of attempts of this visit. */
  readonly attempts: number;
  readonly exit?: number;
  /** Why it failed: the code and the sentence. */
  readonly reason?: string;
  readonly message?: string;
  /** The files that it passes on, by their names. */
  readonly outputs: Readonly<Record<string, Output>>;
  /** The answer of an agent. */
  readonly answer?: Json;
}

/** The view of a loaded run. */
export function runView(known: LoadedRun): RunView {
  const { run, plan, liveness } = known;
  return {
    id: known.id,
    pipeline: plan.name,
    status: runStatusOf(run, liveness),
    seq: run.seq,
    input: run.created?.input ?? null,
    context: Object.fromEntries(run.context),
    steps: Array.from(stepTree(run), stepView),
    why: why(whyInputOf(known, Date.now())),
  };
}

function stepView({ path, record, visit }: StepNode): StepView {
  const state = visit?.state;
  const completed = state?.status === "completed" ? state : undefined;
  const failed = state?.status === "failed" ? state : undefined;
  const exit = completed?.exit ?? failed?.exit;
  return {
    id: path,
    state: record === undefined ? "pending" : stepStateOf(record),
    visit: visit?.number ?? 0,
    attempts: visit?.attempts ?? 0,
    ...(exit === undefined ? {} : { exit }),
    ...(failed === undefined ? {} : { reason: failed.reason }),
    ...(state !== undefined && "message" in state ? { message: state.message } : {}),
    outputs: completed?.outputs ?? {},
    ...(completed?.answer === undefined ? {} : { answer: completed.answer }),
  };
}

/** A question of a run. */
export interface OpenQuestion {
  /** The step that asks, as `perdure answer` names it. */
  readonly gate: string;
  readonly question: string;
  readonly choices: readonly { readonly key: string; readonly label: string }[];
  /** Whether the answer may or must contain a text. */
  readonly text: "none" | "optional" | "required";
}

/** The answer to a question: the key or the label of a choice, and a text. */
export interface QuestionAnswer {
  readonly choice: string;
  readonly text?: string;
}

/** Answers a question; returns nothing to leave it to people. */
export type AnswerSource = (
  question: OpenQuestion,
) => QuestionAnswer | undefined | Promise<QuestionAnswer | undefined>;

/** Shows nothing, and lets a function answer questions. */
function answeringDisplay(source: AnswerSource | undefined): Display {
  if (source === undefined) return NO_DISPLAY;
  return { ...NO_DISPLAY, openPrompt: (options) => new ProgramPrompt(source, options) };
}

class ProgramPrompt implements QuestionPrompt {
  readonly #source: AnswerSource;
  readonly #options: PromptOptions;
  /** The attempts whose questions the function has got. */
  readonly #asked = new Set<string>();
  /** The attempts whose questions it leaves to people. */
  readonly #left = new Set<string>();
  #open: readonly string[] = [];

  constructor(source: AnswerSource, options: PromptOptions) {
    this.#source = source;
    this.#options = options;
  }

  /** False when the function leaves all open questions to people. */
  get isOpen(): boolean {
    return this.#open.length === 0 || this.#open.some((attempt) => !this.#left.has(attempt));
  }

  show(): void {
    // There is no screen.
  }

  footer(): readonly string[] {
    return [];
  }

  close(): void {
    this.#open = [];
  }

  update(run: Run): void {
    const open = [...run.waiting.person];
    this.#open = open.map((visit) => attemptText(attemptOf(visit)));
    for (const visit of open) {
      const attempt = attemptText(attemptOf(visit));
      if (this.#asked.has(attempt)) continue;
      this.#asked.add(attempt);
      this.#ask(visit, attempt).catch((error: unknown) => this.#options.onError(error));
    }
  }

  async #ask(visit: Visit, attempt: string): Promise<void> {
    const { state } = visit;
    if (!waitsFor(state, "person")) return;
    const { question, choices, text } = state;
    const answer = await this.#source({ gate: gateName(visit), question, choices, text });
    if (answer === undefined) {
      this.#left.add(attempt);
      return this.#options.onGone();
    }
    const reply = replyOf(state, answer.choice, answer.text);
    if (!reply.ok) throw new Refusal("bad-answer", `${gateName(visit)}: ${reply.message}`);
    const { ok: _, ...said } = reply;
    await this.#options.answer(attemptOf(visit), said, "program");
  }
}
