/**
 * Pipelines by their names: `perdure run release` finds `release.yaml` here, or in a folder
 * `pipelines` here or above.
 *
 * Owns: where pipelines are looked for.
 * Does not: read them (pipeline-file.ts).
 */
import { existsSync, globSync } from "node:fs";
import { basename, dirname, extname, join, resolve } from "node:path";
import { nearest } from "../util/nearest.ts";
import { after, command, Refusal } from "./refusal.ts";

const EXTENSIONS = [".yaml", ".yml", ".dot", ".gv", ".ts"];
const FOLDER = "pipelines";

/** The file that is meant by a name or a path. */
export function findPipeline(named: string, from = process.cwd()): string {
  const path = resolve(from, named);
  if (existsSync(path) || named.includes("/") || extname(named) !== "") return path;
  const folder = folderAbove(from);
  const known = [...filesIn(from), ...(folder === undefined ? [] : filesIn(folder))];
  const found = known.find((file) => nameOf(file) === named);
  if (found !== undefined) return found;
  const meant = nearest(named, known.map(nameOf));
  const message = `there is no file ${named}, and no pipeline of that name in ${from} or ${FOLDER}/`;
  throw new Refusal(
    "missing-file",
    message,
    meant === undefined ? after("name a file", "run", "FILE") : command("run", meant),
  );
}

/** The names of the pipelines in the folder. */
export function pipelineNames(from = process.cwd()): readonly string[] {
  const folder = folderAbove(from);
  return folder === undefined ? [] : filesIn(folder).map(nameOf);
}

function folderAbove(from: string): string | undefined {
  for (let at = resolve(from); ; at = dirname(at)) {
    const folder = join(at, FOLDER);
    if (existsSync(folder)) return folder;
    if (existsSync(join(at, ".git")) || dirname(at) === at) return undefined;
  }
}

function filesIn(directory: string): readonly string[] {
  return globSync(
    EXTENSIONS.map((extension) => `*${extension}`),
    { cwd: directory },
  )
    .sort()
    .map((name) => join(directory, name));
}

function nameOf(file: string): string {
  return basename(file, extname(file));
}
