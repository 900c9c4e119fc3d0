/**
 * All projects of this machine, open for reading: the one in which this process was started, and those
 * that this user has used before.
 *
 * Owns: their open journals, and finding a run in any of them.
 * Does not: write to a journal; a use case that changes a run opens its project itself.
 */

import { statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { type StateDir, stateDirOf } from "../../engine/state-dir.ts";
import { storeAddress } from "../fleet/fleet-access.ts";
import { projectDirectory } from "../pipeline/configuration-file.ts";
import { asRefusal, command, Refusal } from "../refusal.ts";
import {
  findStateDir,
  isUnused,
  openLocalProject,
  openProject,
  type Project,
  runsNamed,
} from "./project.ts";
import { knownProjects, projectKey, projectName } from "./user-state.ts";

/** A project of this machine. */
interface ListedProject {
  /** Identifies it in addresses. */
  readonly key: string;
  readonly name: string;
  readonly directory: string;
  /** This process was started in it. */
  readonly isCurrent: boolean;
}

/** A project whose journal is open, or why it is not. */
type OpenedProject = ListedProject & ({ readonly project: Project } | { readonly problem: string });

/** A project whose journal is open. */
export type ReadableProject = Extract<OpenedProject, { readonly project: Project }>;

interface OpenJournal {
  readonly project: Promise<Project>;
  /** The file that is open: `doctor --repair` replaces it. */
  readonly inode: number;
}

/** The key of the fleet that the current directory names. */
const FLEET_KEY = "fleet";

/** The projects of this machine and their open journals, and the fleet that is named here. */
export class OpenProjects {
  readonly #from: string;
  readonly #which: "all" | "local";
  readonly #open = new Map<string, OpenJournal>();

  constructor(from: string, which: "all" | "local" = "all") {
    this.#from = resolve(from);
    this.#which = which;
  }

  /** All projects: the fleet first, then the current one. */
  async all(): Promise<readonly OpenedProject[]> {
    const fleet = await this.#fleet();
    const current = this.#current();
    const others = knownProjects().filter((directory) => directory !== current);
    const directories = current === undefined ? others : [current, ...others];
    const opened: OpenedProject[] = fleet === undefined ? [] : [fleet];
    for (const directory of directories) opened.push(await this.#opened(directory, current));
    await this.#closeOthers(new Set(opened.map(({ key }) => key)));
    return opened;
  }

  /** The project of the current directory while it has no runs; a run can be started in it. */
  fresh(): ListedProject | undefined {
    if (this.#current() !== undefined) return undefined;
    const directory = projectDirectory(this.#from);
    const key = projectKey(directory);
    return { key, name: projectName(directory), directory, isCurrent: true };
  }

  /** The projects whose journals can be read. */
  async readable(): Promise<readonly ReadableProject[]> {
    return (await this.all()).filter((one): one is ReadableProject => "project" in one);
  }

  /** The project with a key. */
  async named(key: string): Promise<ReadableProject> {
    const found = (await this.readable()).find((one) => one.key === key);
    if (found !== undefined) return found;
    throw new Refusal("no-runs", `there is no project ${key}`, command("list", "runs"));
  }

  /** The run with this id, or with this unique beginning of an id, in any project. */
  async find(prefix: string): Promise<{ readonly in: ReadableProject; readonly runId: string }> {
    const found: { in: ReadableProject; runId: string }[] = [];
    for (const one of await this.readable()) {
      const ids = await runsNamed(one.project.journal, prefix);
      found.push(...ids.map((runId) => ({ in: one, runId })));
    }
    const living: typeof found = [];
    for (const one of found.length > 1 ? found : []) {
      const lease = await one.in.project.journal.leases.of(one.runId);
      // A run that was moved is in the journals of both places, and continues in one of them.
      if (lease?.owner?.place === undefined) living.push(one);
    }
    const first = living[0] ?? found[0];
    if (first === undefined) {
      throw new Refusal("unknown-run", `there is no run ${prefix}`, command("list", "runs"));
    }
    // A copy of a project has the same runs: take that of the current project, or of the one used last.
    const ids = [...new Set(found.map(({ runId }) => runId))];
    if (ids.length === 1) return first;
    const message = `${prefix} is ambiguous: it may be ${ids.join(" or ")}`;
    throw new Refusal("ambiguous-run", message, command("list", "runs"));
  }

  async close(): Promise<void> {
    await this.#closeOthers(new Set());
  }

  async #fleet(): Promise<OpenedProject | undefined> {
    if (this.#which === "local" || (await storeAddress(this.#from)) === undefined) return undefined;
    const listed = { key: FLEET_KEY, name: "fleet", directory: this.#from, isCurrent: true };
    return this.#opening(listed, () =>
      this.#cached(FLEET_KEY, 0, () => openProject(this.#from, "read-only")),
    );
  }

  #current(): string | undefined {
    try {
      const dir = findStateDir(this.#from);
      return dir === undefined || isUnused(dir) ? undefined : dirname(dir.root);
    } catch (error) {
      if (asRefusal(error) === undefined) throw error;
      return this.#from;
    }
  }

  async #opened(directory: string, current: string | undefined): Promise<OpenedProject> {
    const listed = {
      key: projectKey(directory),
      name: projectName(directory),
      directory,
      isCurrent: directory === current,
    };
    return this.#opening(listed, () => this.#journalOf(listed.key, directory));
  }

  async #opening(listed: ListedProject, open: () => Promise<Project>): Promise<OpenedProject> {
    try {
      return { ...listed, project: await open() };
    } catch (error) {
      const refusal = asRefusal(error);
      if (refusal === undefined) throw error;
      return { ...listed, problem: refusal.message };
    }
  }

  /** Opens a journal once, however many ask at the same time. */
  #journalOf(key: string, directory: string): Promise<Project> {
    const inode = inodeOf(stateDirOf(directory));
    return this.#cached(key, inode, () => openLocalProject(directory, "read-only"));
  }

  #cached(key: string, inode: number, opens: () => Promise<Project>): Promise<Project> {
    const known = this.#open.get(key);
    if (known !== undefined && known.inode === inode) return known.project;
    this.#open.delete(key);
    if (known !== undefined) void closed(known);
    const project = opens();
    const open = { project, inode };
    this.#open.set(key, open);
    project.catch(() => {
      if (this.#open.get(key) === open) this.#open.delete(key);
    });
    return project;
  }

  async #closeOthers(kept: ReadonlySet<string>): Promise<void> {
    for (const [key, open] of this.#open) {
      if (kept.has(key)) continue;
      this.#open.delete(key);
      await closed(open);
    }
  }
}

/** Opens all projects of this machine for reading while `body` runs. */
export async function withAllProjects<T>(
  from: string,
  body: (projects: readonly ReadableProject[]) => Promise<T>,
  which: "all" | "local" = "all",
): Promise<T> {
  const projects = new OpenProjects(from, which);
  try {
    return await body(await projects.readable());
  } finally {
    await projects.close();
  }
}

async function closed({ project }: OpenJournal): Promise<void> {
  const open = await project.catch(() => undefined);
  await open?.journal.close();
}

function inodeOf({ database }: StateDir): number {
  return statSync(database, { throwIfNoEntry: false })?.ino ?? 0;
}
