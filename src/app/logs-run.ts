/** `resume --logs DIR`: from the directory that a run was told to write to, to the run. */
import { existsSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { textOf } from "../runner/file-text.ts";
import { isObject, type JsonObject } from "../util/json.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { openProject, type Project } from "./project.ts";

export interface LogsRun {
  readonly project: Project;
  readonly runId: string;
}

/** The run that writes to a directory. `file`, if given, must be its pipeline. */
export async function runOfLogs(given: string, file: string | undefined): Promise<LogsRun> {
  const logs = resolve(given);
  const path = join(logs, "checkpoint.json");
  const text = textOf(path);
  const again = `perdure run ${file ?? "FILE"} --logs ${relative(process.cwd(), logs) || "."}`;
  if (text === undefined) {
    throw new CliError(EXIT.usage, `there is no checkpoint in ${given}: ${path} is missing`, again);
  }
  const { run_id: runId, project } = ownPart(text);
  if (typeof runId !== "string" || typeof project !== "string") {
    const { stoppedAt, takeUp } = await import("./take-up.ts");
    const takesUp = stoppedAt(parsedJson(text));
    if (takesUp !== undefined && file !== undefined) return takeUp(logs, file, takesUp);
    const message = `${path} is not of perdure: it names no run`;
    throw new CliError(
      EXIT.error,
      takesUp === undefined ? `${message}, nor where one stopped` : message,
      takesUp === undefined
        ? `start anew in another directory: perdure run ${file ?? "FILE"}`
        : `go on from behind \`${takesUp.node}\`: perdure resume --logs ${given} FILE.dot`,
    );
  }
  if (!existsSync(join(project, "state.db"))) {
    const message = `run ${runId} of ${given} is gone: there is no state in ${project}`;
    throw new CliError(EXIT.error, message, again);
  }
  const opened = openProject(dirname(project), "read-write");
  if (!opened.journal.resolve(runId).includes(runId)) {
    const message = `run ${runId} of ${given} is not in ${project} any more`;
    throw new CliError(EXIT.error, message, again);
  }
  refuseOtherFile(opened, runId, file);
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
    typeof runId === "string" ? `perdure resume --logs ${given}` : "name another directory";
  throw new CliError(EXIT.usage, `${given} holds the checkpoint of ${what}`, next);
}

function refuseOtherFile({ journal }: Project, runId: string, file: string | undefined): void {
  if (file === undefined) return;
  const [run] = journal.list({ file: resolve(file) }).filter((one) => one.runId === runId);
  if (run !== undefined) return;
  const message = `run ${runId} is not one of ${file}`;
  throw new CliError(EXIT.usage, message, `perdure show ${runId.slice(0, 8)}`);
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
