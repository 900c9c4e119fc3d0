/** Opens the parts that the loop of a run needs, each only for plans that need it. */

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Recorded } from "../../core/event.ts";
import type { Fact } from "../../core/fact.ts";
import { planRewind } from "../../core/graph/rewind.ts";
import { attemptOf, type Run } from "../../core/run.ts";
import type { AgentSteps } from "../../engine/agent/agent-steps.ts";
import { type Executor, NO_RESULTS } from "../../engine/executors/executor.ts";
import type { FilesExecutor } from "../../engine/executors/files.ts";
import type { LaunchInput } from "../../engine/launch.ts";
import type { ForeignFiles } from "../../engine/run-workspace.ts";
import { attemptDirOf, runDirOf } from "../../engine/state-dir.ts";
import { mayBeAhead } from "../../journal/events-file.ts";
import { graphsIn } from "../../plan/graph-index.ts";
import type { Graph, Plan } from "../../plan/plan.ts";
import { mayLive } from "../../runner/process/adopt.ts";
import { countText, shortList } from "../../view/text.ts";
import type { AttractorLogFiles } from "../attractor-logs.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { hasAgents, priceListOf } from "../prices.ts";
import type { Project } from "../project/project.ts";
import { after, command, Refusal, RunError } from "../refusal.ts";
import { RunFiles } from "./run-files.ts";
import { relinkWorktrees } from "./run-workspace.ts";
import type { Screen } from "./screen.ts";

/** Starts git on a directory that has snapshots, so that it works while the journal is read. */
export async function askGitEarly({ dir }: Project, directory = dirname(dir.root)): Promise<void> {
  if (!existsSync(join(dir.root, "snapshots.git"))) return;
  const { askEarly } = await import("../../workspace/repository.ts");
  askEarly(directory);
}

/** The executors for the files of a run, and for results of earlier runs. */
interface FileParts {
  readonly kept: FilesExecutor | undefined;
  readonly results: Executor<"recall">;
}

/** Opens these executors; the code of each is loaded only for plans that need it. */
export async function openFiles(
  project: Project,
  known: LoadedRun,
  foreign: ForeignFiles | undefined,
  site: () => LaunchInput,
  screen: Pick<Screen, "say">,
): Promise<FileParts> {
  const { plan } = known;
  const kept = await openFilesExecutor(project, known, foreign, site, screen);
  const graphs = [plan.graph, ...(plan.finally === undefined ? [] : [plan.finally])];
  if (kept === undefined || !graphs.some(hasCache)) return { kept, results: NO_RESULTS };
  const { ResultExecutor } = await import("../../engine/executors/results.ts");
  const index = project.journal.results;
  return { kept, results: new ResultExecutor({ site, store: kept.store, index }) };
}

function hasCache(graph: Graph): boolean {
  return graph.steps.some(
    ({ cache, work }) => cache !== undefined || graphsIn(work).some(hasCache),
  );
}

async function openFilesExecutor(
  project: Project,
  known: LoadedRun,
  foreign: ForeignFiles | undefined,
  site: () => LaunchInput,
  screen: Pick<Screen, "say">,
): Promise<FilesExecutor | undefined> {
  const { plan, run, id } = known;
  const { workspace } = plan;
  if (workspace === undefined || (workspace.kind === "here" && !workspace.snapshots)) {
    return undefined;
  }
  const { WorkspaceError } = await import("../../workspace/workspace-error.ts");
  const { gitVersion } = await import("../../workspace/git.ts");
  const dir = runDirOf(project.dir, id);
  try {
    const open = async (): Promise<FilesExecutor> => {
      const { FilesExecutor } = await import("../../engine/executors/files.ts");
      await relinkWorktrees(project, known);
      return FilesExecutor.open({
        plan: workspace,
        run,
        dir,
        site,
        stateDir: project.dir.root,
        ...(foreign === undefined ? {} : { foreign }),
      });
    };
    // Git reports its version while the rest is loaded and opened.
    const [, files] = await Promise.all([gitVersion(), open()]);
    if (run.workspace === undefined)
      for (const line of await uncommittedLines(known)) screen.say(line);
    return files;
  } catch (error) {
    if (!(error instanceof WorkspaceError)) throw error;
    const needed = run.restoring !== undefined || hasOwnWorkspaces(plan.graph);
    const optional = workspace.kind === "here" && error.code === "git-missing" && !needed;
    if (!optional) throw new RunError(known.shortId, error);
    screen.say(`No snapshots are taken of the files of this run: ${error.message}`);
    return undefined;
  }
}

const FILES_SHOWN_MAX = 5;

/** A line about the uncommitted changes of the project, which a new worktree does not have. */
async function uncommittedLines({ plan, run }: LoadedRun): Promise<readonly string[]> {
  const { workspace } = plan;
  if (workspace?.kind !== "worktree" || workspace.uncommitted === true) return [];
  const { looseFiles } = await import("../../workspace/repository.ts");
  const files = await looseFiles(run.created?.cwd ?? ".");
  if (files.length === 0) return [];
  const shown = shortList(files, FILES_SHOWN_MAX);
  const many = countText(files.length, "uncommitted file");
  const these = files.length === 1 ? "it" : "them";
  return [`The run's worktree lacks ${many}: ${shown} (to include ${these}: include: uncommitted)`];
}

function hasOwnWorkspaces(graph: Graph): boolean {
  return graph.steps.some(({ own, work }) => own === true || graphsIn(work).some(hasOwnWorkspaces));
}

/**
 * Compares the outputs of completed steps with their hashes before any step starts, and restores
 * those that it may. Returns lines for a person. Throws when an output and its copy are both
 * missing.
 */
export async function checkOutputsOnResume(
  { plan, run, events, dir, shortId }: LoadedRun,
  asked: readonly Fact[],
): Promise<readonly string[]> {
  const { currentOutputs, outputsNamedBy } = await import("../../core/outputs.ts");
  if (events.every(({ event }) => outputsNamedBy(event).length === 0)) return [];
  const living = [...run.running].some((visit) => mayLive(attemptDirOf(dir, attemptOf(visit))));
  // A living step may be writing its outputs now.
  if (living) return [];
  // No step will start that could read them.
  if (asked.some((fact) => fact.type === "stop-requested" && fact.mode === "now")) return [];
  const wanted = asked.map((fact) => (fact.type === "requested" ? fact.fact : fact));
  const reopened = wanted.flatMap((fact) =>
    fact.type === "retry-requested" || fact.type === "rewind-requested"
      ? reopenedBy(plan, run, fact.step)
      : [],
  );
  const { checkOutputs, nameOf } = await import("../../engine/evidence/output-check.ts");
  const own = run.workspace !== undefined && run.workspace.kind !== "here";
  const outputs = currentOutputs(run, events, new Set(reopened));
  const roots = [run.workspace?.path ?? run.created?.cwd ?? ".", dir.root];
  const { lines, gone } = await checkOutputs(outputs, { artifacts: dir.artifacts, own, roots });
  const [first] = gone;
  if (first === undefined) return lines;
  const message = `${nameOf(first)} is missing, and so is its kept copy: ${first.output.path}`;
  throw new Refusal("output-missing", message, command("retry", shortId, first.root));
}

/** The steps that a request reopens: they write their outputs again. */
function reopenedBy(plan: Plan, run: Run, step: string): readonly string[] {
  const known = plan.graph.steps.some(({ id }) => id === step);
  return known ? planRewind(plan, run, step).reopened : [];
}

/** Writes the projections of a run, event by event. */
interface RunFilesWriter {
  record(events: readonly Recorded[], run: Run): void;
  close(run: Run): void;
}

/** Opens the files of a run, and those in its `--logs` directory. */
export async function openRunFiles(project: Project, known: LoadedRun): Promise<RunFilesWriter> {
  const attractorLogs = await openAttractorLogs(project, known);
  let opened: RunFiles | undefined;
  const own = (): RunFiles => {
    opened ??= RunFiles.open(known);
    return opened;
  };
  // Otherwise the first record opens them: that takes time for a long run, and steps can start before.
  if (mayBeAhead(known.dir.events, known.run.seq)) own();
  return {
    record: (news, now) => {
      own().record(news, now);
      attractorLogs?.record(news, now);
    },
    close: (now) => own().close(now),
  };
}

/** Opens the `--logs` directory of a run, if it has one. Throws when it cannot be written. */
export async function openAttractorLogs(
  project: Project,
  { plan, run, events, dir, shortId }: LoadedRun,
): Promise<AttractorLogFiles | undefined> {
  const logs = run.created?.logs;
  if (logs === undefined) return undefined;
  const { AttractorLogFiles } = await import("../attractor-logs.ts");
  try {
    return AttractorLogFiles.open({ logs, project: project.dir.root, dir }, plan, run, events);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new Refusal(
      "cannot-write",
      `the directory for --logs cannot be written: ${message}`,
      after("make it writable", "resume", shortId),
    );
  }
}

/** Opens the part that works with agents; undefined for plans without agents. */
export async function openAgents(
  { plan, run }: Pick<LoadedRun, "plan" | "run">,
  site: () => LaunchInput,
): Promise<AgentSteps | undefined> {
  if (!hasAgents(plan)) return undefined;
  const { AgentSteps } = await import("../../engine/agent/agent-steps.ts");
  return new AgentSteps(site, await priceListOf(plan, run));
}
