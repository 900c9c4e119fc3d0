/**
 * Waits for a run that another process drives.
 *
 * Owns: when such a wait is over.
 * Does not: change the run, or show it (attach.ts).
 */
import type { Recorded } from "../../core/event.ts";
import type { Subscription } from "../../journal/subscription.ts";
import { type LoadedRun, reloadRun } from "../loaded-run.ts";
import type { Project } from "../project/project.ts";
import { openQuestions } from "./answer.ts";

/** How often the owner is looked at: a killed one wakes nobody. */
const OWNER_LOOK_MS = 1_000;
/** How long an owner that leaves a run may take to continue it with an answer that came meanwhile. */
const RETURN_MS_MAX = 30_000;

interface WaitOptions {
  readonly timeoutMs: number;
  /** Also waits while a question is open and other steps are running. */
  readonly pastQuestions: boolean;
  /** Ends the wait. */
  readonly signal: AbortSignal;
  /** Gets the events that were recorded meanwhile. */
  readonly onNews: (now: LoadedRun, news: readonly Recorded[]) => Promise<void>;
}

/**
 * Waits until nobody drives a run any more, because it has ended or was killed, or it asks a question,
 * or the time is up. Do not use `known` afterwards.
 */
export async function waitForRun(
  project: Project,
  known: LoadedRun,
  { timeoutMs, pastQuestions, signal, onNews }: WaitOptions,
): Promise<LoadedRun> {
  const until = Date.now() + timeoutMs;
  let now = known;
  let ownedAt = Date.now();
  for (;;) {
    // Before the run is read, so that no change is missed.
    const subscription = project.journal.log.subscribe(known.id);
    try {
      const before = now.events.length;
      now = await reloadRun(project, now);
      if (now.events.length > before) await onNews(now, now.events.slice(before));
      // An owner of a run that has ended is about to leave it, or to open it again.
      if (now.liveness === "owned") ownedAt = Date.now();
      const isLeft = now.answers.size === 0 || Date.now() - ownedAt > RETURN_MS_MAX;
      const left = until - Date.now();
      const isOver = now.liveness === "owned" ? asks(now, pastQuestions) : isLeft;
      if (isOver || left <= 0 || signal.aborted) return now;
      await changedWithin(subscription, Math.min(left, OWNER_LOOK_MS), signal);
    } finally {
      subscription.close();
    }
  }
}

/** Resolves when something may have changed, the time is up, or nobody waits any more. */
async function changedWithin(
  subscription: Subscription,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<void> {
  const close = (): void => subscription.close();
  const patience = setTimeout(close, timeoutMs);
  signal.addEventListener("abort", close);
  await subscription.changed();
  clearTimeout(patience);
  signal.removeEventListener("abort", close);
}

/** True when a person can answer a question of a run now. */
function asks(known: LoadedRun, pastQuestions: boolean): boolean {
  return !pastQuestions && openQuestions(known).some(({ answer }) => answer === undefined);
}
