/**
 * The notices of a run, as a fold over its events. Each question of a gate, each failure and each
 * completion is a notice to every receiver that the plan names for that kind.
 *
 * Owns: which notices a run has, and their fields for programs.
 * Does not: deliver notices, or know which were delivered (app/notify.ts).
 * Invariants:
 * - notification/N1 The notices follow from the events and the plan alone, so they can be found again
 *   after any kill.
 */
import type { Recorded } from "../core/event.ts";
import { stepPath } from "../core/step-path.ts";
import type { NoticeKind, NoticeReceiver } from "../plan/plan.ts";
import { stopText } from "./failure-text.ts";
import type { PartOf, sentNotice } from "./json/document-parts.ts";
import { timeJson } from "./json/part-json.ts";
import { countText, firstLine, isoText, plainText, utcText } from "./text.ts";

/** How the delivery of a notice stands. */
export interface NoticeDelivery {
  readonly attempts: number;
  readonly sentAt?: number;
  /** Why the last attempt failed. */
  readonly error?: string;
  /** When the next attempt is due; absent when it was sent, or when no attempt is left. */
  readonly nextAt?: number;
}

/** A notice, and how its delivery stands; absent when nobody has tried yet. */
export interface KnownNotice {
  readonly notice: Notice;
  readonly delivery: NoticeDelivery | undefined;
}

/** One message to one receiver. */
export interface Notice {
  /** Unique in the run: the number of its event, and that of its receiver in the plan. */
  readonly id: string;
  readonly kind: NoticeKind;
  readonly time: number;
  /** The step that asks. */
  readonly step?: string;
  /** The question, or why the run failed. */
  readonly message: string;
  readonly receiver: NoticeReceiver;
}

/** All notices of a run, in order. */
export function noticesOf(
  events: Iterable<Recorded>,
  receivers: readonly NoticeReceiver[],
): readonly Notice[] {
  let found: Notice[] = [];
  for (const { event, seq, time } of events) {
    // The other run sent the notices of what happened before the fork.
    if (event.type === "run.forked") found = [];
    const notice = noticeOf(event);
    if (notice === undefined) continue;
    for (const [index, receiver] of receivers.entries()) {
      if (!receiver.on.includes(notice.kind)) continue;
      found.push({ ...notice, id: `${seq}.${index}`, time, receiver });
    }
  }
  return found;
}

/** True when events may have made notices. */
export function hasNotices(events: readonly Recorded[]): boolean {
  return events.some(({ event }) => noticeOf(event) !== undefined);
}

/** A row for each notice. */
export function noticeRows(notices: readonly KnownNotice[]): readonly (readonly string[])[] {
  return notices.map(({ notice, delivery }) => [
    `  ${notice.kind}`,
    plainText(receiverText(notice)),
    deliveryText(delivery),
  ]);
}

function deliveryText(delivery: NoticeDelivery | undefined): string {
  if (delivery === undefined) return "not sent yet";
  const { attempts, sentAt, error = "", nextAt } = delivery;
  if (sentAt !== undefined) return `sent on ${utcText(sentAt)} UTC`;
  const failed = `${countText(attempts, "attempt")} failed (${plainText(error)})`;
  return `${failed}; ${nextAt === undefined ? "given up" : `next on ${utcText(nextAt)} UTC`}`;
}

function receiverText({ receiver: { run, webhook } }: Notice): string {
  return run === undefined ? `webhook ${webhook}` : `run ${firstLine(run)}`;
}

/** The notices of a run, for programs. */
export function noticesJson(notices: readonly KnownNotice[]): readonly PartOf<typeof sentNotice>[] {
  return notices.map(({ notice, delivery }) => ({
    on: notice.kind,
    step: notice.step ?? null,
    time: isoText(notice.time),
    receiver: receiverText(notice),
    attempts: delivery?.attempts ?? 0,
    sent_at: timeJson(delivery?.sentAt),
    error: delivery?.error ?? null,
    next_attempt_at: timeJson(delivery?.nextAt),
  }));
}

function noticeOf(event: Recorded["event"]): Pick<Notice, "kind" | "message" | "step"> | undefined {
  switch (event.type) {
    case "step.asked":
      return { kind: "waiting", step: stepPath(event), message: event.question };
    case "run.stopped": {
      // Only a person can continue it.
      const { code } = event.reason;
      const isStuck = code === "budget" || code === "conflict";
      return isStuck ? { kind: "waiting", message: stopText(event.reason) } : undefined;
    }
    case "run.failed":
      return { kind: "failed", message: event.message };
    case "run.completed":
      return { kind: "completed", message: "" };
    default:
      return undefined;
  }
}
