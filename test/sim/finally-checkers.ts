/**
 * Checks of `finally` steps in every simulated run: the invariants run-end/N1 and run-end/N2.
 *
 * Owns: that they start after an end was reached, once for each end, one after the other, and that
 *   they hide no failure.
 */
import type { EventOf, RunEvent } from "../../src/core/event.ts";
import { Violation } from "./conversation-checkers.ts";

const SCOPE = /^finally@(\d+)\/$/;

export class FinallyCheckers {
  #end: EventOf<"run.finishing"> | undefined;
  #ends = 0;
  /** The `finally` steps that started and have not ended. */
  readonly #open = new Set<string>();
  readonly #started = new Set<string>();
  readonly #failed = new Set<string>();
  /** A person stops the run. */
  #isStopped = false;
  readonly #expected: boolean;

  /** Whether the plan has `finally` steps. */
  constructor(expected: boolean) {
    this.#expected = expected;
  }

  /** The events of a run, in order. */
  afterEvent(event: RunEvent): void {
    switch (event.type) {
      case "run.opened":
        this.#isStopped = false;
        return;
      case "run.stopping":
        this.#isStopped = event.reason.code !== "budget";
        return;
      case "run.finishing":
        return this.#begin(event);
      case "step.started":
        return this.#start(event);
      case "step.completed":
      case "step.failed":
      case "step.lost":
      case "step.interrupted":
        if (SCOPE.test(event.scope)) this.#stepEnds(event);
        return;
      case "step.skipped":
        this.#open.delete(event.scope + event.step);
        this.#failed.delete(event.scope + event.step);
        return;
      case "run.completed":
      case "run.failed":
        return this.#over(event);
      case "run.stopped":
        if (this.#end?.end.status === "stopped" && event.reason.code === "budget") this.#close();
        return;
      case "run.rewound":
      case "run.updated":
        if (this.#end !== undefined) fail(`${event.type} while the run finishes`);
        return;
      default:
        return;
    }
  }

  #begin(event: EventOf<"run.finishing">): void {
    if (this.#end !== undefined) fail("a run that finishes reached another end");
    if (event.number !== ++this.#ends) fail(`end ${event.number} is the ${this.#ends}. one`);
    if (this.#isStopped) fail("a run that a person stopped has reached no end");
    this.#end = event;
    this.#failed.clear();
  }

  #start({ scope, step, visit, attempt }: EventOf<"step.started">): void {
    const [, number] = SCOPE.exec(scope) ?? [];
    if ((number === undefined) !== (this.#end === undefined)) {
      fail(`${scope}${step} started ${this.#end === undefined ? "before" : "after"} the end`);
    }
    if (number === undefined) return;
    if (Number(number) !== this.#end?.number) fail(`${scope}${step} belongs to another end`);
    if (visit !== 1) fail(`${scope}${step} was visited again`);
    this.#open.delete(scope + step);
    if (this.#open.size > 0) fail(`${scope}${step} did not wait for the one above it`);
    if (attempt === 1 && this.#started.has(scope + step)) fail(`${scope}${step} started twice`);
    this.#started.add(scope + step);
    this.#open.add(scope + step);
  }

  #stepEnds(
    event: EventOf<"step.completed" | "step.failed" | "step.lost" | "step.interrupted">,
  ): void {
    const open = "retry" in event ? event.retry !== undefined : event.type === "step.interrupted";
    if (open) return;
    this.#open.delete(event.scope + event.step);
    const handled = event.type === "step.failed" && event.handled === true;
    if (event.type !== "step.completed" && !handled) this.#failed.add(event.scope + event.step);
  }

  #over(event: EventOf<"run.completed" | "run.failed">): void {
    const end = this.#end?.end;
    if (end === undefined) {
      if (this.#expected) fail(`${event.type} without its finally steps`);
      return;
    }
    const expected = end.status === "completed" && this.#failed.size > 0 ? "failed" : end.status;
    if (event.type !== `run.${expected}`) fail(`${event.type} after the end ${expected}`);
    if (end.status === "failed" && "message" in event && event.message !== end.message) {
      fail("a finally step hid the failure of the run");
    }
    this.#close();
  }

  #close(): void {
    if (this.#open.size > 0) fail(`${[...this.#open].join(", ")} had not ended at the end`);
    this.#end = undefined;
  }
}

function fail(message: string): never {
  throw new Violation(message);
}
