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

/**
 * A situation with which several tests begin: the first one that asks brings it about in its project,
 * later ones get it as it was then.
 */
export class Situation<P extends Project, T> {
  readonly #make: () => Promise<T>;
  #made: { readonly kept: KeptProject; readonly project: P; readonly value: T } | undefined;

  constructor(make: () => Promise<T>) {
    this.#make = make;
  }

  /** Gives the project that has the situation; that of the test is removed if it is another one. */
  async in(project: P): Promise<{ readonly project: P; readonly value: T }> {
    if (this.#made === undefined) {
      const value = await this.#make();
      this.#made = { kept: new KeptProject(project), project, value };
    } else {
      await project.remove();
      this.#made.kept.putBack();
    }
    return this.#made;
  }

  forget(): void {
    this.#made?.kept.forget();
  }
}

/** Copies what exists of some directories, as it is. */
function copyAll(paths: readonly (readonly [string, string])[]): void {
  for (const [from, to] of paths) {
    if (existsSync(from)) execFileSync("cp", ["-a", from, to]);
  }
}
