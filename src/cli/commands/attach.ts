/** `perdure attach RUN`: shows a run that another process drives. Ctrl-C ends only the showing. */
import { setTimeout as sleep } from "node:timers/promises";
import { lineReaders } from "../../app/agent-lines.ts";
import { giveAnswer } from "../../app/give-answer.ts";
import { hideSecretsOf, type KnownRun, loadRun, whyInputOf } from "../../app/known-run.ts";
import { livenessOf, openProject, type Project, resolveRunId } from "../../app/project.ts";
import { command, Refusal } from "../../app/refusal.ts";
import type { Answer, AttemptRef } from "../../core/event.ts";
import { evolve } from "../../core/evolve.ts";
import { isIdle, waitsForPerson } from "../../core/next-actions.ts";
import type { Answered } from "../../journal/journal.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { whyLines } from "../../view/why.ts";
import { isOutputClosed, print } from "../print.ts";
import { displayOf } from "../screen/display.ts";
import { type OutputOptions, screenKind } from "../screen/output-options.ts";

/** How often the journal is asked for news. */
const LOOK_MS = 100;

/** Follows a run until it is over or its owner is gone. */
export async function attachCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-only");
  const runId = id === undefined ? newestRun(project) : resolveRunId(project.journal, id);
  const known = loadRun(project, runId);
  if (known.liveness === "owned") await follow(project, known, options);
  const { run } = loadRun(project, runId);
  if (screenKind(options) !== "json") {
    for (const line of whyLines(whyInputOf(loadRun(project, runId), Date.now()))) print(line);
  }
  if (waitsForPerson(run)) return EXIT.waiting;
  return run.state.status === "failed" ? EXIT.failed : EXIT.done;
}

function newestRun({ journal }: Project): string {
  const [newest] = journal.list({ limit: 1 });
  if (newest !== undefined) return newest.runId;
  throw new Refusal("no-runs", "there are no runs here", command("run", "FILE"));
}

async function follow(project: Project, known: KnownRun, options: OutputOptions): Promise<void> {
  const { journal } = project;
  const display = displayOf(screenKind(options));
  const prompt = display.openPrompt?.({
    answer: (at, reply) => answerFrom(known, at, reply),
    onGone: () => undefined,
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
  const left = new AbortController();
  process.once("SIGINT", () => left.abort());
  while (!left.signal.aborted && !isOutputClosed()) {
    const news = journal.eventsAfter(known.id, run.seq);
    for (const recorded of news) run = evolve(known.planOf, run, recorded);
    if (news.length > 0) {
      hideSecretsOf(known.plan, run);
      prompt?.update(run);
      screen.update(news, run);
    }
    const over = isIdle(run) && ["completed", "failed", "stopped"].includes(run.state.status);
    const stopped = run.state.status === "stopped";
    if (over || stopped || livenessOf(journal.leaseOf(known.id)) !== "owned") break;
    await sleep(LOOK_MS);
  }
  prompt?.close();
  await screen.close();
}

/** Whoever watches only reads, until they answer. */
function answerFrom(
  known: KnownRun,
  at: AttemptRef,
  reply: Pick<Answer, "choice" | "text">,
): Answered {
  const project = openProject(process.cwd(), "read-write");
  try {
    return giveAnswer(project, known, at, { ...reply, from: "terminal" });
  } finally {
    project.journal.close();
  }
}
