/** `perdure attach RUN`: shows a run that another process drives. Ctrl-C ends only the showing. */

import { giveAnswer } from "../../app/answer.ts";
import {
  hideSecretsOf,
  type KnownRun,
  loadRun,
  readPlans,
  whyInputOf,
} from "../../app/known-run.ts";
import { lineReaders } from "../../app/output.ts";
import { livenessOf, openProject, type Project, resolveRunId } from "../../app/project.ts";
import { command, Refusal } from "../../app/refusal.ts";
import type { Answer, AttemptRef } from "../../core/event.ts";
import { evolve } from "../../core/evolve.ts";
import { isIdle, waitsForPerson } from "../../core/next-actions.ts";
import type { Answered } from "../../journal/inbox.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { whyLines } from "../../view/why.ts";
import { isOutputClosed, print } from "../print.ts";
import { displayOf } from "../screen/display.ts";
import { type OutputOptions, screenKind } from "../screen/output-options.ts";

/** Follows a run until it is over or its owner is gone. */
export async function attachCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const project = await openProject(process.cwd(), "read-only");
  const runId =
    id === undefined ? await newestRun(project) : await resolveRunId(project.journal, id);
  const known = await loadRun(project, runId);
  if (known.liveness === "owned") await follow(project, known, options);
  const { run } = await loadRun(project, runId);
  if (screenKind(options) !== "json") {
    for (const line of whyLines(whyInputOf(await loadRun(project, runId), Date.now()))) print(line);
  }
  if (waitsForPerson(run)) return EXIT.waiting;
  return run.state.status === "failed" ? EXIT.failed : EXIT.done;
}

async function newestRun({ journal }: Project): Promise<string> {
  const [newest] = await journal.log.list({ limit: 1 });
  if (newest !== undefined) return newest.runId;
  throw new Refusal("no-runs", "there are no runs here", command("run", "FILE"));
}

async function follow(project: Project, known: KnownRun, options: OutputOptions): Promise<void> {
  const { log, leases } = project.journal;
  const subscription = log.subscribe(known.id);
  let failure: { readonly error: unknown } | undefined;
  const display = displayOf(screenKind(options));
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
  process.once("SIGINT", () => subscription.close());
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
  } while ((await subscription.changed()) && !isOutputClosed());
  subscription.close();
  prompt?.close();
  await screen.close();
  if (failure !== undefined) throw failure.error;
}

/** Whoever watches only reads, until they answer. */
async function answerFrom(
  known: KnownRun,
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
