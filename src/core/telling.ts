/**
 * What of the run is told to an agent at the start of an attempt, and why so much.
 *
 * Owns: what becomes of a wish for `full` that cannot be met, and what is told after a conversation
 * was lost.
 * Does not: choose the conversation (conversation.ts) or write the text (preamble.ts).
 * Invariants:
 * - K6 An attempt that has to begin again before anything was said is told what the one before was
 *   told, word for word: the text is in the event.
 */
import type { Plan } from "../plan/plan.ts";
import { hasBegun, startsAnew } from "./conversation.ts";
import type { Conversation, Telling } from "./event.ts";
import {
  fidelityOf,
  INSTEAD_OF_FULL,
  resumeFidelityOf,
  threadOf,
  type WantedFidelity,
  wayTo,
} from "./fidelity.ts";
import { preambleOf } from "./preamble.ts";
import { type Run, stepOf, type Visit } from "./run.ts";
import { sharingOf } from "./shared-conversation.ts";

/** What the next attempt of a visit is told; undefined when nobody wants anything told. */
export function tellingFor(
  plan: Plan,
  run: Run,
  visit: Visit,
  conversation: Conversation | undefined,
): Telling | undefined {
  if (stepOf(visit).work.kind !== "agent") return undefined;
  const { kind, says = "task" } = conversation ?? {};
  // Its own conversation goes on, and knows all that it was told.
  if (kind === "continue" && says !== "task") return undefined;
  const anew = startsAnew(run, visit);
  const lost = hasBegun(visit) && kind === "start" && !anew;
  const before = toldBefore(visit);
  const again = kind !== "continue" && !lost && !anew;
  if (says === "relayed" || (before !== undefined && again)) return before;
  const wanted = fidelityOf(plan, visit);
  const thread = wanted?.mode === "full" ? threadOf(plan, visit) : undefined;
  const base = thread === undefined ? {} : { thread };
  if (lost) {
    const mode = resumeFidelityOf(plan, visit);
    const why = "it was interrupted, and its conversation is gone";
    return { mode, by: "resume", why, ...base, preamble: preambleOf(run, visit, mode, "lost") };
  }
  if (wanted === undefined) return undefined;
  const { mode, by } = wanted;
  const said = `${sourceText(wanted, visit)} says ${mode}`;
  if (mode !== "full") return { mode, by, why: said, preamble: preambleOf(run, visit, mode) };
  if (kind === "continue") return { mode, by, why: said, ...base };
  const missing = anew ? "it starts again" : whyNotFull(plan, run, visit, conversation);
  if (missing === undefined) return { mode, by, why: said, ...base };
  const why = `${said}, but ${missing}`;
  const preamble = preambleOf(run, visit, INSTEAD_OF_FULL);
  return { mode: INSTEAD_OF_FULL, by, why, ...base, preamble };
}

/** What it was told since it last failed. */
function toldBefore({ telling, failures }: Visit): Telling | undefined {
  if (telling === undefined || telling.failures !== failures) return undefined;
  const { failures: _, ...told } = telling;
  return told;
}

/** Why the conversation that a new one stands for could not be had; undefined for a first one. */
function whyNotFull(
  plan: Plan,
  run: Run,
  visit: Visit,
  conversation: Conversation | undefined,
): string | undefined {
  if (conversation === undefined) return "its agent is a command, which keeps no conversation";
  const sharing = sharingOf(plan, run, visit);
  if (sharing.kind === "none") return undefined;
  return sharing.kind === "barred"
    ? sharing.why
    : `the conversation of ${sharing.shared.step} is gone`;
}

function sourceText({ by }: WantedFidelity, visit: Visit): string {
  if (by !== "edge") return `the ${by}`;
  const way = wayTo(visit);
  const from = way?.scope.graph.steps[way.arrow.from]?.id;
  return from === undefined ? "the edge to it" : `the edge from ${from}`;
}
