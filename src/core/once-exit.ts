/**
 * How an attempt ends that exited by itself and must not happen twice.
 *
 * Owns: what its exit status proves (O1), and when its probe is asked for the identity of an effect
 * that has happened.
 * Does not: know what follows from the answer (doubt.ts).
 */
import { succeeds } from "./attempt-end.ts";
import type { KeptExit, RunEvent } from "./event.ts";
import type { Ending } from "./fact.ts";
import { attemptOf, stepOf, type Visit } from "./run.ts";

type Exited = Extract<Ending, { how: "exited" }>;

/**
 * The event that ends an attempt of a step that must not happen twice and that exited: `end` for every
 * other step. What succeeded is done; its probe is asked only when somebody wants its identity.
 */
export function exitOnce(
  visit: Visit,
  ending: Exited,
  end: RunEvent,
  wantsIdentity: boolean,
): RunEvent {
  const { once, probe, notDone = [] } = stepOf(visit);
  if (!once || notDone.includes(ending.exit)) return end;
  const at = attemptOf(visit);
  const { spent, snapshot } = ending;
  const unsettled = (cause: "exit" | "identity", message: string): RunEvent => ({
    ...{ type: "step.unsettled", ...at, cause, message },
    asks: probe === undefined ? "person" : "probe",
    exited: keptOf(ending),
    ...(snapshot && { snapshot }),
    ...(spent && { spent }),
  });
  if (end.type === "step.completed") {
    return probe !== undefined && wantsIdentity ? unsettled("identity", "it exited with 0") : end;
  }
  if (end.type !== "step.failed") return end;
  // Only where it leads to is wrong.
  if (succeeds(visit, ending)) return { ...end, effect: "done" };
  const leadsOn = end.retry === undefined && (end.handled === true || end.arrows.length > 0);
  if (probe === undefined && leadsOn) return { ...end, effect: "uncertain" };
  return unsettled("exit", end.message);
}

function keptOf(ending: Exited): KeptExit {
  const { how: _, spent: __, snapshot: ___, fromStream: ____, ...kept } = ending;
  return kept;
}
