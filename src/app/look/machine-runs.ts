/**
 * The runs of all projects of this machine, as rows of one table: a page of them, and those that have
 * changed.
 *
 * Owns: putting the rows of several journals in one order, and what is remembered between two calls:
 *   owners that are dead, and what runs have cost.
 * Does not: load a run. A row comes from the summary of its journal.
 * Invariants:
 * - machine/R1 The work for a page depends on its length and on the number of projects, not on how
 *   many runs there are beside it, except for counting them.
 */
import type { Owner, Recorded } from "../../core/event.ts";
import type { RunStatus } from "../../core/summary.ts";
import type { HeldLease } from "../../journal/leases.ts";
import type { FoundRun, FoundRuns, RunSearch } from "../../journal/run-log.ts";
import { isOwnerAlive } from "../drive/owner.ts";
import type { OpenProjects, ReadableProject } from "../project/open-projects.ts";
import { type Project, shortIdOf } from "../project/project.ts";

/** How many sums and dead owners are remembered, the latest ones. */
const REMEMBERED_MAX = 20_000;
/** How many changed runs one look at a project names, the newest ones. */
const CHANGED_MAX = 200;

/** A run as a row of the table. */
interface MachineRun extends FoundRun {
  readonly shortId: string;
  /** The key of its project. */
  readonly project: string;
  /** Undefined when no process drives it. */
  readonly owner: Owner | undefined;
  readonly costUsd: number | undefined;
  readonly tokens: number;
}

/** A page of the table. */
interface MachinePage {
  readonly runs: readonly MachineRun[];
  readonly byStatus: FoundRuns["byStatus"];
  readonly pipelines: readonly string[];
  /** There are more runs after the last one. */
  readonly hasMore: boolean;
}

type Wanted = Omit<RunSearch, "owned"> & {
  /** The key of the only project to look at. */
  readonly project?: string | undefined;
};

/** What a watcher has seen of each project, by its key. */
interface SeenRuns {
  readonly marks: Map<string, number>;
  /** The runs that had a living owner, with its epoch. */
  readonly owned: Map<string, ReadonlyMap<string, number>>;
}

interface Sum {
  readonly seq: number;
  readonly costUsd: number | undefined;
  readonly tokens: number;
}

/** Reads the runs of all projects. */
export class MachineRuns {
  readonly #projects: OpenProjects;
  readonly #dead = new Set<string>();
  readonly #sums = new Map<string, Sum>();

  constructor(projects: OpenProjects) {
    this.#projects = projects;
  }

  /** A page of the table. */
  async page({ project: key, limit, ...wanted }: Wanted): Promise<MachinePage> {
    const projects = await this.#projects.readable();
    const searched = key === undefined ? projects : projects.filter((one) => one.key === key);
    const found: { in: ReadableProject; runs: FoundRuns }[] = [];
    for (const one of searched) {
      const owned = [...(await this.ownedIn(one.project)).keys()];
      const search = { ...wanted, owned, limit: limit + 1 };
      found.push({ in: one, runs: await one.project.journal.log.search(search) });
    }
    const all = found
      .flatMap(({ in: from, runs: { runs } }) => runs.map((run) => ({ from, run })))
      .sort((a, b) => newestFirst(a.run, b.run));
    const runs: MachineRun[] = [];
    for (const { from, run } of all.slice(0, limit)) runs.push(await this.#row(from, run));
    return {
      runs,
      byStatus: sumOf(found.map(({ runs: { byStatus } }) => byStatus)),
      pipelines: [...new Set(found.flatMap(({ runs: { pipelines } }) => pipelines))].sort(),
      hasMore: all.length > limit,
    };
  }

  /** The number of all runs by status. */
  async counts(): Promise<FoundRuns["byStatus"]> {
    return (await this.page({ limit: 0 })).byStatus;
  }

  /** The runs that have changed since the watcher looked last; `seen` is brought up to date. */
  async changed(seen: SeenRuns): Promise<readonly MachineRun[]> {
    const runs: MachineRun[] = [];
    // All runs of a project that shows up later are new.
    const unseen = seen.marks.size === 0 ? undefined : 0;
    for (const one of await this.#projects.readable()) {
      const { log } = one.project.journal;
      const before = seen.marks.get(one.key) ?? unseen;
      const { mark, runIds } = await log.changedSince(before ?? Number.MAX_SAFE_INTEGER);
      const owned = await this.ownedIn(one.project);
      const ids = [...runIds, ...differing(seen.owned.get(one.key) ?? new Map(), owned)];
      seen.marks.set(one.key, mark);
      seen.owned.set(one.key, owned);
      if (before === undefined || ids.length === 0) continue;
      runs.push(...(await this.#rowsOf(one, ids, owned)));
    }
    return runs.sort(newestFirst);
  }

  /** The runs that have changed since a time, and those with an owner, which may have died since. */
  async changedAfter(time: number): Promise<readonly MachineRun[]> {
    const runs: MachineRun[] = [];
    for (const one of await this.#projects.readable()) {
      const owned = await this.ownedIn(one.project);
      const { log, leases } = one.project.journal;
      const search = { owned: [...owned.keys()], changedAfter: time, limit: CHANGED_MAX };
      const changed = (await log.search(search)).runs.map(({ runId }) => runId);
      const held = (await leases.held()).map(({ runId }) => runId);
      runs.push(...(await this.#rowsOf(one, [...changed, ...held], owned)));
    }
    return runs.sort(newestFirst);
  }

  /** The runs of a project with a living owner, and the epoch of that owner. */
  async ownedIn({ journal, dir }: Project): Promise<ReadonlyMap<string, number>> {
    const owned = new Map<string, number>();
    for (const lease of await journal.leases.held()) {
      if (this.#isAlive(dir.root, lease)) owned.set(lease.runId, lease.epoch);
    }
    return owned;
  }

  async #rowsOf(
    one: ReadableProject,
    ids: readonly string[],
    owned: ReadonlyMap<string, number>,
  ): Promise<readonly MachineRun[]> {
    const search = { runIds: [...new Set(ids)], owned: [...owned.keys()], limit: CHANGED_MAX };
    const rows: MachineRun[] = [];
    for (const run of (await one.project.journal.log.search(search)).runs) {
      rows.push(await this.#row(one, run));
    }
    return rows;
  }

  async #row({ key, project }: ReadableProject, run: FoundRun): Promise<MachineRun> {
    const { lease } = run;
    const held = lease?.owner && { runId: run.runId, epoch: lease.epoch, owner: lease.owner };
    const isAlive = held !== undefined && this.#isAlive(project.dir.root, held);
    const { costUsd, tokens } = await this.#spent(project, run);
    return {
      ...run,
      shortId: await shortIdOf(project.journal, run.runId),
      project: key,
      owner: isAlive ? held.owner : undefined,
      costUsd,
      tokens,
    };
  }

  /** Death is final, so it is looked for once: there may be thousands of interrupted runs. */
  #isAlive(root: string, { runId, epoch, owner }: HeldLease): boolean {
    const key = `${root} ${runId} ${epoch}`;
    if (this.#dead.has(key)) return false;
    if (isOwnerAlive(owner)) return true;
    forgetOldest(this.#dead);
    this.#dead.add(key);
    return false;
  }

  /** What a run has used; only the events since the last look are read. */
  async #spent({ journal, dir }: Project, { runId, lastSeq }: FoundRun): Promise<Sum> {
    const key = `${dir.root} ${runId}`;
    const before = this.#sums.get(key) ?? { seq: 0, costUsd: undefined, tokens: 0 };
    if (before.seq === lastSeq) return before;
    const events = await journal.log.spendingAfter(runId, before.seq);
    const sum = {
      ...events.reduce(added, before),
      seq: Math.max(lastSeq, events.at(-1)?.seq ?? 0),
    };
    forgetOldest(this.#sums);
    this.#sums.set(key, sum);
    return sum;
  }
}

function added(sum: Sum, { event }: Recorded): Sum {
  const spent = "spent" in event ? event.spent : undefined;
  const late = event.type === "run.funded" ? event.lateCostUsd : undefined;
  const cost = spent?.costUsd ?? late;
  return {
    seq: sum.seq,
    costUsd: cost === undefined ? sum.costUsd : (sum.costUsd ?? 0) + cost,
    tokens: sum.tokens + (spent?.inputTokens ?? 0) + (spent?.outputTokens ?? 0),
  };
}

function forgetOldest(remembered: Set<string> | Map<string, unknown>): void {
  const [oldest] = remembered.keys();
  if (remembered.size >= REMEMBERED_MAX && oldest !== undefined) remembered.delete(oldest);
}

/** The runs that have another owner now, or none any more. */
function differing(
  before: ReadonlyMap<string, number>,
  now: ReadonlyMap<string, number>,
): readonly string[] {
  return [...new Set([...before.keys(), ...now.keys()])].filter(
    (runId) => before.get(runId) !== now.get(runId),
  );
}

function sumOf(counts: readonly FoundRuns["byStatus"][]): FoundRuns["byStatus"] {
  const sum: Partial<Record<RunStatus, number>> = {};
  for (const one of counts) {
    for (const [status, count] of Object.entries(one) as [RunStatus, number][]) {
      sum[status] = (sum[status] ?? 0) + count;
    }
  }
  return sum;
}

function newestFirst(
  one: Pick<FoundRun, "createdAt" | "runId">,
  other: Pick<FoundRun, "createdAt" | "runId">,
): number {
  return other.createdAt - one.createdAt || (one.runId < other.runId ? 1 : -1);
}
