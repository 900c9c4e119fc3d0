/**
 * A run as plain lines, for pipes, logs and CI; as lines in the log of GitHub Actions; and as NDJSON, one
 * event a line, for programs.
 *
 * In the log of GitHub Actions each attempt's output is a group that folds, and failures are annotations.
 * Groups cannot be mixed, so one attempt at a time is shown while it works; the others follow in the
 * order in which they started, from their first line. Annotations do not wait.
 *
 * Owns: following the output of running steps; the order of the lines, some of which wait for output
 * that is read asynchronously; and the first error of a screen.
 * Does not: change a run, or stop it when no reader is left.
 */
import type { Screen, ScreenOptions } from "../../app/drive/screen.ts";
import {
  followAttempt,
  markedText,
  type OutputLine,
  type PrintedAttempt,
  printedAttempt,
} from "../../app/output/output.ts";
import { OutputTail } from "../../app/output/output-tail.ts";
import type { AttemptRef, Recorded } from "../../core/event.ts";
import { attemptOf, findVisit, hasProcess, type Run, stepOf, type Visit } from "../../core/run.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import { AttemptClock, attemptEnd } from "../../view/attempt-history.ts";
import { eventLine } from "../../view/event-line.ts";
import { failureText, messageText, warningMessages } from "../../view/failure-text.ts";
import { eventJson } from "../../view/json/part-json.ts";
import { outputLine, plainText } from "../../view/text.ts";
import {
  annotation,
  GROUP_END,
  groupStart,
  harmless,
  workflowOutput,
} from "../../view/workflow-command.ts";
import { print, printJson, printRaw } from "../print.ts";
import { stdoutStyle } from "../terminal.ts";

/** One line per event, and each line of output after the name of its step. */
export class LineScreen implements Screen {
  readonly #options: ScreenOptions;
  readonly #clock = new AttemptClock();
  readonly #style = stdoutStyle();
  /** How to stop following each attempt. */
  readonly #followed = new Map<string, () => Promise<void>>();
  readonly #queue: LineQueue;
  #isFirst = true;

  constructor(options: ScreenOptions) {
    this.#options = options;
    this.#queue = new LineQueue(options);
    for (const recorded of options.past) this.#clock.startOf(recorded);
  }

  say(line: string): void {
    this.#queue.add(() => print(line));
  }

  update(events: readonly Recorded[], run: Run): void {
    if (this.#isFirst) this.#adopt(events, run);
    this.#isFirst = false;
    for (const recorded of events) {
      const { event } = recorded;
      const line = eventLine(run, recorded, this.#clock.startOf(recorded));
      const end = attemptEnd(event);
      if (end !== undefined) this.#release(attemptText(end));
      if (line !== undefined) this.say(line);
      // Followed only now, so that the output comes after the line that names its step.
      if (event.type === "step.started") {
        const visit = findVisit(run, event);
        const printed = { step: visit && stepOf(visit), judge: event.judge };
        this.#queue.add(() => this.#follow(event, printed));
      }
    }
  }

  refresh(): void {
    // The terminal itself shows what is typed.
  }

  async close(): Promise<void> {
    this.#queue.add(() => {
      for (const key of [...this.#followed.keys()]) this.#release(key);
    });
    await this.#queue.end();
  }

  /** Shows the output of steps that another process started, from its first byte. */
  #adopt(events: readonly Recorded[], run: Run): void {
    for (const visit of startedBefore(events, run)) {
      const at = attemptOf(visit);
      const printed = printedAttempt(visit);
      this.#queue.add(() => this.#follow(at, printed));
    }
  }

  #follow(at: AttemptRef, printed: PrintedAttempt): void {
    const path = stepPath(at);
    const { dir, readers } = this.#options;
    const onLine = (line: OutputLine): void => printRaw(outputLine({ path, ...line }, this.#style));
    const onError = (error: unknown): void => this.#queue.fail(error);
    this.#followed.set(
      attemptText(at),
      followAttempt({ dir, at, readers }, printed, onLine, onError),
    );
  }

  #release(key: string): void {
    this.#queue.add(async () => {
      const stop = this.#followed.get(key);
      this.#followed.delete(key);
      await stop?.();
    });
  }
}

/** The events as NDJSON, for programs. */
export class JsonScreen implements Screen {
  constructor({ past, runId, controls }: ScreenOptions) {
    // The owner of a new run prints its creation, too. A watcher gets all events.
    const isNew = past.every(({ event }) => event.type === "run.created");
    if (isNew || controls?.role === "watcher") printEvents(runId, past);
  }

  say(): void {
    // Programs read events, not sentences.
  }

  update(events: readonly Recorded[], run: Run): void {
    printEvents(run.id, events);
  }

  refresh(): void {
    // A program reads this, so nobody types.
  }

  async close(): Promise<void> {
    // Every event was printed when it came.
  }
}

/** Prints events for programs, one a line. */
export function printEvents(runId: string, events: readonly Recorded[]): void {
  for (const recorded of events) printJson(eventJson(runId, recorded), "one-line");
}

/** Carries out actions one after the other. */
class LineQueue {
  readonly #onError: ScreenOptions["onError"];
  #last: Promise<void> = Promise.resolve();
  #failed: { readonly error: unknown } | undefined;

  constructor({ onError }: ScreenOptions) {
    this.#onError = onError;
  }

  add(action: () => void | Promise<void>): void {
    this.#last = this.#last.then(action).catch((error: unknown) => this.fail(error));
  }

  /** Reports an error, if it is the first one. */
  fail(error: unknown): void {
    if (this.#failed !== undefined) return;
    this.#failed = { error };
    this.#onError?.(error);
  }

  /** Waits for all actions; throws their first error if it could not be reported. */
  async end(): Promise<void> {
    for (let last: unknown; last !== this.#last; ) {
      last = this.#last;
      await last;
    }
    if (this.#failed !== undefined && this.#onError === undefined) throw this.#failed.error;
  }
}

/** The running visits that another process started, because none of these events starts them. */
function startedBefore(events: readonly Recorded[], run: Run): readonly Visit[] {
  const started = new Set(
    events.flatMap(({ event }) => (event.type === "step.started" ? [attemptText(event)] : [])),
  );
  return [...run.running].filter((visit) => !started.has(attemptText(attemptOf(visit))));
}

/** How many lines of output an annotation quotes. */
const QUOTED_LINES = 10;

/** Resolves when an attempt has ended. */
interface Ending {
  readonly ended: Promise<void>;
  readonly end: () => void;
}

/** A run in the log of a job in GitHub Actions. */
export class WorkflowScreen implements Screen {
  readonly #options: ScreenOptions;
  readonly #clock = new AttemptClock();
  readonly #endings = new Map<string, Ending>();
  readonly #queue: LineQueue;
  #isFirst = true;

  constructor(options: ScreenOptions) {
    this.#options = options;
    this.#queue = new LineQueue(options);
    for (const recorded of options.past) this.#clock.startOf(recorded);
  }

  say(line: string): void {
    this.#queue.add(() => print(harmless(line)));
  }

  update(events: readonly Recorded[], run: Run): void {
    if (this.#isFirst) this.#adopt(events, run);
    this.#isFirst = false;
    for (const recorded of events) {
      const { event } = recorded;
      const line = eventLine(run, recorded, this.#clock.startOf(recorded));
      if (event.type === "step.started") this.#begin(run, event, event.judge);
      else if (line !== undefined) this.say(line);
      const end = event.type === "step.uncertain" ? event : attemptEnd(event);
      if (end !== undefined) this.#endings.get(attemptText(end))?.end();
      this.#annotate(recorded, run);
    }
  }

  refresh(): void {
    // Nobody types here.
  }

  async close(): Promise<void> {
    for (const { end } of this.#endings.values()) end();
    await this.#queue.end();
  }

  /** Shows the output of steps that another process started. */
  #adopt(events: readonly Recorded[], run: Run): void {
    for (const visit of startedBefore(events, run)) {
      this.#begin(run, attemptOf(visit), printedAttempt(visit).judge);
    }
  }

  #begin(run: Run, at: AttemptRef, judge: string | undefined): void {
    const visit = findVisit(run, at);
    if (visit === undefined || !hasProcess(stepOf(visit))) return;
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    this.#endings.set(attemptText(at), { ended, end });
    this.#queue.add(() => this.#show(at, { step: stepOf(visit), judge }, ended));
  }

  /** Prints an attempt as a group, from its first line to its end. */
  async #show(at: AttemptRef, printed: PrintedAttempt, ended: Promise<void>): Promise<void> {
    const { dir, readers } = this.#options;
    print(groupStart(attemptText(at)));
    const stop = followAttempt(
      { dir, at, readers },
      printed,
      (line) => print(workflowOutput(markedText({ ...line, text: plainText(line.text) }))),
      (error) => this.#queue.fail(error),
    );
    await ended;
    this.#endings.delete(attemptText(at));
    await stop();
    print(GROUP_END);
  }

  #annotate({ event }: Recorded, run: Run): void {
    switch (event.type) {
      case "step.failed": {
        const level = event.retry === undefined && event.handled !== true ? "error" : "warning";
        const quoted = this.#endOf(run, event);
        const message = [failureText(event), ...quoted].join("\n");
        print(annotation(level, `${stepPath(event)} failed`, harmless(message)));
        return;
      }
      case "step.completed":
        for (const message of warningMessages(event)) {
          print(annotation("warning", stepPath(event), harmless(message)));
        }
        return;
      case "run.failed":
        print(annotation("error", "The run failed", harmless(messageText(event.message))));
        return;
      default:
    }
  }

  #endOf(run: Run, at: AttemptRef): readonly string[] {
    const visit = findVisit(run, at);
    if (visit === undefined || !hasProcess(stepOf(visit))) return [];
    const { dir, readers } = this.#options;
    const tail = new OutputTail({ dir, at, readers }, { step: stepOf(visit) });
    tail.readToEnd();
    return tail
      .lines()
      .slice(-QUOTED_LINES)
      .map(({ text }) => text);
  }
}
