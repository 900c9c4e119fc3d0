/**
 * The configuration files of a pipeline: `perdure.yaml` of the project, and the user's own.
 *
 * Owns: where these files are, and whether one of them was edited since a run started.
 * Does not: know their keys (pipeline/configuration.ts). A run keeps its plan, so these files count
 * only when a run starts and for `resume --update`.
 */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { stateDirOf } from "../../engine/state-dir.ts";
import type { ConfigurationText } from "../../pipeline/configuration.ts";
import { textOf } from "../../runner/file-text.ts";
import { sha256 } from "../../util/json.ts";
import { foreignOwner } from "../project/state-trust.ts";

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
