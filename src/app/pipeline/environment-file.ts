/**
 * The files of `env_file`: variables that count as if the shell had set them.
 *
 * Owns: reading these files into the environment of this process.
 * Does not: keep anything: what a run remembers of its environment is in run-environment.ts. Every
 * owner of a run reads the files again, as it reads the variables of its shell.
 * Invariants:
 * - env/V3 A variable of the shell wins over a file, and of two files the later one wins.
 */
import { isAbsolute, relative, resolve } from "node:path";
import { parseEnv } from "node:util";
import type { Plan } from "../../plan/plan.ts";
import { textOf } from "../../runner/file-text.ts";
import { after, Refusal } from "../refusal.ts";
import { shownPath } from "./configuration-file.ts";

const NAME = /^(?!PERDURE_)[A-Za-z_]\w*$/;

/** The names of these files in a plan: relative to the project, so that it can move. */
export function planPaths(paths: readonly string[], project: string): readonly string[] {
  return paths.map((path) => {
    const within = relative(project, path);
    return within.startsWith("../") || isAbsolute(within) ? path : within;
  });
}

/** Adds the variables of a plan's files to the environment; `typed` is the command that asks. */
export function addEnvironmentFiles(
  { envFiles = [] }: Pick<Plan, "envFiles">,
  project: string,
  typed: readonly string[],
): void {
  const found: Record<string, string> = {};
  for (const name of envFiles) {
    const path = resolve(project, name);
    const text = textOf(path);
    if (text === undefined) {
      const message = `${shownPath(path)}, an \`env_file\` of the pipeline, cannot be read`;
      const remedy = `create ${shownPath(path)}, with a line NAME=value for each variable`;
      throw new Refusal("missing-file", message, after(remedy, ...typed));
    }
    for (const [variable, value] of Object.entries(parseEnv(text))) {
      if (NAME.test(variable) && value !== undefined) found[variable] = value;
    }
  }
  for (const [variable, value] of Object.entries(found)) process.env[variable] ??= value;
}
