/**
 * Steering: the manager of a sub-pipeline sends its instructions to the agents at work in it.
 *
 * Owns: which agents get them, and when.
 * Does not: deliver messages (message.ts).
 * Invariants:
 * - steering/V1 A visit gets the same instructions once, and at most `STEERINGS_MAX` of them: each
 *   message costs a turn.
 */
import type { Message } from "../event.ts";
import { earlyEnd } from "../graph/early-end.ts";
import { type Run, stepOf, type Visit, visitRef } from "../run.ts";
import { visitText } from "../step-path.ts";
import { renderIn } from "../values.ts";
import { messagesFor } from "./message.ts";

/** How many messages of its manager a visit gets. */
const STEERINGS_MAX = 20;
/** The ids of these messages begin with it. */
const MARK = "steer:";

/** A message of a manager that is due. */
interface DueSteering {
  readonly visit: Visit;
  readonly message: Message;
}

interface Steering {
  readonly due: readonly DueSteering[];
  /** When the next one may be due. */
  readonly nextAt?: number;
}

/** The messages that managers send now, and when they look again. */
export function steeringOf(run: Run, now: number): Steering {
  if (run.composites.size === 0) return { due: [] };
  const due: DueSteering[] = [];
  let nextAt: number | undefined;
  for (const visit of run.running) {
    const manager = managerOf(visit);
    if (manager === undefined || earlyEnd(run, manager, now) !== undefined) continue;
    const { at, number } = turnOf(run, visit, manager);
    if (number > STEERINGS_MAX) continue;
    if (at > now) nextAt = Math.min(nextAt ?? at, at);
    else {
      const message = messageOf(run, visit, manager, { number, now });
      if (message !== undefined) due.push({ visit, message });
    }
  }
  return nextAt === undefined ? { due } : { due, nextAt };
}

/** The nearest manager that steers the agent of a visit. */
function managerOf(visit: Visit): Visit | undefined {
  const { work, once } = stepOf(visit);
  const talks = visit.conversation?.conversation !== undefined && visit.held === undefined;
  if (work.kind !== "agent" || once || !talks) return undefined;
  for (let at = visit.record.scope.parent; at !== undefined; at = at.record.scope.parent) {
    if (steerOf(at) !== undefined) return at;
  }
  return undefined;
}

function steerOf(visit: Visit): { readonly says: string; readonly everyMs: number } | undefined {
  const { work } = stepOf(visit);
  return work.kind === "pipeline" ? work.watch?.steer : undefined;
}

/** When a visit may get its next message, and which one that is. */
function turnOf(run: Run, visit: Visit, manager: Visit) {
  const sent = steered(run, visit);
  const since = visit.state.status === "running" ? visit.state.since : 0;
  const last = Math.max(since, ...sent.map(({ given }) => given));
  return { at: last + (steerOf(manager)?.everyMs ?? 0), number: sent.length + 1 };
}

/** The messages that managers have sent to a visit, or that wait for it. */
function steered(run: Run, visit: Visit): readonly Message[] {
  const end = `:${visitText(visitRef(visit))}:`;
  return messagesFor(run, visitRef(visit)).filter(({ id, sent = [] }) => {
    return (
      id.startsWith(MARK) && (id.endsWith(end) || sent.some((one) => one.visit === visit.number))
    );
  });
}

/** The message, unless the visit has got these instructions already (steering/V1). */
function messageOf(
  run: Run,
  visit: Visit,
  manager: Visit,
  { number, now }: { readonly number: number; readonly now: number },
): Message | undefined {
  const rendered = renderIn(run, manager, steerOf(manager)?.says ?? "");
  // Instructions that cannot be rendered now are not sent; the next turn tries again.
  if (!rendered.ok || rendered.text.trim() === "") return undefined;
  if (steered(run, visit).some(({ text }) => text === rendered.text)) return undefined;
  const from = visitText(visitRef(manager));
  // No id is the beginning of another one: transcripts are searched for it (message/S1).
  const id = `${MARK}${number}:${from}:${visitText(visitRef(visit))}:`;
  return { id, text: rendered.text, by: stepOf(manager).id, given: now };
}
