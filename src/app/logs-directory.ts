/**
 * `--logs DIR`: the directory that a run writes its DOT files to, and the run that belongs to it. A
 * directory of another engine gives a new run that continues where that engine stopped.
 *
 * Owns: the way from such a directory to a run in the journal.
 * Does not: know what a continued run does (plan/take-up.ts), drive it, or write the directory
 * (logs-files.ts).
 */
import { copyFileSync, existsSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { envNamesOf } from "../plan/build.ts";
import type { TakesUp } from "../plan/plan.ts";
import { textOf } from "../runner/file-text.ts";
import { isObject, type JsonObject, sha256 } from "../util/json.ts";
import { checkEnvironment } from "./environment.ts";
import { loadRun } from "./known-run.ts";
import { type ReadPlan, requirePlan } from "./pipeline-file.ts";
import { createProject, openProject, type Project } from "./project.ts";
import { advice, command, Refusal, when } from "./refusal.ts";
import { createRun } from "./start.ts";

/** A copy of the other engine's checkpoint; ours is written over it. */
const KEPT_FILE = "checkpoint.before.json";

export interface LogsRun {
  readonly project: Project;
  readonly runId: string;
  /** The file that was read for it, with its warnings. */
  readonly read?: ReadPlan;
}

/** The run that writes to a directory. `file`, if given, must be its pipeline. */
export async function runOfLogs(given: string, file: string | undefined): Promise<LogsRun> {
  const logs = resolve(given);
  const path = join(logs, "checkpoint.json");
  const text = textOf(path);
  const again = command("run", file ?? "FILE", "--logs", relative(process.cwd(), logs) || ".");
  if (text === undefined) {
    throw new Refusal(
      "missing-file",
      `there is no checkpoint in ${given}: ${path} is missing`,
      again,
    );
  }
  const { run_id: runId, project } = ownPart(text);
  if (typeof runId !== "string" || typeof project !== "string") {
    const takesUp = stoppedAt(parsedJson(text));
    if (takesUp !== undefined && file !== undefined) return continueForeign(logs, file, takesUp);
    const message = `${path} is not of perdure: it names no run`;
    throw new Refusal(
      "bad-logs-directory",
      takesUp === undefined ? `${message}, nor where one stopped` : message,
      takesUp === undefined
        ? when("start anew in another directory", "run", file ?? "FILE")
        : when(`continue after \`${takesUp.node}\``, "resume", "--logs", given, "FILE.dot"),
    );
  }
  if (!existsSync(join(project, "state.db"))) {
    const message = `run ${runId} of ${given} is gone: there is no state in ${project}`;
    throw new Refusal("bad-logs-directory", message, again);
  }
  const opened = await openProject(dirname(project), "read-write");
  if (!(await opened.journal.log.resolve(runId)).includes(runId)) {
    const message = `run ${runId} of ${given} is not in ${project} any more`;
    throw new Refusal("bad-logs-directory", message, again);
  }
  await refuseOtherFile(opened, runId, file);
  return { project: opened, runId };
}

/** Refuses a directory in which the checkpoint of something unfinished would be overwritten. */
export function refuseUsedLogs(given: string): void {
  const text = textOf(join(resolve(given), "checkpoint.json"));
  if (text === undefined) return;
  const { run_id: runId, status } = ownPart(text);
  if (status === "completed") return;
  const what =
    typeof runId === "string" ? `run ${runId}, which is unfinished` : "another engine's run";
  const next =
    typeof runId === "string"
      ? command("resume", "--logs", given)
      : advice("name another directory");
  throw new Refusal("logs-directory-used", `${given} holds the checkpoint of ${what}`, next);
}

async function refuseOtherFile(
  { journal }: Project,
  runId: string,
  file: string | undefined,
): Promise<void> {
  if (file === undefined) return;
  const [run] = (await journal.log.list({ file: resolve(file) })).filter(
    (one) => one.runId === runId,
  );
  if (run !== undefined) return;
  const message = `run ${runId} is not one of ${file}`;
  throw new Refusal("wrong-pipeline", message, command("show", runId.slice(0, 8)));
}

/** What perdure wrote into a checkpoint beside what the language asks for. */
function ownPart(text: string): JsonObject {
  const parsed = parsedJson(text);
  return isObject(parsed) && isObject(parsed.perdure) ? (parsed.perdure as JsonObject) : {};
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Where another engine stopped, by its checkpoint; undefined when that does not say it. */
function stoppedAt(checkpoint: unknown): TakesUp | undefined {
  if (!isObject(checkpoint)) return undefined;
  const { current_node: node, completed_nodes: completed, context = {} } = checkpoint;
  if (typeof node !== "string" || !Array.isArray(completed) || !isObject(context)) return undefined;
  const names = completed.filter((name): name is string => typeof name === "string");
  return { node, completed: names, context: context as JsonObject };
}

/** The run that continues from there: a new one, unless it was created before. */
async function continueForeign(logs: string, file: string, takesUp: TakesUp): Promise<LogsRun> {
  const path = resolve(file);
  const read = await requirePlan(path, ["run", file], { takesUp });
  const { plan, text } = read;
  checkEnvironment(envNamesOf(plan), ["resume", "--logs", logs, file]);
  const project = await createProject(process.cwd());
  for (const { runId, cleanedAt } of await project.journal.log.list({ file: path })) {
    if (cleanedAt !== undefined) continue;
    const { run, plan: known } = await loadRun(project, runId);
    const isSame = run.created?.logs === logs && known.reading?.takesUp !== undefined;
    if (isSame) return { project, runId, read };
  }
  copyFileSync(join(logs, "checkpoint.json"), join(logs, KEPT_FILE));
  const runId = await createRun(project, plan, {
    file: path,
    fileSha256: sha256(text),
    input: null,
    args: process.argv.slice(2),
    cwd: process.cwd(),
    logs,
  });
  return { project, runId, read };
}
