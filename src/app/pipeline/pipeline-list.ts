/**
 * The pipelines that can be started in a project: those of its folder `pipelines`, and the files of
 * its newest runs.
 *
 * Owns: which files are listed, and what is said about each.
 * Does not: run anything. A TypeScript module is a program, so a list does not read it.
 */
import { existsSync, statSync } from "node:fs";
import { extname, relative } from "node:path";
import type { Json } from "../../util/json.ts";
import type { Project } from "../project/project.ts";
import { Refusal } from "../refusal.ts";
import { readPipeline } from "./pipeline-file.ts";
import { commentAt, pipelineFiles } from "./pipeline-name.ts";

/** How many of the newest runs are looked at for files, and how many files are listed. */
const RUNS_MAX = 500;
const FILES_MAX = 200;

/** A pipeline that can be started. */
export interface ListedPipeline {
  /** What `perdure run` takes in the directory of the project. */
  readonly name: string;
  readonly file: string;
  /** The comment at the top of its file. */
  readonly description: string | undefined;
  readonly steps: number;
  /** JSON Schema of its input. */
  readonly input: Json;
  /** Why it cannot be started as it is. */
  readonly problem: string | undefined;
}

/** The pipelines of the project in a directory; `project` is absent before its first run. */
export async function listPipelines(
  directory: string,
  project: Project | undefined,
): Promise<readonly ListedPipeline[]> {
  const runs = project === undefined ? [] : await project.journal.log.list({ limit: RUNS_MAX });
  const used = [...new Set(runs.map(({ file }) => file))].filter(
    (file) => file !== "" && existsSync(file) && statSync(file).isFile(),
  );
  const files = [...new Set([...pipelineFiles(directory), ...used])].slice(0, FILES_MAX);
  const listed: ListedPipeline[] = [];
  for (const file of files) listed.push(await listedPipeline(directory, file));
  return listed;
}

async function listedPipeline(directory: string, file: string): Promise<ListedPipeline> {
  const name = relative(directory, file);
  const about = { name: name.startsWith("..") ? file : name, file };
  const unknown = { ...about, description: undefined, steps: 0, input: null, problem: undefined };
  if (extname(file) === ".ts") return unknown;
  try {
    const { plan, text, diagnostics } = await readPipeline(file, {}, directory);
    const description = commentAt(text);
    const mistake = diagnostics.find(({ severity }) => severity === "error");
    if (plan === undefined) {
      const problem = mistake?.message ?? "it is not a valid pipeline";
      return { ...unknown, description, problem };
    }
    const { inputSchema: input = null, graph } = plan;
    return { ...unknown, description, steps: graph.steps.length, input };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { ...unknown, problem: error.message };
  }
}
