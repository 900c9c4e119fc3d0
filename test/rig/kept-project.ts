/**
 * A project as it was at some moment, kept beside it: tests of the same situation bring it about once
 * and put it back. It lies where it was, because a journal names directories.
 *
 * Does not: keep processes. Nobody works in a project that is kept or put back.
 */
import { execFileSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import type { Project } from "./project.ts";

/** The directories of a project, and where they are kept. */
function keptPaths({ dir, stateHome }: Project): readonly (readonly [string, string])[] {
  return [dir, stateHome].map((path) => [path, `${path}.kept`] as const);
}

/** Copies what exists of some directories, as it is. */
function copyAll(paths: readonly (readonly [string, string])[]): void {
  for (const [from, to] of paths) {
    if (existsSync(from)) execFileSync("cp", ["-a", from, to]);
  }
}

/** Keeps the files of a project as they are now. */
export function keep(project: Project): void {
  copyAll(keptPaths(project));
}

/** Puts the kept files of a project back, which was removed. */
export function putBack(project: Project): void {
  copyAll(keptPaths(project).map(([path, copy]) => [copy, path]));
}

/** Removes what was kept. */
export function forget(project: Project): void {
  for (const [, copy] of keptPaths(project)) rmSync(copy, { recursive: true, force: true });
}
