/**
 * A run as lines in the log of GitHub Actions: each attempt's output is a group that folds, and failures
 * are annotations.
 *
 * Groups cannot be mixed, so one attempt at a time is shown while it works; the others follow in the
 * order in which they started, from their first line. Annotations do not wait.
 *
 * Owns: the order of the groups and the lines between them.
 * Does not: change a run, or stop it when no reader is left.
 */

import type { Screen, ScreenOptions } from "../../app/drive/screen.ts";
import { followAttempt, type PrintedAttempt, printedAttempt } from "../../app/output/output.ts";
import { OutputTail, readToEnd } from "../../app/output/output-tail.ts";
import type { AttemptRef, Recorded } from "../../core/event.ts";
import { attemptOf, findVisit, hasProcess, type Run, stepOf } from "../../core/run.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import { AttemptClock, attemptEnd } from "../../view/attempt-history.ts";
import { eventLine } from "../../view/event-line.ts";
import { failureText, messageText, warningMessages } from "../../view/failure-text.ts";
import { plainText } from "../../view/text.ts";
import {
  annotation,
  GROUP_END,
  groupStart,
  harmless,
  workflowOutput,
} from "../../view/workflow-command.ts";
import { print } from "../print.ts";
import { LineQueue, startedBefore } from "./line-queue.ts";

/** How much of an output an annotation quotes. */
const QUOTED_LINES = 10;

/** Resolves when an attempt has ended. */
interface Ending {
  readonly ended: Promise<void>;
  readonly end: () => void;
}

/** The log of a job in GitHub Actions. */
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

  /** Steps that another process started. */
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

  /** One attempt as a group, from its first line to its end. */
  async #show(at: AttemptRef, printed: PrintedAttempt, ended: Promise<void>): Promise<void> {
    const { dir, readers } = this.#options;
    print(groupStart(attemptText(at)));
    const followed = followAttempt(
      { dir, at, readers },
      printed,
      ({ text, mark }) => {
        const plain = plainText(text);
        print(workflowOutput(mark === undefined ? plain : `${mark} │ ${plain}`));
      },
      (error) => this.#queue.fail(error),
    );
    await ended;
    this.#endings.delete(attemptText(at));
    await followed.close();
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
    readToEnd(tail);
    return tail
      .lines()
      .slice(-QUOTED_LINES)
      .map(({ text }) => text);
  }
}
