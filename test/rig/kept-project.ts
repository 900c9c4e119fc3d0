/**
 * A project as it is now, kept beside it: tests that need the same situation bring it about once and
 * put it back. It lies where it was, because a journal names directories.
 *
 * Does not: keep processes. Nobody works in a project that is kept or put back.
 */
import { execFileSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import type { Project } from "./project.ts";

/** How many were kept; it makes their names different. */
let count = 0;

export class KeptProject {
  readonly project: Project;
  /** The directories of the project, and where they are kept. */
  readonly #paths: readonly (readonly [string, string])[];

  constructor(project: Project) {
    count++;
    this.project = project;
    this.#paths = [project.dir, project.stateHome].map((path) => [path, `${path}.kept-${count}`]);
    copyAll(this.#paths);
  }

  /** Puts the files back after the project was removed. */
  putBack(): void {
    copyAll(this.#paths.map(([path, copy]) => [copy, path]));
  }

  /** Removes what was kept. */
  forget(): void {
    for (const [, copy] of this.#paths) rmSync(copy, { recursive: true, force: true });
  }
}

/** Copies what exists of some directories, as it is. */
function copyAll(paths: readonly (readonly [string, string])[]): void {
  for (const [from, to] of paths) {
    if (existsSync(from)) execFileSync("cp", ["-a", from, to]);
  }
}
