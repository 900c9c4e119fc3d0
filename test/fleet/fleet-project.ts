/**
 * A project whose runs go through a store to workers: each has a directory and a HOME of its own, as
 * on machines of their own.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fetchRun } from "../../src/app/fleet/fetch.ts";
import { textOf } from "../../src/app/fleet/stored-parts.ts";
import { findMarked, runMarker } from "../../src/runner/process/sweep.ts";
import { bundledProgram } from "../rig/bundled-program.ts";
import { PATIENCE_MS } from "../rig/patience.ts";
import { killGroups, type Program, Project, type Result } from "../rig/project.ts";
import { userGit } from "../workspace/rig.ts";
import { openTestStore, type TestStore } from "./test-store.ts";
import { submitInto } from "./test-submission.ts";

const PROGRAM = await bundledProgram(join(import.meta.dirname, "worker-program.ts"));

const LOOK_AGAIN_MS = 50;

export class FleetProject extends Project {
  /** Where the store and the workers are. */
  readonly fleet = `${this.dir}-fleet`;
  readonly #ids: string[] = [];
  #opened: TestStore | undefined;

  /** The place of its store: a directory, or an address. */
  readonly storePath: string;

  constructor(address?: string) {
    super();
    this.storePath = address ?? join(this.fleet, "store");
  }

  /** The store, opened once. */
  async store(): Promise<TestStore> {
    this.#opened ??= await openTestStore(this.storePath);
    return this.#opened;
  }

  /** Puts a run of `p.yaml` into the store and returns its id. */
  async submitted({ withBase = false } = {}): Promise<string> {
    // Opened for this alone: a test may put the files of a store back.
    const store = await openTestStore(this.storePath);
    const id = await submitInto(store, this.dir, { name: "p.yaml", withBase });
    await store.close();
    this.#ids.push(id);
    return id;
  }

  /** The directory of a worker. */
  home(worker: string): string {
    return join(this.fleet, worker);
  }

  /** The project's directory of a run at a worker. */
  at(worker: string, runId: string, ...parts: readonly string[]): string {
    return join(this.home(worker), "runs", runId, "project", ...parts);
  }

  /** Starts a worker on a run. */
  worker(worker: string, runId: string, env: Readonly<Record<string, string>> = {}): Program {
    const home = this.home(worker);
    fs.mkdirSync(home, { recursive: true });
    return this.script(PROGRAM, [this.storePath, home, runId], { env: { HOME: home, ...env } });
  }

  /** Runs a worker to its end. */
  async driven(
    worker: string,
    runId: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<Result> {
    return this.worker(worker, runId, env).ended;
  }

  /** Makes the directory of a run at a worker without driving it. */
  async fetched(worker: string, runId: string): Promise<string> {
    const into = join(this.home(worker), "runs", runId);
    fs.mkdirSync(into, { recursive: true });
    const store = await this.store();
    return (await fetchRun({ store, runId, into, previousOwnerIsUs: false })).directory;
  }

  /** Resolves when the store has something that a step of the run has printed. */
  async shipped(runId: string, printed: string): Promise<void> {
    const isOutput = (path: string): boolean => path.endsWith("/output.log");
    await this.#storing(runId, isOutput, (text) => text.includes(printed));
  }

  /** Resolves when a stored file of the run begins with this text. */
  async storedAs(runId: string, path: string, text: string): Promise<void> {
    await this.#storing(
      runId,
      (one) => one === path,
      (stored) => stored.startsWith(text),
    );
  }

  async #storing(
    runId: string,
    isMeant: (path: string) => boolean,
    holds: (text: string) => boolean,
  ): Promise<void> {
    const { files, blobs } = await this.store();
    const until = performance.now() + PATIENCE_MS;
    for (;;) {
      const stored = (await files.changedSince(runId, 0)).files;
      const meant = stored.filter(({ path }) => isMeant(path));
      const texts = await Promise.all(meant.map((file) => textOf(blobs, file)));
      if (texts.some(holds)) return;
      if (performance.now() > until) throw new Error("what was expected was not shipped");
      await setTimeout(LOOK_AGAIN_MS);
    }
  }

  /** Kills the steps of a run, wherever they run. */
  async killStepsOf(runId: string): Promise<void> {
    await killGroups(findMarked(runMarker(runId)));
  }

  /** Removes everything of a worker, as the loss of its machine does. */
  destroy(worker: string): void {
    fs.rmSync(this.home(worker), { recursive: true, force: true });
  }

  override async remove(): Promise<void> {
    for (const id of this.#ids) await this.killStepsOf(id);
    await this.#opened?.close();
    await super.remove();
    fs.rmSync(this.fleet, { recursive: true, force: true });
  }
}

/** Makes the project's directory a repository with one commit. */
export function initGit(dir: string): void {
  userGit(dir, "init", "-q", "-b", "main");
  fs.writeFileSync(join(dir, ".gitignore"), "out/\n.perdure/\neffects\nhold-*\n");
  fs.writeFileSync(join(dir, "a.txt"), "a\n");
  userGit(dir, "add", ".gitignore", "a.txt");
  userGit(dir, "commit", "-q", "-m", "first");
}
