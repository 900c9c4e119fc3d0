/**
 * Checks of messages for agents in every simulated run: the invariants message/S1 and message/S2 of
 * core/conversation/message.ts.
 *
 * Owns: that each message reaches the agent of its step, and none reaches a conversation twice.
 * Does not: look at anything else (checkers.ts).
 */
import type { EventOf, RunEvent } from "../../src/core/event.ts";
import { attemptText, stepPath, visitText } from "../../src/core/step-path.ts";
import { Violation } from "./conversation-checkers.ts";

interface Left {
  readonly path: string;
  delivered: boolean;
}

export class MessageCheckers {
  readonly #messages = new Map<string, Left>();
  /** Visit -> the messages in its conversation that the model has answered. */
  readonly #answered = new Map<string, Set<string>>();
  /** Visit -> the messages of its conversation. */
  readonly #said = new Map<string, Set<string>>();

  /** Visits whose work only waits for its merge. */
  readonly #conflicted = new Set<string>();

  afterEvent(event: RunEvent): void {
    if (event.type === "run.messaged") {
      if (this.#messages.has(event.message.id)) fail(`${event.message.id} was recorded twice`);
      this.#messages.set(event.message.id, { path: stepPath(event), delivered: false });
    }
    if (event.type === "run.forked") this.#said.clear();
    if (event.type === "step.conflicted") this.#conflicted.add(visitText(event));
    if (event.type === "step.completed" || event.type === "step.failed") {
      this.#conflicted.delete(visitText(event));
    }
    if (event.type === "step.started") this.#started(event);
    const turns = "spent" in event ? (event.spent?.turns ?? 0) : 0;
    if (turns > 0 && "attempt" in event) this.#answer(visitText(event));
  }

  #started(event: EventOf<"step.started">): void {
    const { conversation, messages = [] } = event;
    const place = visitText(event);
    if (conversation === undefined) {
      if (messages.length > 0) fail(`${attemptText(event)} tells messages to nobody`);
      return;
    }
    if (conversation.kind === "start") {
      this.#said.set(place, new Set());
      this.#answered.set(place, new Set());
    }
    const said = this.#said.get(place) ?? new Set<string>();
    this.#said.set(place, said);
    for (const id of messages) {
      const left = this.#messages.get(id);
      if (left?.path !== stepPath(event)) fail(`${attemptText(event)} tells ${id} of others`);
      if (this.#answered.get(place)?.has(id) === true) fail(`${id} was sent twice to ${place}`);
      said.add(id);
    }
    // Work that only waits for its merge has no process, and who hands over does nothing else.
    if (conversation.says === "relay" || this.#conflicted.has(place)) return;
    for (const [id, { path, delivered }] of this.#messages) {
      if (path !== stepPath(event) || delivered || said.has(id)) continue;
      fail(`${id} was not sent to ${attemptText(event)}`);
    }
  }

  #answer(place: string): void {
    const answered = this.#answered.get(place) ?? new Set<string>();
    this.#answered.set(place, answered);
    for (const id of this.#said.get(place) ?? []) {
      answered.add(id);
      const left = this.#messages.get(id);
      if (left !== undefined) left.delivered = true;
    }
  }
}

function fail(message: string): never {
  throw new Violation(message);
}
