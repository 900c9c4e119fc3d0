/** `perdure attach RUN`: shows a run that another process drives. Ctrl-C ends only the showing. */
import { setTimeout as sleep } from "node:timers/promises";
import { evolve } from "../../core/evolve.ts";
import { isIdle } from "../../core/next-actions.ts";
import { redactor } from "../../util/redact.ts";
import { whyLines } from "../../view/why.ts";
import { lineReaders } from "../agent-lines.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { openScreen } from "../open-screen.ts";
import { type OutputOptions, screenKind } from "../output-options.ts";
import { isOutputClosed, print } from "../print.ts";
import {
  type KnownRun,
  livenessOf,
  loadRun,
  openProject,
  type Project,
  resolveRunId,
  whyInputOf,
} from "../project.ts";

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
  return run.state.status === "failed" ? EXIT.failed : EXIT.done;
}

function newestRun({ journal }: Project): string {
  const [newest] = journal.list({ limit: 1 });
  if (newest !== undefined) return newest.runId;
  throw new CliError(EXIT.error, "there are no runs here", "perdure run FILE");
}

async function follow(project: Project, known: KnownRun, options: OutputOptions): Promise<void> {
  const { journal } = project;
  const screen = await openScreen(screenKind(options), {
    runId: known.id,
    shortId: known.shortId,
    past: known.events,
    readers: await lineReaders(known.plan),
    dir: known.dir,
    redact: redactor(process.env),
    now: Date.now,
  });
  let { run } = known;
  screen.say(`Attached to run ${known.id}; Ctrl-C leaves it running.`);
  screen.update([], run);
  const left = new AbortController();
  process.once("SIGINT", () => left.abort());
  while (!left.signal.aborted && !isOutputClosed()) {
    const news = journal.eventsAfter(known.id, run.seq);
    for (const recorded of news) run = evolve(known.planOf, run, recorded);
    if (news.length > 0) screen.update(news, run);
    const over = isIdle(run) && ["completed", "failed", "stopped"].includes(run.state.status);
    const stopped = run.state.status === "stopped";
    if (over || stopped || livenessOf(journal.leaseOf(known.id)) !== "owned") break;
    await sleep(LOOK_MS);
  }
  await screen.close();
}
