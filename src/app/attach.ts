/** Watches a run that another process drives, and answers its questions. */
import type { Answer, AttemptRef } from "../core/event.ts";
import { evolve } from "../core/evolve.ts";
import { isIdle } from "../core/run.ts";
import type { Answered } from "../journal/inbox.ts";
import { giveAnswer } from "./answer.ts";
import { hideSecretsOf, type LoadedRun, readPlans } from "./loaded-run.ts";
import { lineReaders } from "./output.ts";
import { livenessOf, openProject, type Project } from "./project.ts";
import type { Display } from "./screen.ts";

/** Who watches a run. */
interface Watcher {
  readonly display: Display;
  /** True when nobody sees the display any more. */
  readonly isClosed: () => boolean;
  /** Calls back when the person wants to leave. */
  readonly onLeave: (leave: () => void) => void;
}

/** Shows a run that another process drives, until it is over or its owner is gone. */
export async function followRun(
  project: Project,
  known: LoadedRun,
  { display, isClosed, onLeave }: Watcher,
): Promise<void> {
  const { log, leases } = project.journal;
  const subscription = log.subscribe(known.id);
  let failure: { readonly error: unknown } | undefined;
  const prompt = display.openPrompt?.({
    answer: (at, reply) => answerFrom(known, at, reply),
    onGone: () => undefined,
    onError: (error) => {
      failure = { error };
      subscription.close();
    },
  });
  const screen = await display.openScreen({
    runId: known.id,
    shortId: known.shortId,
    past: known.events,
    readers: await lineReaders(known.plan),
    dir: known.dir,
    now: Date.now,
    footer: prompt && ((width) => prompt.footer(width)),
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
    const over = isIdle(run) && ["completed", "failed", "stopped"].includes(run.state.status);
    const stopped = run.state.status === "stopped";
    if (over || stopped || livenessOf(await leases.of(known.id)) !== "owned") break;
  } while ((await subscription.changed()) && !isClosed());
  subscription.close();
  prompt?.close();
  await screen.close();
  if (failure !== undefined) throw failure.error;
}

/** Whoever watches only reads, until they answer. */
async function answerFrom(
  known: LoadedRun,
  at: AttemptRef,
  reply: Pick<Answer, "choice" | "text">,
): Promise<Answered> {
  const project = await openProject(process.cwd(), "read-write");
  try {
    return await giveAnswer(project, known, at, { ...reply, from: "terminal" });
  } finally {
    await project.journal.close();
  }
}
