/**
 * Runs that stay loaded while somebody looks at them: new events are added to each, and each watcher
 * asks what has changed since the sequence number that it knows.
 *
 * Owns: adding the events once, in order; which step changed at which event; the lines of the newest
 *   events; what the agents of running steps do; and which runs stay loaded, a limited number that all
 *   watchers share.
 * Does not: queue anything for a watcher. One that is slow asks less often and gets the newest state.
 * Invariants:
 * - app/F1 What is kept for watchers does not grow with their number or their slowness.
 */
import type { Recorded } from "../../core/event.ts";
import { evolve, takeChanges } from "../../core/evolve.ts";
import { attemptOf, type Run, type StepRecord, stepOf } from "../../core/run.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import { AttemptClock } from "../../view/attempt-history.ts";
import { eventLine, eventTone } from "../../view/event-line.ts";
import type { Estimate } from "../../view/preview/estimate.ts";
import type { Tone } from "../../view/text.ts";
import { earlierEstimates } from "../drive/screen.ts";
import { hideSecretsOf, type LoadedRun, loadRun, reloadRun } from "../loaded-run.ts";
import {
  type AgentActivity,
  type OutputReaders,
  pricedReaders,
  printedAttempt,
} from "../output/output.ts";
import { OutputTail } from "../output/output-tail.ts";
import { masked, maskedJson } from "../output/secret-mask.ts";
import { hasAgents } from "../prices.ts";
import type { Project } from "../project/project.ts";
import { outcomeKey, outcomeOf, type RunOutcome, shownRun } from "./inspect.ts";

/** How many lines of the newest events are kept. */
const LINES_MAX = 500;
/** How many running agents have their streams read for what they do now. */
const AGENTS_READ_MAX = 32;

/** An event as the terminal prints it. */
interface FollowedLine {
  readonly seq: number;
  readonly time: number;
  readonly text: string;
  readonly tone: Tone | undefined;
  /** The step that it is about. */
  readonly step: string | undefined;
}

/** What changed since a sequence number. */
interface RunChanges {
  /** The paths of the steps whose rows changed; undefined when it may be any of them. */
  readonly steps: ReadonlySet<string> | undefined;
  readonly lines: readonly FollowedLine[];
}

/** A run that stays loaded. */
export class FollowedRun {
  readonly #project: Project;
  /** As the journal has it, and as a person may see it; the same value while no secret is marked. */
  #known: LoadedRun;
  #shown: LoadedRun;
  #refreshing: Promise<void> = Promise.resolve();
  #clock = new AttemptClock();
  #lines: FollowedLine[] = [];
  /** The event at which each step changed last, by its path; only for events after `#since`. */
  #changedAt = new Map<string, number>();
  #since: number;
  #graphSeq = 0;
  readonly #tails = new Map<string, OutputTail>();
  #readers: Promise<OutputReaders> | undefined;
  #estimates: Promise<ReadonlyMap<string, Estimate>> | undefined;
  #outcome: RunOutcome = { result: undefined, failedOutput: [] };
  #outcomeKey: string | undefined;
  #looking: Promise<void> = Promise.resolve();

  private constructor(project: Project, known: LoadedRun) {
    this.#project = project;
    this.#known = known;
    this.#shown = shownRun(known);
    this.#since = known.run.seq;
    this.#noteAll();
  }

  /** Loads a run to follow it. */
  static async open(project: Project, runId: string): Promise<FollowedRun> {
    return new FollowedRun(project, await loadRun(project, runId));
  }

  get project(): Project {
    return this.#project;
  }

  /** The run as a person may see it. It changes with the next `refresh`. */
  get known(): LoadedRun {
    return this.#shown;
  }

  /** Changes when steps, items or edges were added, or an edge was followed. */
  get graphVersion(): string {
    return `${this.#since}-${this.#graphSeq}`;
  }

  /** The number of events that are kept in memory. */
  get size(): number {
    return this.#known.events.length;
  }

  /** Adds what is new in the journal, and reads the owner again. */
  refresh(): Promise<void> {
    // One after the other: an event is added once.
    this.#refreshing = this.#refreshing.then(
      () => this.#add(),
      () => this.#add(),
    );
    return this.#refreshing;
  }

  /** What changed since a sequence number. */
  changesSince(seq: number): RunChanges {
    const steps = new Set<string>();
    for (const [path, at] of this.#changedAt) if (at > seq) steps.add(path);
    return {
      steps: seq < this.#since ? undefined : steps,
      lines: this.#lines.filter((line) => line.seq > seq),
    };
  }

  /** What the agents of running steps do now, by attempt (`fix@2.3`). */
  async activities(): Promise<ReadonlyMap<string, AgentActivity>> {
    const { run, plan, dir } = this.#known;
    const activities = new Map<string, AgentActivity>();
    if (!hasAgents(plan)) return activities;
    this.#readers ??= pricedReaders(plan);
    const readers = await this.#readers;
    const agents = [...run.running].filter((visit) => stepOf(visit).work.kind === "agent");
    for (const visit of agents.slice(0, AGENTS_READ_MAX)) {
      const at = attemptOf(visit);
      const key = attemptText(at);
      const tail =
        this.#tails.get(key) ?? new OutputTail({ dir, at, readers }, printedAttempt(visit));
      this.#tails.set(key, tail);
      tail.read();
      const { activity } = tail;
      if (activity !== undefined) activities.set(key, activity);
    }
    for (const [key, tail] of this.#tails) {
      if (activities.has(key)) continue;
      tail.close();
      this.#tails.delete(key);
    }
    return activities;
  }

  /** The time that each step took in earlier runs; read once. */
  estimates(): Promise<ReadonlyMap<string, Estimate>> {
    // An estimate is an extra: a run is shown without one if an earlier run cannot be read.
    this.#estimates ??= earlierEstimates(this.#project, this.#known).catch(() => new Map());
    return this.#estimates;
  }

  /** The outcome of the run as of the last look; a new look starts when something has changed. */
  outcome(): RunOutcome {
    void this.#look();
    return this.#outcome;
  }

  /** The outcome of the run as it is now. */
  async outcomeNow(): Promise<RunOutcome> {
    await this.#look();
    return this.#outcome;
  }

  /** Looks at the outcome if something has changed since the last look. */
  #look(): Promise<void> {
    const key = outcomeKey(this.#shown);
    if (key === this.#outcomeKey) return this.#looking;
    this.#outcomeKey = key;
    this.#looking = this.#looking.then(async () => {
      this.#outcome = await outcomeOf(this.#project, this.#shown);
    });
    // Errors of the journal show up elsewhere; the outcome is only an extra.
    this.#looking = this.#looking.catch(() => undefined);
    return this.#looking;
  }

  close(): void {
    for (const tail of this.#tails.values()) tail.close();
    this.#tails.clear();
  }

  async #add(): Promise<void> {
    const before = this.#known;
    const { seq } = before.run;
    const known = await reloadRun(this.#project, before);
    // An updated run was loaded again.
    const isSame = known.run === before.run;
    this.#known = known;
    if (!isSame) {
      this.#shown = shownRun(known);
      this.#since = known.run.seq;
      this.#noteAll();
      return;
    }
    const news = known.events.slice(before.events.length);
    if (news.length > 0) hideSecretsOf(known.plan, known.run);
    this.#shown = addShown(this.#shown, known, before === this.#shown ? undefined : news);
    this.#note(news);
    if (known.run.seq === seq) return;
    for (const record of takeChanges(this.#shown.run)) this.#mark(record, known.run.seq);
  }

  /** Notes the events of the run from the first one. */
  #noteAll(): void {
    this.#clock = new AttemptClock();
    this.#lines = [];
    this.#changedAt = new Map();
    takeChanges(this.#shown.run);
    this.#note(this.#shown.events);
  }

  /** Remembers the lines of events, and whether they changed the graph. */
  #note(events: readonly Recorded[]): void {
    const { run } = this.#shown;
    const first = events.length - LINES_MAX;
    for (const [index, recorded] of events.entries()) {
      const startedAt = this.#clock.startOf(recorded);
      if (changesGraph(recorded)) this.#graphSeq = recorded.seq;
      if (index < first) continue;
      const text = eventLine(run, recorded, startedAt);
      if (text === undefined) continue;
      const { seq, time, event } = recorded;
      const step = "scope" in event && "step" in event ? stepPath(event) : undefined;
      this.#lines.push({ seq, time, text: masked(text), tone: eventTone(event), step });
    }
    if (this.#lines.length > 2 * LINES_MAX) this.#lines = this.#lines.slice(-LINES_MAX);
  }

  /** Marks a step as changed, with the composite steps around it, whose counts have changed. */
  #mark(record: StepRecord, seq: number): void {
    for (let at: StepRecord | undefined = record; at !== undefined; at = at.scope.parent?.record) {
      this.#changedAt.set(stepPath({ scope: at.scope.id, step: stepOf(at).id }), seq);
    }
  }
}

/** The shown run after new events; `news` is undefined when it is the known one itself. */
function addShown(
  shown: LoadedRun,
  known: LoadedRun,
  news: readonly Recorded[] | undefined,
): LoadedRun {
  if (news === undefined) return shownRun(known);
  const hidden = maskedJson(news);
  const run = hidden.reduce<Run>((before, one) => evolve(known.planOf, before, one), shown.run);
  return { ...known, events: [...shown.events, ...hidden], run };
}

/** True for an event after which a picture of the run has other boxes or other edges. */
function changesGraph({ event }: Recorded): boolean {
  if ("edges" in event && event.edges.length > 0) return true;
  switch (event.type) {
    case "step.started":
    case "step.iterated":
    case "run.updated":
    case "run.rewound":
    case "run.restarted":
    case "run.returned":
    case "run.finishing":
      return true;
    default:
      return false;
  }
}

/** How many runs stay loaded, and how many events they may have together. */
const RUNS_MAX = 24;
const EVENTS_MAX = 500_000;

interface LoadedEntry {
  readonly project: Project;
  readonly run: Promise<FollowedRun>;
  watchers: number;
  events: number;
}

/** The loaded runs of a server. */
export class FollowedRuns {
  /** By id; the one that was used last is the last. */
  readonly #runs = new Map<string, LoadedEntry>();

  /** A run with everything that its journal has now. */
  async get(project: Project, runId: string): Promise<FollowedRun> {
    const { run } = this.#entry(project, runId);
    const followed = await run;
    await followed.refresh();
    return followed;
  }

  /** The same, and the run stays loaded until `leave` is called. */
  async watch(
    project: Project,
    runId: string,
  ): Promise<{ readonly run: FollowedRun; readonly leave: () => void }> {
    const entry = this.#entry(project, runId);
    entry.watchers++;
    const leave = (): void => {
      entry.watchers--;
      this.#unload();
    };
    try {
      return { run: await entry.run, leave };
    } catch (error) {
      leave();
      throw error;
    }
  }

  async close(): Promise<void> {
    const all = [...this.#runs.values()];
    this.#runs.clear();
    for (const { run } of all) (await run.catch(() => undefined))?.close();
  }

  #entry(project: Project, runId: string): LoadedEntry {
    const known = this.#runs.get(runId);
    this.#runs.delete(runId);
    // After a repair the project has another journal.
    const entry = known?.project === project ? known : this.#load(project, runId);
    this.#runs.set(runId, entry);
    this.#unload();
    return entry;
  }

  #load(project: Project, runId: string): LoadedEntry {
    const run = FollowedRun.open(project, runId);
    const entry = { project, run, watchers: 0, events: 0 };
    run.then(
      ({ size }) => {
        entry.events = size;
      },
      () => {
        if (this.#runs.get(runId) === entry) this.#runs.delete(runId);
      },
    );
    return entry;
  }

  /** Unloads the runs that were not used for the longest time, except the newest. */
  #unload(): void {
    let events = [...this.#runs.values()].reduce((sum, entry) => sum + entry.events, 0);
    for (const [runId, entry] of [...this.#runs].slice(0, -1)) {
      if (this.#runs.size <= RUNS_MAX && events <= EVENTS_MAX) return;
      if (entry.watchers > 0) continue;
      this.#runs.delete(runId);
      events -= entry.events;
      void entry.run.then((run) => run.close()).catch(() => undefined);
    }
  }
}
