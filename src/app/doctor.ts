/**
 * Checks this machine, a pipeline, and the state of a project; repairs the state.
 *
 * Owns: the list of checks.
 * Does not: know how a journal is repaired (journal/repair/repair.ts).
 */
import { execFile } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { replay } from "../core/evolve.ts";
import { fullSummary } from "../core/summary.ts";
import { workspaceOf } from "../engine/launch.ts";
import { runDirOf, type StateDir, stateDirOf } from "../engine/state-dir.ts";
import { openJournal } from "../journal/open.ts";
import { checkState, LivingRunError, type RepairReport, repair } from "../journal/repair/repair.ts";
import { envNamesOf } from "../plan/build.ts";
import { graphsIn, graphsOf } from "../plan/graph-index.ts";
import type { Graph, Plan, Step } from "../plan/plan.ts";
import { agentAdapter } from "../runner/agents/registry.ts";
import { sandboxProblem } from "../runner/process/sandbox.ts";
import { isolationProblem } from "../runner/process/start.ts";
import { KNOWN_AGENTS } from "../util/agent-access.ts";
import { firstLine } from "../view/text.ts";
import { WorkspaceError } from "../workspace/workspace-error.ts";
import type { findLeftovers } from "../workspace/worktree/worktree-list.ts";
import { isOwnerAlive } from "./drive/owner.ts";
import { parsePlan } from "./loaded-run.ts";
import { agentProgram, type Finding, preflight } from "./preflight.ts";
import { priceFile, priceListOf } from "./prices.ts";
import { findStateDir, isUnused, livenessOf } from "./project/project.ts";
import { after, command, Refusal } from "./refusal.ts";

const UNFINISHED_SHOWN_MAX = 20;

/** Lines about this machine: agents, prices, isolation. */
export async function machineLines(): Promise<readonly string[]> {
  return [...(await agentLines()), await pricesLine(), isolationLine(), ...sandboxLines()];
}

/** Checks what a pipeline needs: everything that the preflight checks, and the variables. */
export async function pipelineFindings(plan: Plan): Promise<readonly Finding[]> {
  const site = { cwd: process.cwd(), env: process.env, prices: await priceListOf(plan) };
  return [...variableFindings(envNamesOf(plan)), ...preflight(plan, site)];
}

/** The state directory that serves a directory; undefined when it never had a run. */
export function usedStateDir(from: string): StateDir | undefined {
  const dir = findStateDir(from);
  return dir === undefined || isUnused(dir) ? undefined : dir;
}

/** The problems of the journal. Throws when there is no journal. */
export function journalProblems(dir: StateDir): ReturnType<typeof checkState> {
  if (existsSync(dir.database)) return checkState(dir.root);
  const message = `${dir.database} is missing`;
  throw new Refusal("missing-journal", message, command("doctor", "--repair"));
}

function variableFindings(names: readonly string[]): readonly Finding[] {
  return names.map((name) =>
    process.env[name] === undefined
      ? { state: "missing", text: `${name} is not set`, remedy: `export ${name}=...` }
      : { state: "there", text: `${name} is set` },
  );
}

/** The leftovers of killed git commands; none without git. */
export async function leftoversIn(root: string): ReturnType<typeof findLeftovers> {
  const worktrees = await import("../workspace/worktree/worktree-list.ts");
  try {
    return await worktrees.findLeftovers(dirname(root), root);
  } catch (error) {
    if (error instanceof WorkspaceError && error.code === "git-missing") return [];
    throw error;
  }
}

/** Removes the leftovers of killed git commands and returns them. */
export async function removeLeftovers(root: string): ReturnType<typeof findLeftovers> {
  const leftovers = await leftoversIn(root);
  for (const { path } of leftovers) rmSync(path, { recursive: true, force: true });
  return leftovers;
}

async function pricesLine(): Promise<string> {
  const { LIST_DATE } = await import("../runner/agents/usage.ts");
  const prices = (await priceListOf({})).all();
  const own = prices.filter(({ price }) => price.origin === "file").length;
  const yours = own === 0 ? "" : `, ${own} of them from ${priceFile()}`;
  return `✓ prices of ${prices.length} models, as of ${LIST_DATE}${yours}: perdure prices`;
}

function isolationLine(): string {
  const problem = isolationProblem();
  return problem === undefined
    ? "✓ steps can be isolated: `isolate: true` works here"
    : `· steps cannot be isolated here: ${firstLine(problem)}`;
}

/** Which sandboxes steps may have here. */
function sandboxLines(): readonly string[] {
  return [
    { written: "bubblewrap", problem: sandboxProblem({}) },
    { written: "{image: ...}", problem: sandboxProblem({ image: "" }) },
  ].map(({ written, problem }) =>
    problem === undefined
      ? `✓ steps can run in a sandbox: \`runs_in: ${written}\` works here`
      : `· \`runs_in: ${written}\` does not work here: ${firstLine(problem)}`,
  );
}

/** A run that has neither completed nor failed. */
interface UnfinishedRun {
  readonly runId: string;
  readonly pipeline: string;
  readonly state: "waiting" | "running" | "interrupted";
}

/** The newest runs that have neither completed nor failed. */
export async function unfinishedRuns({ database }: StateDir): Promise<readonly UnfinishedRun[]> {
  const journal = await openJournal(database, "read-only");
  const open = await journal.log.list({
    status: ["queued", "running", "waiting", "interrupted"],
    limit: UNFINISHED_SHOWN_MAX,
  });
  await journal.close();
  return open.map(({ runId, pipeline, lease, status }) => {
    const driven = livenessOf(lease) === "owned" ? "running" : "interrupted";
    return { runId, pipeline, state: status === "waiting" ? "waiting" : driven };
  });
}

/** Sets a broken journal aside and rebuilds it from the events files. */
export function repairState(root: string): RepairReport {
  try {
    return repair(root, {
      isAlive: isOwnerAlive,
      summarise: (plans, events, runId) => {
        const planOf = (one: string): Plan => parsePlan(plans.get(one) ?? "", runId);
        const dir = runDirOf(stateDirOf(dirname(root)), runId);
        return fullSummary(replay(planOf, runId, events), workspaceOf(dir));
      },
    });
  } catch (error) {
    if (!(error instanceof LivingRunError)) throw error;
    // `perdure stop` needs a journal that works.
    throw new Refusal(
      "run-owned",
      error.message,
      after(`kill ${error.owner.pid}`, "doctor", "--repair"),
    );
  }
}

/** How long an agent may take to print its version. */
const VERSION_MS_MAX = 15_000;

/** A line with the version of each agent on PATH, and one line for all missing agents. */
async function agentLines(): Promise<readonly string[]> {
  const found = await Promise.all(KNOWN_AGENTS.map(versionOf));
  const missing = KNOWN_AGENTS.filter((_, index) => found[index] === undefined);
  const lines = KNOWN_AGENTS.flatMap((name, index) => {
    const version = found[index];
    const continues = agentAdapter(name)?.continues === true;
    const conversation = continues
      ? "its conversations can be continued"
      : "it starts a new conversation each time";
    return version === undefined ? [] : [`✓ ${name} ${version}: ${conversation}`];
  });
  return missing.length === 0 ? lines : [...lines, `· not on PATH: ${missing.join(", ")}`];
}

/** The permissions of the agents of a plan, step by step, as the agents' own flags. */
export function permissionLines(plan: Plan): readonly string[] {
  return graphsOf(plan)
    .flatMap(agentSteps)
    .flatMap(({ id, work }) => {
      const definition = plan.agents[work.agent];
      const adapter = definition && agentAdapter(definition.adapter);
      if (definition === undefined || adapter === undefined) return [];
      const { permissions = "default", tools } = { ...definition.settings, ...work.settings };
      const { allow = [], deny = [] } = tools ?? {};
      const byItself = permissions === "default" ? agentProgram(adapter.name)?.byItself : undefined;
      const also = [
        ...(byItself === undefined ? [] : [byItself]),
        ...(allow.length === 0 ? [] : [`allowed: ${allow.join(", ")}`]),
        ...(deny.length === 0 ? [] : [`denied: ${deny.join(", ")}`]),
      ];
      const rest = also.length === 0 ? "" : ` (${also.join("; ")})`;
      return [`· step ${id} asks ${adapter.name} with \`permissions: ${permissions}\`${rest}`];
    });
}

type AgentStep = Step & { readonly work: Extract<Step["work"], { kind: "agent" }> };

function agentSteps({ steps }: Graph): readonly AgentStep[] {
  return steps.flatMap((step) => [
    ...(step.work.kind === "agent" ? [step as AgentStep] : []),
    ...graphsIn(step.work).flatMap(agentSteps),
  ]);
}

/** The version that an agent prints; undefined when there is no such program. */
function versionOf(name: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = execFile(name, ["--version"], { timeout: VERSION_MS_MAX }, (error, stdout) => {
      if (error === null) resolve(/\d+(\.\d+)+\S*/.exec(stdout)?.[0] ?? "of an unknown version");
      else resolve(error.code === "ENOENT" ? undefined : "which does not say its version");
    });
    child.stdin?.end();
  });
}
