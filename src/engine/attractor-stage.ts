/**
 * The environment and the directory of a stage of a DOT pipeline, and the values that it adds to
 * the context, by the names of the attractor language and its engines.
 *
 * Owns: these names, and the folders of nodes in the run directory.
 * Does not: do anything for other plans, which have none of these names.
 */
import { join } from "node:path";
import { contextValue } from "../core/context.ts";
import { type Run, type Scope, stepOf, type Visit } from "../core/run.ts";
import { ROOT_SCOPE } from "../core/step-path.ts";
import type { Plan } from "../plan/plan.ts";
import { ATTEMPT_FILE } from "../runner/process/attempt-folder.ts";
import { lastText } from "../runner/process/output.ts";
import type { JsonObject } from "../util/json.ts";
import type { RunDir } from "./state-dir.ts";

/** How much of the end of a tool's output the context stores. */
const TOOL_OUTPUT_BYTES_MAX = 64 * 1024;
const LAST_LINE_LENGTH_MAX = 1_024;

interface Stage {
  readonly plan: Plan;
  readonly run: Run;
  readonly dir: RunDir;
}

/** The variables of a stage; `statusFile` is the path for its report. */
export function stageVariables(
  { plan, run, dir }: Stage,
  visit: Visit,
  statusFile: string,
): Record<string, string> {
  if (plan.keys !== "attractor") return {};
  const goal = contextValue(run, visit.record.scope, "graph.goal");
  const root = logsRoot({ run, dir });
  const named = {
    RUN_ID: run.id,
    NODE_ID: stepOf(visit).id,
    LOGS_ROOT: root,
    STAGE_DIR: stageDir({ run, dir }, visit),
    GOAL: typeof goal === "string" ? goal : "",
    STAGE_STATUS_PATH: statusFile,
  };
  const variables = ["ATTRACTOR", "KILROY"].flatMap((engine) =>
    Object.entries(named).map(([name, value]) => [`${engine}_${name}`, value] as const),
  );
  return {
    ...Object.fromEntries(variables),
    KILROY_STAGE_STATUS_FALLBACK_PATH: statusFile,
    PERDURE_GOAL: named.GOAL,
    PERDURE_LOGS_ROOT: root,
  };
}

/**
 * The directory of `--logs`; without that option a folder among the run's own files. A restarted
 * run has a subdirectory of its own.
 */
export function logsRoot({ run, dir }: Pick<Stage, "run" | "dir">): string {
  const root = run.created?.logs ?? join(dir.root, LOGS_FOLDER);
  return restartFolder(root, run.scopes.get(ROOT_SCOPE)?.restarts ?? 0);
}

/** The run directory after a number of restarts. */
export function restartFolder(root: string, restarts: number): string {
  return restarts === 0 ? root : join(root, `restart-${restarts}`);
}

const LOGS_FOLDER = "logs";

/** The folder of a stage in the run directory; each branch has folders of its own. */
export function stageDir(stage: Pick<Stage, "run" | "dir">, visit: Visit): string {
  return nodeFolder(logsRoot(stage), visit.record.scope, stepOf(visit).id);
}

/** The folder of a node in a run directory. */
export function nodeFolder(root: string, scope: Scope | undefined, node: string): string {
  const inside = branchPath(scope);
  return inside.length === 0 ? join(root, node) : join(root, "branches", ...inside, node);
}

/** The path of a scope, outermost first: the nodes that opened scopes, and their branches. */
function branchPath(scope: Scope | undefined): readonly string[] {
  const path: string[] = [];
  for (let at = scope; at?.parent !== undefined; at = at.parent.record.scope) {
    const { id: node, work } = stepOf(at.parent);
    const branch = work.kind === "branches" ? work.branches[at.index]?.id : undefined;
    path.unshift(node, ...(branch === undefined ? [] : [branch]));
  }
  return path;
}

/** The output of a tool for the context, even of one that failed. */
export function toolKeys({ plan }: Pick<Stage, "plan">, visit: Visit, dir: string): JsonObject {
  if (plan.keys !== "attractor" || stepOf(visit).work.kind !== "shell") return {};
  const text = lastText(join(dir, ATTEMPT_FILE.output), TOOL_OUTPUT_BYTES_MAX).trimEnd();
  const line = text.slice(text.lastIndexOf("\n") + 1).trim();
  return { "tool.output": text, "tool.last_line": line.slice(0, LAST_LINE_LENGTH_MAX) };
}
