/**
 * The files that a pipeline takes settings from: `perdure.yaml` of the project, the user's own, and
 * those of `env_file`, whose variables count as if the shell had set them.
 *
 * Owns: where the configuration files are, and whether one of them was edited since a run started;
 * reading the files of `env_file` into the environment of this process.
 * Does not: know the keys of a configuration (pipeline/configuration.ts). A run keeps its plan, so
 * configuration files count only when a run starts and for `resume --update`. It does not keep the
 * variables of `env_file` (run-environment.ts says what it remembers): every owner of a run reads these
 * files again, as it reads the variables of its shell.
 * Invariants:
 * - env/V3 A variable of the shell wins over a file, and of two files the later one wins.
 */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { parseEnv } from "node:util";
import { stateDirOf } from "../../engine/state-dir.ts";
import type { ConfigurationText } from "../../pipeline/configuration.ts";
import type { Plan } from "../../plan/plan.ts";
import { textOf } from "../../runner/file-text.ts";
import { sha256 } from "../../util/json.ts";
import { foreignOwner } from "../project/state-trust.ts";
import { after, Refusal } from "../refusal.ts";

/** The project's file, in the directory that has `.perdure`. */
export const PROJECT_FILE = "perdure.yaml";

/** The directory of the user's own settings. */
export function userDirectory(): string {
  const config = process.env.XDG_CONFIG_HOME ?? "";
  const home = isAbsolute(config) ? config : join(process.env.HOME ?? homedir(), ".config");
  return join(home, "perdure");
}

/** The configuration files that exist; each one overrides those before it. */
export function configurationTexts(project: string): readonly ConfigurationText[] {
  return [join(userDirectory(), "config.yaml"), join(project, PROJECT_FILE)].flatMap((path) => {
    const text = textOf(path);
    const directory = dirname(path);
    return text === undefined ? [] : [{ path, name: shownPath(path), directory, text }];
  });
}

/** The path of a file as messages show it. */
export function shownPath(path: string): string {
  const shown = relative(process.cwd(), path);
  return shown.startsWith("..") ? path : shown;
}

/** The hash of everything that an author edits: a pipeline's file and the configuration. */
export function hashOfFiles(text: string, configuration: readonly ConfigurationText[]): string {
  if (configuration.length === 0) return sha256(text);
  return sha256([text, ...configuration.map((file) => file.text)].map(sha256).join("\n"));
}

/**
 * The directory of the project that a directory belongs to: the nearest one with the state of runs,
 * else the root of the repository, else the directory itself.
 */
export function projectDirectory(from: string): string {
  const here = resolve(from);
  const isProject = (at: string): boolean => {
    const { root } = stateDirOf(at);
    return existsSync(root) && (at === here || foreignOwner(root) === undefined);
  };
  return above(here, isProject) ?? repositoryRoot(here) ?? here;
}

/** The root of the repository that a directory belongs to. */
export function repositoryRoot(from: string): string | undefined {
  return above(resolve(from), (at) => existsSync(join(at, ".git")));
}

function above(from: string, matches: (directory: string) => boolean): string | undefined {
  for (let at = from; ; at = dirname(at)) {
    if (matches(at)) return at;
    if (dirname(at) === at) return undefined;
  }
}

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
