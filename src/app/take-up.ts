/**
 * `resume --logs DIR FILE` where DIR is another engine's: a new run that goes on where that one stopped.
 *
 * Owns: from a foreign checkpoint to a run in the journal.
 * Does not: know what such a run does (plan/take-up.ts), or drive it.
 */
import { copyFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { envNamesOf } from "../plan/build.ts";
import type { TakesUp } from "../plan/plan.ts";
import { sha256 } from "../util/hash.ts";
import { isObject, type JsonObject } from "../util/json.ts";
import { checkEnvironment } from "./environment.ts";
import { loadRun } from "./known-run.ts";
import { createRun } from "./new-run.ts";
import { requirePlan } from "./pipeline-file.ts";
import { createProject, type Project } from "./project.ts";

/** Where the other engine's own words are kept; ours are written over them. */
const KEPT_FILE = "checkpoint.before.json";

/** Where another engine stopped, by its checkpoint; undefined when that does not say it. */
export function stoppedAt(checkpoint: unknown): TakesUp | undefined {
  if (!isObject(checkpoint)) return undefined;
  const { current_node: node, completed_nodes: completed, context = {} } = checkpoint;
  if (typeof node !== "string" || !Array.isArray(completed) || !isObject(context)) return undefined;
  const names = completed.filter((name): name is string => typeof name === "string");
  return { node, completed: names, context: context as JsonObject };
}

/** The run that goes on from there: a new one, unless it was created before. */
export async function takeUp(
  logs: string,
  file: string,
  takesUp: TakesUp,
): Promise<{ readonly project: Project; readonly runId: string }> {
  const path = resolve(file);
  const { plan, text } = await requirePlan(path, `perdure run ${file}`, { takesUp });
  checkEnvironment(envNamesOf(plan), "the same command again");
  const project = createProject(process.cwd());
  const before = project.journal.list({ file: path }).find(({ runId, cleanedAt }) => {
    if (cleanedAt !== undefined) return false;
    const { run, plan: known } = loadRun(project, runId);
    return run.created?.logs === logs && known.reading?.takesUp !== undefined;
  });
  if (before !== undefined) return { project, runId: before.runId };
  copyFileSync(join(logs, "checkpoint.json"), join(logs, KEPT_FILE));
  const runId = createRun(project, plan, {
    file: path,
    fileSha256: sha256(text),
    input: null,
    args: process.argv.slice(2),
    cwd: process.cwd(),
    logs,
  });
  return { project, runId };
}
