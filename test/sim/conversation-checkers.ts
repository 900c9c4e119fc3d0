/**
 * What must hold of conversations with agents in every simulated run.
 *
 * Owns: who may be in a conversation, what becomes of a request, and that what was used is counted
 * once.
 * Does not: look at anything else (checkers.ts).
 */

import { DETAILS } from "../../src/core/conversation/briefing.ts";
import type { Ask, AttemptRef, Recorded, RunEvent, Spent } from "../../src/core/event.ts";
import { findVisit, type Run } from "../../src/core/run.ts";
import { attemptText, visitText } from "../../src/core/step-path.ts";
import type { Plan } from "../../src/plan/plan.ts";
import type { World } from "./world.ts";

/** Something that must never happen has happened. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** A request that was recorded, and whether an attempt has made it. */
interface Pending {
  readonly at: AttemptRef;
  readonly kind: Ask["kind"];
  said: boolean;
}

/** What is looked at, exact in binary: the world spends halves of dollars. */
const COUNTS = ["inputTokens", "cachedTokens", "outputTokens", "turns", "costUsd"] as const;

export class TalkCheckers {
  #plan: Plan;
  readonly #world: World;
  /** Session -> the visit, or the name, that it belongs to. */
  readonly #owners = new Map<string, string>();
  readonly #pending = new Map<string, Pending>();
  /** Visit -> the conversation that its last attempt was in. */
  readonly #sessions = new Map<string, string | undefined>();
  /** Visit -> the conversation that its next attempt is to continue after a failure. */
  readonly #failed = new Map<string, string>();
  /** Visit -> the conversation of a thread that it was let into. */
  readonly #joined = new Map<string, string>();
  /** The briefing of each visit, as long as nothing calls for another text. */
  readonly #reported = new Map<string, string>();

  constructor(plan: Plan, world: World) {
    this.#plan = plan;
    this.#world = world;
  }

  /** The run goes by another plan. */
  afterUpdate(plan: Plan): void {
    this.#plan = plan;
  }

  /** One process per conversation; one visit per conversation, unless steps share it by name. */
  afterSpawn(at: AttemptRef): void {
    const session = this.#world.processes.get(attemptText(at))?.session;
    if (session === undefined) return;
    const living = this.#world.alive().filter((process) => process.session === session);
    if (living.length > 1) fail(`two living processes are in the conversation ${session}`);
    const joined = this.#joined.get(visitText(at)) === session;
    const owner = (joined ? this.#owners.get(session) : undefined) ?? this.#ownerOf(at);
    const known = this.#owners.get(session) ?? owner;
    if (known !== owner) fail(`${owner} is in the conversation of ${known}`);
    this.#owners.set(session, owner);
  }

  #ownerOf(at: AttemptRef): string {
    const work = this.#plan.graph.steps.find(({ id }) => at.scope === "" && id === at.step)?.work;
    const name = work?.kind === "agent" ? work.session : undefined;
    return name === undefined ? visitText(at) : `session ${name}`;
  }

  /** What is asked for is said by the next attempt in that conversation (core/K2). */
  afterAppend(recorded: readonly Recorded[]): void {
    for (const { event } of recorded) {
      this.#follow(event);
      this.#followFailure(event);
      this.#followBriefing(event);
    }
  }

  /**
   * An attempt that begins again before any answer gets the same briefing (core/K6), and no
   * briefing is too long (core/T1).
   */
  #followBriefing(event: RunEvent): void {
    if (event.type === "step.failed") this.#reported.delete(visitText(event));
    if (event.type === "run.forked") this.#reported.clear();
    if (event.type !== "step.started" || event.fidelity === undefined) return;
    const { conversation, fidelity } = event;
    const { mode, by, preamble = "" } = fidelity;
    const place = visitText(event);
    if (mode === "full" && conversation?.kind === "continue") {
      if (conversation.session !== undefined) this.#joined.set(place, conversation.session);
    } else if (mode !== "full" && preamble.length > DETAILS[mode].total) {
      fail(`${attemptText(event)} has a longer briefing than ${mode} allows`);
    }
    const before = this.#reported.get(place);
    const { kind, why = "" } = conversation ?? {};
    const anew = by === "resume" || kind === "continue" || why.includes("start again");
    if (before !== undefined && before !== preamble && !anew) {
      fail(`${attemptText(event)} has another briefing than before`);
    }
    this.#reported.set(place, preamble);
  }

  /** After a failure the same conversation continues, unless it is gone or not wanted (core/K1). */
  #followFailure(event: RunEvent): void {
    if (event.type === "run.forked") this.#failed.clear();
    if (event.type === "step.session") this.#sessions.set(visitText(event), event.session);
    if (event.type === "step.failed" && event.conversation === "continue") {
      const session = this.#sessions.get(visitText(event));
      if (session !== undefined) this.#failed.set(visitText(event), session);
    }
    if (event.type !== "step.started") return;
    const place = visitText(event);
    const before = this.#failed.get(place);
    const { session, kind, says, gone, why = "" } = event.conversation ?? {};
    this.#failed.delete(place);
    this.#sessions.set(place, session);
    if (before === undefined || kind === undefined) return;
    const anew = gone === true || why.includes("start again") || session === before;
    if (kind === "continue" ? session === before && says === "failed" : anew) return;
    fail(`${attemptText(event)} does not continue ${before} after a failure`);
  }

  #follow(event: RunEvent): void {
    switch (event.type) {
      case "step.continued":
        // A message is sent once and not asked for (message-checkers.ts).
        if (event.ask.kind === "message") this.#pending.delete(visitText(event));
        else this.#pending.set(visitText(event), { at: event, kind: event.ask.kind, said: false });
        return;
      case "step.started": {
        const pending = this.#pending.get(visitText(event));
        if (pending === undefined || event.conversation === undefined) return;
        const { kind, says } = event.conversation;
        // A message is sent once; an attempt that is interrupted after that only learns of the
        // interruption.
        const over = says === "permitted" && pending.kind === "permitted";
        if (kind === "start" || says === "task" || over) this.#pending.delete(visitText(event));
        else if (says !== pending.kind) {
          fail(`${attemptText(event)} says ${says}, but ${pending.kind} was to be asked`);
        }
        pending.said = true;
        return;
      }
      case "step.asked": {
        // A person is asked, before the agent hears anything.
        const pending = this.#pending.get(visitText(event));
        if (pending?.kind === "permission") pending.said = true;
        return;
      }
      case "step.relayed":
      case "step.completed":
      case "step.failed":
        this.#pending.delete(visitText(event));
        return;
      case "step.paused":
        if (event.reason === "session-gone") this.#pending.delete(visitText(event));
        return;
      default:
    }
  }

  /** A run that is over has asked what was to be asked, and knows what all of it used. */
  afterOwner(run: Run, status: string, events: readonly Recorded[]): void {
    this.#countedOnce(run, events);
    if (status === "stopped" || run.finishing?.status === "stopped") return;
    for (const { at, kind, said } of this.#pending.values()) {
      const state = findVisit(run, at)?.state.status;
      // An edit may have taken its step away.
      const over =
        state === undefined || ["failed", "abandoned", "completed", "skipped"].includes(state);
      if (!said && !over) fail(`${visitText(at)} was never asked: ${kind}`);
    }
  }

  #countedOnce(run: Run, events: readonly Recorded[]): void {
    const charged = new Set<string>();
    const sum = { inputTokens: 0, cachedTokens: 0, outputTokens: 0, turns: 0, costUsd: 0 };
    for (const { event } of events) {
      const spent: Spent | undefined = "spent" in event ? event.spent : undefined;
      if (spent === undefined || !("attempt" in event)) continue;
      if (charged.has(attemptText(event))) fail(`${attemptText(event)} was charged twice`);
      charged.add(attemptText(event));
      for (const count of COUNTS) sum[count] += spent[count] ?? 0;
    }
    for (const count of COUNTS) {
      const reported = run.spent[count] ?? 0;
      if (reported !== sum[count])
        fail(`${count}: the run has ${reported}, its events ${sum[count]}`);
    }
  }
}

function fail(message: string): never {
  throw new Violation(message);
}
