/**
 * A run as plain lines, for pipes, logs and CI, and as NDJSON, one event a line, for programs.
 *
 * Owns: following the output of running steps, and the order of the lines.
 * Does not: change a run, or stop it when no reader is left.
 */

import type { Screen, ScreenOptions } from "../../app/drive/screen.ts";
import {
  type FollowedAttempt,
  followAttempt,
  type PrintedAttempt,
  type PrintedLine,
  printedAttempt,
} from "../../app/output/output.ts";
import type { AttemptRef, Recorded } from "../../core/event.ts";
import { attemptOf, findVisit, type Run, stepOf } from "../../core/run.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import { AttemptClock, attemptEnd } from "../../view/attempt-history.ts";
import { eventLine } from "../../view/event-line.ts";
import { eventJson } from "../../view/json/part-json.ts";
import { outputLine } from "../../view/text.ts";
import { print, printJson, printRaw } from "../print.ts";
import { LineQueue, startedBefore } from "./line-queue.ts";
import { stdoutStyle } from "./terminal-style.ts";

/** One line per event, and each line of output after the name of its step. */
export class LineScreen implements Screen {
  readonly #options: ScreenOptions;
  readonly #clock = new AttemptClock();
  readonly #style = stdoutStyle();
  readonly #followed = new Map<string, FollowedAttempt>();
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
      // Followed only now, so that no output stands before the line that says whose it is.
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

  /** Steps that another process started: their output is shown from its first byte. */
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
    const onLine = (line: PrintedLine): void =>
      printRaw(outputLine({ path, ...line }, this.#style));
    const onError = (error: unknown): void => this.#queue.fail(error);
    this.#followed.set(
      attemptText(at),
      followAttempt({ dir, at, readers }, printed, onLine, onError),
    );
  }

  #release(key: string): void {
    this.#queue.add(async () => {
      const followed = this.#followed.get(key);
      this.#followed.delete(key);
      await followed?.close();
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
    // Nobody types where a program reads.
  }

  async close(): Promise<void> {
    // Every event was printed when it came.
  }
}

/** Prints events for programs, one a line. */
export function printEvents(runId: string, events: readonly Recorded[]): void {
  for (const recorded of events) printJson(eventJson(runId, recorded), "one-line");
}
