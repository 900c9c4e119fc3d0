/**
 * A run as plain lines, for pipes, logs and CI, and as NDJSON, one event a line, for programs.
 *
 * Owns: following the output of running steps, and the order of the lines.
 * Does not: change a run, or stop it when no reader is left.
 */
import {
  type FollowedAttempt,
  followAttempt,
  type PrintedAttempt,
  type PrintedLine,
  printedAttempt,
} from "../../app/output.ts";
import type { Screen, ScreenOptions } from "../../app/screen.ts";
import type { AttemptRef, Recorded } from "../../core/event.ts";
import { attemptOf, findVisit, type Run, stepOf } from "../../core/run.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import { AttemptClock, attemptEnd } from "../../view/attempt-history.ts";
import { eventLine } from "../../view/event-line.ts";
import { eventJson } from "../../view/json/run-json.ts";
import { outputLine } from "../../view/text.ts";
import { print, printJson } from "../print.ts";
import { stdoutStyle } from "./terminal-style.ts";

/** One line per event, and each line of output behind the name of its step. */
export class LineScreen implements Screen {
  readonly #options: ScreenOptions;
  readonly #clock = new AttemptClock();
  readonly #style = stdoutStyle();
  readonly #followed = new Map<string, FollowedAttempt>();
  /** Lines are printed in order, although the rest of an output is read asynchronously. */
  #tail: Promise<void> = Promise.resolve();
  #failed: { readonly error: unknown } | undefined;
  #primed = false;

  constructor(options: ScreenOptions) {
    this.#options = options;
    for (const recorded of options.past) this.#clock.startOf(recorded);
  }

  say(line: string): void {
    this.#later(() => print(line));
  }

  update(events: readonly Recorded[], run: Run): void {
    if (!this.#primed) this.#adopt(events, run);
    for (const recorded of events) {
      const { event } = recorded;
      const line = eventLine(run, recorded, this.#clock.startOf(recorded));
      const end = attemptEnd(event);
      if (end !== undefined) this.#release(attemptText(end));
      if (line !== undefined) this.say(line);
      // Followed only now, so that no output stands before the line that says whose it is.
      if (event.type === "step.started") {
        const visit = findVisit(run, event);
        const printed = { step: visit && stepOf(visit), judge: event.judge };
        this.#later(() => this.#follow(event, printed));
      }
    }
  }

  refresh(): void {
    // The terminal itself shows what is typed.
  }

  async close(): Promise<void> {
    this.#later(() => {
      for (const key of [...this.#followed.keys()]) this.#release(key);
    });
    for (let tail: unknown; tail !== this.#tail; ) {
      tail = this.#tail;
      await tail;
    }
    if (this.#failed !== undefined && this.#options.onError === undefined) throw this.#failed.error;
  }

  /** Steps that were running before we came: their output is shown from its first byte. */
  #adopt(events: readonly Recorded[], run: Run): void {
    this.#primed = true;
    const fresh = new Set(
      events.flatMap(({ event }) => (event.type === "step.started" ? [attemptText(event)] : [])),
    );
    for (const visit of run.running) {
      const at = attemptOf(visit);
      if (fresh.has(attemptText(at))) continue;
      const printed = printedAttempt(visit);
      this.#later(() => this.#follow(at, printed));
    }
  }

  #follow(at: AttemptRef, printed: PrintedAttempt): void {
    const path = stepPath(at);
    const { dir, readers } = this.#options;
    const onLine = (line: PrintedLine): void => print(outputLine({ path, ...line }, this.#style));
    const onError = (error: unknown): void => this.#fail(error);
    this.#followed.set(
      attemptText(at),
      followAttempt({ dir, at, readers }, printed, onLine, onError),
    );
  }

  #release(key: string): void {
    this.#later(async () => {
      const followed = this.#followed.get(key);
      this.#followed.delete(key);
      await followed?.close();
    });
  }

  #later(action: () => void | Promise<void>): void {
    this.#tail = this.#tail.then(action).catch((error: unknown) => this.#fail(error));
  }

  #fail(error: unknown): void {
    if (this.#failed !== undefined) return;
    this.#failed = { error };
    this.#options.onError?.(error);
  }
}

/** The events as NDJSON, for programs. */
export class JsonScreen implements Screen {
  constructor({ past, runId }: ScreenOptions) {
    // A run that nobody has driven yet: its creation has not been told to anybody.
    const fresh = past.every(({ event }) => event.type === "run.created");
    for (const recorded of fresh ? past : []) printEvent(runId, recorded);
  }

  say(): void {
    // Programs read events, not sentences.
  }

  update(events: readonly Recorded[], run: Run): void {
    for (const recorded of events) printEvent(run.id, recorded);
  }

  refresh(): void {
    // Nobody types where a program reads.
  }

  async close(): Promise<void> {
    // Every event was printed when it came.
  }
}

function printEvent(runId: string, recorded: Recorded): void {
  printJson(eventJson(runId, recorded), "one-line");
}
