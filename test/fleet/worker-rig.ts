/**
 * A fleet for tests: a project whose runs go to a store in PostgreSQL, and workers with directories of
 * their own, started by `perdure worker` as on machines of their own.
 */
import { readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { expect } from "vitest";
import { Dispatch, type FleetParts } from "../../src/app/fleet/dispatch.ts";
import { submitRun } from "../../src/app/fleet/submit.ts";
import { requirePlan } from "../../src/app/pipeline/pipeline-file.ts";
import { createdStateDir } from "../../src/app/project/project.ts";
import type { RunEvent } from "../../src/core/event.ts";
import type { FleetJournal } from "../../src/journal/journal.ts";
import { openPostgresJournal } from "../../src/journal/postgres/postgres.ts";
import { readClaim } from "../../src/runner/process/attempt-folder.ts";
import { findMarked, runMarker } from "../../src/runner/process/sweep.ts";
import { PATIENCE_MS } from "../rig/patience.ts";
import { newDatabase } from "../rig/postgres.ts";
import { faultsOf } from "../rig/printed-json.ts";
import { eventually, killGroups, killProcess, PlainProject, type Program } from "../rig/project.ts";

const LOOK_AGAIN_MS = 100;

/** A worker with its supervisor. */
interface FleetWorker {
  readonly supervisor: Program;
  readonly directory: string;
  /** The process below the supervisor. */
  pid(): number;
}

/** The wrapper of an attempt that a worker has started, such as `held@1.1`. */
export function wrapperAt({ directory }: FleetWorker, runId: string, attempt: string): number {
  const run = `${directory}/runs/${runId}/project/.perdure/runs/${runId}`;
  const claim = readClaim(`${run}/attempts/${attempt}`);
  if (claim.by !== "process") throw new Error(`no process has claimed ${attempt}`);
  return claim.identity.pid;
}

export class Fleet extends PlainProject {
  readonly url: string;
  #flows = 0;
  readonly journal: FleetJournal;
  readonly #dispatch: Dispatch;
  readonly #workers = new Map<string, Program>();
  /** The last submission by this process. */
  #submitted: Promise<unknown> = Promise.resolve();

  private constructor(url: string, { journal, dispatch }: FleetParts) {
    super();
    this.url = url;
    this.journal = journal;
    this.#dispatch = dispatch;
  }

  static async open(): Promise<Fleet> {
    const url = await newDatabase();
    const journal = await openPostgresJournal(url, { mode: "create" });
    return new Fleet(url, { journal, dispatch: await Dispatch.open(journal, "client") });
  }

  override get own(): Readonly<Record<string, string>> {
    return { ...super.own, PERDURE_STORE: this.url };
  }

  /**
   * Gives a run of this pipeline to the fleet; returns its id. With words for the command line,
   * `perdure submit` does it; without them this process does the same, which costs less.
   */
  async submitted(text: string, ...words: readonly string[]): Promise<string> {
    this.#flows += 1;
    const name = this.write(`flow-${this.#flows}.yaml`, text);
    if (words.length === 0) {
      // One after the other: two that make the state directory at once would be two processes.
      const submission = this.#submitted.then(() => this.#submit(this.path(name)));
      this.#submitted = submission.catch(() => undefined);
      return submission;
    }
    const document = await this.document("submit", name, ...words);
    return String(document.run_id);
  }

  async #submit(file: string): Promise<string> {
    const { plan, sha256 } = await requirePlan(file);
    const { requires = [], concurrency } = plan;
    const group = concurrency && { name: concurrency.group, max: concurrency.max };
    const parts = { journal: this.journal, dispatch: this.#dispatch };
    return submitRun(parts, createdStateDir(this.dir), {
      plan,
      origin: { file, fileSha256: sha256, input: {}, args: ["submit", file], cwd: this.dir },
      queue: { requires, priority: 0, ...(group && { group }) },
    });
  }

  /** The document that a command prints with --json. */
  async document(...words: readonly string[]): Promise<Readonly<Record<string, unknown>>> {
    const document: unknown = JSON.parse(await this.must([...words, "--json"]));
    expect(faultsOf(words[0] ?? "", document)).toEqual([]);
    return document as Readonly<Record<string, unknown>>;
  }

  /** Starts a worker; resolves when it takes runs. */
  async worker(name: string, ...words: readonly string[]): Promise<FleetWorker> {
    return this.workerThrough([], name, ...words);
  }

  /** Starts a worker by another program, such as one that makes a namespace. */
  async workerThrough(
    through: readonly string[],
    name: string,
    ...words: readonly string[]
  ): Promise<FleetWorker> {
    const directory = `${this.stateHome}/${name}`;
    const supervisor = this.start(["worker", "--directory", directory, ...words], { through });
    this.#workers.set(name, supervisor);
    const pid = (): number => {
      const text = readFileSync(`${directory}/process.json`, "utf8");
      return (JSON.parse(text) as { pid: number }).pid;
    };
    await supervisor.printed("takes runs");
    return { supervisor, directory, pid };
  }

  /** Kills everything of a worker at once, its steps included, as a machine that loses its power. */
  async loseMachine({ supervisor, pid }: FleetWorker, runId: string): Promise<void> {
    // First the supervisor, which would start the worker again.
    const ended = supervisor.kill("SIGKILL");
    await killProcess(pid());
    await killGroups(findMarked(runMarker(runId)));
    await ended;
  }

  /** How often each effect of a test happened, in the order of the first ones. */
  effectsOf(test: string): Readonly<Record<string, number>> {
    const own = Object.entries(this.effects()).filter(([name]) => name.startsWith(`${test}-`));
    return Object.fromEntries(own.map(([name, count]) => [name.slice(test.length + 1), count]));
  }

  /** Resolves when an effect has happened this often. */
  async happened(name: string, times: number): Promise<void> {
    await eventually(`${name} happens`, () => this.effects()[name] === times);
  }

  /** The events of a run. */
  async events(runId: string): Promise<readonly RunEvent[]> {
    return (await this.journal.log.load(runId)).events.map(({ event }) => event);
  }

  /** How often each type of event is in a run. */
  async counts(runId: string): Promise<Readonly<Record<string, number>>> {
    const counts: Record<string, number> = {};
    for (const { type } of await this.events(runId)) counts[type] = (counts[type] ?? 0) + 1;
    return counts;
  }

  /** Resolves when a run has this event, so often, and nobody owns it. */
  async reached(runId: string, type: RunEvent["type"], times = 1): Promise<void> {
    await this.#until(runId, type, times, (isOwned) => !isOwned);
  }

  /** Resolves when a run has this event, so often. */
  async recorded(runId: string, type: RunEvent["type"], times: number): Promise<void> {
    await this.#until(runId, type, times, () => true);
  }

  async #until(
    runId: string,
    type: RunEvent["type"],
    times: number,
    isAsWanted: (isOwned: boolean) => boolean,
  ): Promise<void> {
    let seen: unknown;
    const what = (): string =>
      `run ${runId} has ${type}; it has ${JSON.stringify(seen)}\n${this.#workersSaidOf(runId)}`;
    await storeSays(what, async () => {
      const lease = await this.journal.leases.of(runId);
      const types = (await this.events(runId)).map((event) => event.type);
      seen = { lease, types };
      return (
        isAsWanted(lease?.owner !== undefined) &&
        types.filter((one) => one === type).length >= times
      );
    });
  }

  /** What the workers have printed about a run. */
  #workersSaidOf(runId: string): string {
    return [...this.#workers]
      .flatMap(([name, { stdout, stderr }]) =>
        `${stdout}${stderr}`
          .split("\n")
          .filter((line) => line.includes(runId))
          .map((line) => `${name}: ${line}`),
      )
      .join("\n");
  }

  /** Ends all workers and forgets everything. */
  async end(): Promise<void> {
    await this.#dispatch.close();
    await this.journal.close();
    await this.discard();
  }
}

/** Waits until the store says something. Each question costs the server, so there are a few a second. */
export async function storeSays(what: () => string, holds: () => Promise<boolean>): Promise<void> {
  const until = performance.now() + PATIENCE_MS;
  while (!(await holds())) {
    if (performance.now() > until) throw new Error(`waited in vain: ${what()}`);
    await setTimeout(LOOK_AGAIN_MS);
  }
}
