/**
 * Permissions: what follows from calls that an agent was denied.
 *
 * Owns: when a person is asked about them, the question, and what the answer means.
 * Does not: deny anything (the agent does), or choose between two answers (gate.ts, core/H2).
 * Invariants:
 * - permission/K1 A denied call alone is not a failure: the agent's own result and the step's check
 *   decide, unless the author chose `ask` or `fail`.
 * - permission/K2 A person is asked about the same call once in a visit. The answer holds for all
 *   later attempts of the visit, under any owner.
 */
import type { AgentSettings, Choice, Plan } from "../../plan/plan.ts";
import { covers } from "../../util/agent-access.ts";
import { traceOf } from "../attempt/attempt-end.ts";
import type { Answer, Ask, AttemptRef, RunEvent } from "../event.ts";
import type { Ending } from "../fact.ts";
import { attemptOf, draft, stepOf, type Visit } from "../run.ts";

/** How many calls a person is asked about in one visit. */
const CALLS_ASKED_MAX = 100;

const ALLOW: Choice = { key: "A", label: "allow" };
const DENY: Choice = { key: "D", label: "deny" };

/** The ending of an attempt, with what the author wants done about its denied calls. */
export function afterDenial(plan: Plan, visit: Visit, ending: Ending): Ending {
  const { denied = [] } = ending;
  if (ending.how !== "exited" || denied.length === 0) return ending;
  const { onDenied: wanted = "continue", tools } = settingsOf(plan, visit);
  if (wanted === "fail" && ending.problem === undefined) {
    return { ...ending, problem: { reason: "denied", message: deniedText(denied) } };
  }
  // Work that has passed its check is done, whatever was denied.
  const passed = ending.problem === undefined && ending.check !== undefined;
  // A person cannot allow what the author has denied.
  const open = denied.filter((call) => tools?.deny.some((rule) => covers(rule, call)) !== true);
  const calls = passed || wanted !== "ask" ? [] : unanswered(visit, open);
  if (calls.length === 0) return ending;
  const ask = { kind: "permission", why: deniedText(calls), calls } as const;
  return { how: "asked", ask, ...traceOf(ending) };
}

function settingsOf({ agents }: Plan, visit: Visit): AgentSettings {
  const { work } = stepOf(visit);
  return work.kind === "agent" ? { ...agents[work.agent]?.settings, ...work.settings } : {};
}

/** The calls that no person has answered for; a call that is allowed may still fail. */
function unanswered({ permits }: Visit, denied: readonly string[]): readonly string[] {
  const { allow = [], refuse = [] } = permits ?? {};
  const known = new Set([...allow, ...refuse]);
  if (known.size >= CALLS_ASKED_MAX) return [];
  return denied.filter((call) => !known.has(call));
}

/** A sentence about denied calls. */
export function deniedText(calls: readonly string[]): string {
  return `it was not permitted to use ${calls.join(", ")}`;
}

/** The events that ask a person about denied calls, if the visit needs that next. */
export function permissionQuestion(visit: Visit, at: AttemptRef): readonly RunEvent[] | undefined {
  const ask = visit.conversation?.ask;
  if (ask?.kind !== "permission") return undefined;
  const question = `${stepOf(visit).id} was not permitted to use ${ask.calls.join(", ")}. Allow it?`;
  return [
    { type: "step.started", ...at },
    { type: "step.asked", ...at, question, choices: [ALLOW, DENY], text: "optional" },
  ];
}

/** The event after a person's answer about denied calls: the conversation continues with it. */
export function afterPermission(visit: Visit, answer: Answer): RunEvent {
  const ask = visit.conversation?.ask;
  const calls = ask?.kind === "permission" ? ask.calls : [];
  const allowed = answer.choice === ALLOW.key;
  const words = answer.text === undefined ? "" : `: ${answer.text}`;
  const why = `a person ${allowed ? "allowed" : "denied"} ${calls.join(", ")}${words}`;
  const said: Ask = { kind: "permitted", why, ...(allowed ? { allow: calls } : { refuse: calls }) };
  return { type: "step.continued", ...attemptOf(visit), ask: said };
}

/** Records denied and allowed calls in the visit; for evolve.ts alone (run/C2). */
export function noteDenial(visit: Visit, event: RunEvent): void {
  if (event.type === "step.continued" && event.ask.kind === "permitted") {
    const { allow = [], refuse = [] } = event.ask;
    const before = visit.permits;
    draft(visit).permits = {
      allow: [...(before?.allow ?? []), ...allow],
      refuse: [...(before?.refuse ?? []), ...refuse],
    };
  }
  const denied = "denied" in event ? event.denied : undefined;
  if (denied === undefined) delete draft(visit).denied;
  else draft(visit).denied = denied;
}
