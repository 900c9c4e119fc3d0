/**
 * Follows a run that another process drives: on a screen, where a person answers its questions, or by
 * waiting for it.
 *
 * Owns: when following is over.
 * Does not: drive the run.
 */
import type { Answer, AttemptRef, Recorded } from "../../core/event.ts";
import { evolve } from "../../core/evolve.ts";
import { isIdle } from "../../core/run.ts";
import type { Answered } from "../../journal/inbox.ts";
import type { Subscription } from "../../journal/subscription.ts";
import { type Display, screenOf } from "../drive/screen.ts";
import { hideSecretsOf, type LoadedRun, readPlans, reloadRun } from "../loaded-run.ts";
import { livenessOf, openProject, type Project } from "../project/project.ts";
import { giveAnswer, openQuestions } from "../request/answer.ts";
import { stopRun } from "../request/stop.ts";

/** The events that end a run. */
const ENDS: ReadonlySet<string> = new Set(["run.completed", "run.failed", "run.stopped"]);

/** The process that watches a run, and the person behind it. */
interface Watcher {
  readonly display: Display;
  /** True when the display is closed. */
  readonly isClosed: () => boolean;
  /** Takes the function to call when the person wants to leave. */
  readonly onLeave: (leave: () => void) => void;
}

/** Shows a run that another process drives, until it ends or its owner is gone. */
export async function followRun(
  project: Project,
  known: LoadedRun,
  { display, isClosed, onLeave }: Watcher,
): Promise<void> {
  const { log, leases } = project.journal;
  const subscription = log.subscribe(known.id);
  let failure: { readonly error: unknown } | undefined;
  const fail = (error: unknown): void => {
    failure = { error };
    subscription.close();
  };
  const prompt = display.openPrompt?.({
    answer: (at, reply) => answerFrom(known, at, reply),
    onGone: () => undefined,
    onError: fail,
  });
  const screen = await display.openScreen({
    ...(await screenOf(project, known)),
    past: known.events,
    now: Date.now,
    footer: prompt && ((width) => prompt.footer(width)),
    controls: {
      role: "watcher",
      stopAfterStep: () => void stopFrom(known).catch(fail),
      detach: () => subscription.close(),
    },
  });
  prompt?.show(screen);
  let { run } = known;
  screen.say(`Attached to run ${known.id}; Ctrl-C leaves it running.`);
  prompt?.update(run);
  screen.update([], run);
  onLeave(() => subscription.close());
  do {
    const news = await log.eventsAfter(known.id, run.seq);
    await readPlans(project, known, news);
    for (const recorded of news) run = evolve(known.planOf, run, recorded);
    if (news.length > 0) {
      hideSecretsOf(known.plan, run);
      prompt?.update(run);
      screen.update(news, run);
    }
    // A run that had ended before may have an owner that is about to continue it.
    const ends = new Set(news.map(({ event }) => event.type).filter((type) => ENDS.has(type)));
    const isOver = ends.has("run.stopped") || (ends.size > 0 && isIdle(run));
    if (isOver || livenessOf(await leases.of(known.id)) !== "owned") break;
  } while ((await subscription.changed()) && !isClosed());
  subscription.close();
  prompt?.close();
  await screen.close();
  if (failure !== undefined) throw failure.error;
}

/** Asks the owner to stop after the steps that are running. */
async function stopFrom(known: LoadedRun): Promise<void> {
  const project = await openProject(process.cwd(), "read-write", known.id);
  try {
    await stopRun(project, known.id, "after-step");
  } finally {
    await project.journal.close();
  }
}

/** Records an answer. A watcher only reads the journal, so it opens it again to write. */
async function answerFrom(
  known: LoadedRun,
  at: AttemptRef,
  reply: Pick<Answer, "choice" | "text">,
): Promise<Answered> {
  const project = await openProject(process.cwd(), "read-write", known.id);
  try {
    return await giveAnswer(project, known, at, { ...reply, from: "terminal" });
  } finally {
    await project.journal.close();
  }
}

/** How often the owner is checked: one that was killed wakes nobody. */
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
    // Subscribed before the run is read, so that no change is missed.
    const subscription = project.journal.log.subscribe(known.id);
    try {
      const before = now.events.length;
      now = await reloadRun(project, now);
      if (now.events.length > before) await onNews(now, now.events.slice(before));
      // An owner of a run that has ended is about to leave it, or to open it again.
      if (now.liveness === "owned") ownedAt = Date.now();
      const isLeft = now.answers.size === 0 || Date.now() - ownedAt > RETURN_MS_MAX;
      const left = until - Date.now();
      const isAsking =
        !pastQuestions && openQuestions(now).some(({ answer }) => answer === undefined);
      const isOver = now.liveness === "owned" ? isAsking : isLeft;
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
  const timer = setTimeout(close, timeoutMs);
  signal.addEventListener("abort", close);
  await subscription.changed();
  clearTimeout(timer);
  signal.removeEventListener("abort", close);
}
