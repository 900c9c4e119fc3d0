/**
 * Checks of requests in every simulated run: the invariants request/Q1 to request/Q3 of
 * core/request.ts, and journal/H2.
 *
 * Owns: that each request is handled once, together with what it causes, and none is lost with the
 *   owner that it was sent to.
 * Does not: look at messages for agents (message-checkers.ts).
 */
import type { Recorded, RunEvent } from "../../src/core/event.ts";
import type { Run } from "../../src/core/run.ts";
import { attemptText } from "../../src/core/step-path.ts";
import type { LastingRequest } from "../../src/journal/inbox.ts";
import { Violation } from "./conversation-checkers.ts";

/** The events that may follow a request which was not refused. */
const CAUSED: Readonly<Record<string, readonly RunEvent["type"][]>> = {
  retry: ["run.rewound", "run.restoring", "step.granted"],
  rewind: ["run.rewound"],
  settle: ["step.settled"],
  skip: ["step.skipped", "run.skipping"],
  "add-budget": ["run.funded"],
};

export class RequestCheckers {
  readonly #sent = new Map<string, LastingRequest>();
  readonly #handled = new Set<string>();
  /** Requests that were pending when the current owner took the lease. */
  #pending: readonly string[] = [];

  sent(key: string, request: LastingRequest): void {
    this.#sent.set(key, request);
  }

  /** A new owner takes the lease: its first turn handles what is pending. */
  beforeOwner(): void {
    this.#pending = [...this.#sent.keys()].filter((key) => !this.#handled.has(key));
  }

  afterAppend(recorded: readonly Recorded[], run: Run): void {
    for (const [index, { event, seq }] of recorded.entries()) {
      // The messages of managers are no requests (message-checkers.ts).
      const asked = event.type === "run.messaged" && !event.message.id.startsWith("steer:");
      if (asked) this.#handle(event.message.id);
      if (event.type !== "request.handled") continue;
      this.#handle(event.request);
      const next = recorded[index + 1];
      if (event.refused !== undefined) continue;
      if (next?.seq !== seq + 1 || CAUSED[event.asks]?.includes(next.event.type) !== true) {
        fail(`${event.asks} ${event.request} caused ${next?.event.type ?? "nothing"}`);
      }
      this.#checkAttempt(event.request, next.event);
    }
    if (!recorded.some(({ event }) => event.type === "run.opened")) return;
    if (run.state.status === "created") return;
    for (const key of this.#pending) {
      if (!this.#handled.has(key)) fail(`${key} was lost with its owner`);
    }
  }

  /** A verdict settles the attempt that its asker saw, and no other (request/Q3). */
  #checkAttempt(key: string, caused: RunEvent): void {
    const request = this.#sent.get(key);
    if (request?.type !== "settle" || caused.type !== "step.settled") return;
    const settled = attemptText(caused);
    if (settled !== request.attempt) fail(`${key} is about ${request.attempt}, not ${settled}`);
  }

  #handle(key: string): void {
    if (!this.#sent.has(key)) fail(`${key} was handled, but nobody asked`);
    if (this.#handled.has(key)) fail(`${key} was handled twice`);
    this.#handled.add(key);
  }
}

function fail(message: string): never {
  throw new Violation(message);
}
