/**
 * Runs of agents that are killed at random moments, one after the other in the same project, until
 * there were enough kills.
 *
 * Owns: the moments and the kinds of kills, and the list of what was done.
 * Does not: judge what became of a run (chaos-checkers.ts). The seed chooses the kills; the moments
 * are the machine's, so a seed does not repeat a race.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { readEventsFile } from "../../src/journal/events-file.ts";
import { checkJournal } from "../../src/journal/repair/check.ts";
import { statOf } from "../../src/runner/process/identity.ts";
import { type Random, seededRandom, seedOf } from "../../src/util/random.ts";
import { spentText } from "../../src/view/cost-text.ts";
import { parseJson } from "../rig/model/json.ts";
import { eventually, type Program, type Result } from "../rig/project.ts";
import { kill, victimsIn } from "../soak/victim.ts";
import { type Account, judge, spentIn } from "./chaos-checkers.ts";
import { type ChaosAgent, ChaosProject, type StoredRun } from "./chaos-project.ts";

/** A program that takes longer than this is stuck. */
const STUCK_MS = 180_000;
const KILLS_PER_RUN_MAX = 8;
/** When nobody kills any more, a run needs one resume. */
const QUIET_STARTS_MAX = 2;
/** A kill can come anywhere in the time that as many steps take without one. */
const MOMENT_MS_MAX = 1_000;
const AFTER_STALL_MS_MAX = 40;
const STALL_MS_MAX = 300;

const KILLS = ["runner", "agent", "wrapper", "runner and step", "SIGINT", "SIGTERM"] as const;
type ChaosKill = (typeof KILLS)[number];

export interface ChaosOptions {
  readonly kills: number;
  readonly seed: string;
  readonly agents: readonly ChaosAgent[];
  /** Called after each run. */
  readonly onRun?: (result: ChaosResult) => void;
}

export interface ChaosResult {
  readonly kills: Readonly<Record<ChaosKill, number>>;
  readonly runs: number;
  readonly resumes: number;
  readonly attempts: number;
  readonly accounts: readonly Account[];
  readonly violations: readonly string[];
  /** Where the project lies, when it is kept because something is wrong with it. */
  readonly kept?: string;
}

/** Runs the pipeline again and again until there were so many kills. */
export async function chaos(options: ChaosOptions): Promise<ChaosResult> {
  const project = await ChaosProject.open(options.agents);
  const run = new Chaos(project, options);
  const result = await run.untilKilledEnough();
  if (result.violations.length > 0) {
    await project.model.close();
    return { ...result, kept: project.dir };
  }
  await project.close();
  return result;
}

class Chaos {
  readonly #project: ChaosProject;
  readonly #options: ChaosOptions;
  readonly #random: Random;
  readonly #kills = Object.fromEntries(KILLS.map((kill) => [kill, 0])) as Record<ChaosKill, number>;
  readonly #accounts: Account[] = [];
  readonly #violations: string[] = [];
  #runs = 0;
  #resumes = 0;
  #attempts = 0;
  /** Of the run that is under way. */
  #killsLeft = 0;
  #stops = 0;

  constructor(project: ChaosProject, options: ChaosOptions) {
    this.#project = project;
    this.#options = options;
    this.#random = seededRandom(seedOf(options.seed));
  }

  async untilKilledEnough(): Promise<ChaosResult> {
    while (this.#killed() < this.#options.kills && this.#violations.length === 0) {
      await this.#oneRun();
      this.#options.onRun?.(this.#result());
    }
    const doctor = await this.#project.run(["doctor"]);
    if (doctor.exit !== 0) this.#violations.push(`doctor: ${doctor.stdout}${doctor.stderr}`);
    return this.#result();
  }

  #result(): ChaosResult {
    return {
      kills: this.#kills,
      runs: this.#runs,
      resumes: this.#resumes,
      attempts: this.#attempts,
      accounts: this.#accounts,
      violations: this.#violations,
    };
  }

  #killed(): number {
    return Object.values(this.#kills).reduce((sum, count) => sum + count, 0);
  }

  async #oneRun(): Promise<void> {
    const project = this.#project;
    const before = {
      runId: (await project.newest())?.runId,
      requests: project.model.requests().at(-1)?.sequence ?? 0,
      effects: project.effectLines(0).length,
      kills: this.#killed(),
    };
    const wanted = 1 + this.#random.below(KILLS_PER_RUN_MAX);
    this.#killsLeft = Math.min(wanted, this.#options.kills - before.kills);
    this.#stops = 0;
    this.#runs++;
    let quiet = 0;
    for (;;) {
      if (this.#killsLeft <= 0) quiet++;
      const newest = await project.newest();
      const begun = newest?.runId === before.runId ? undefined : newest?.runId;
      if (begun !== undefined) this.#resumes++;
      const result = await this.#once(begun === undefined ? ["run", "p.yaml"] : ["resume", begun]);
      if (result === "stuck" || result.exit === 0 || !this.#expected(result)) break;
      if (quiet > QUIET_STARTS_MAX) {
        this.#violations.push(`${quiet} starts in peace, and still exit ${result.exit}`);
        break;
      }
    }
    await this.#judge(before);
  }

  /** Starts the program and strikes while it lives. */
  async #once(args: readonly string[]): Promise<Result | "stuck"> {
    const program = this.#project.begin(args, this.#random);
    const patience = new AbortController();
    const over = program.ended.then(() => patience.abort());
    const stuck = nap(STUCK_MS, patience.signal).then(() => "stuck" as const);
    const others = [
      this.#strikeWhileItLives(program, patience.signal),
      this.#releaseWhileItLives(patience.signal),
    ];
    const result = await Promise.race([program.ended, stuck]);
    if (result === "stuck") {
      this.#violations.push(`perdure ${args.join(" ")} does not end:\n${program.stdout}`);
      await program.kill();
    }
    await over;
    await Promise.all(others);
    return result;
  }

  /** The model takes its time, each time another one. */
  async #releaseWhileItLives(over: AbortSignal): Promise<void> {
    const { model } = this.#project;
    while (!over.aborted) {
      await Promise.race([model.stalled(), aborted(over)]);
      await nap(this.#random.below(STALL_MS_MAX), over);
      model.release();
    }
  }

  async #strikeWhileItLives(program: Program, over: AbortSignal): Promise<void> {
    const { model } = this.#project;
    while (!over.aborted && this.#killsLeft > 0) {
      const blow = this.#random.pick(KILLS);
      await nap(this.#random.below(MOMENT_MS_MAX * this.#project.agents.length), over);
      if (this.#random.chance(0.5)) {
        await Promise.race([model.stalled(), aborted(over)]);
        await nap(this.#random.below(AFTER_STALL_MS_MAX), over);
      }
      if (!over.aborted && (await this.#strike(program, blow))) {
        this.#kills[blow]++;
        this.#killsLeft--;
        // The dead are not hit again, although they may not be buried yet.
        if (blow === "runner" || blow === "runner and step") return;
      }
    }
  }

  /** Strikes; false when there was nobody to be hit. */
  async #strike(program: Program, blow: ChaosKill): Promise<boolean> {
    switch (blow) {
      case "runner":
        return program.child.kill("SIGKILL");
      case "SIGINT":
      case "SIGTERM":
        this.#stops++;
        return program.child.kill(blow);
      case "agent":
      case "wrapper":
        return this.#strikeStep(blow);
      case "runner and step": {
        const stepFirst = this.#random.chance(0.5);
        if (stepFirst) this.#strikeAll();
        const hit = program.child.kill("SIGKILL");
        this.#strikeAll();
        return hit;
      }
    }
  }

  /** The wrapper is the process that records the step's end, the agent its child. */
  async #strikeStep(which: "agent" | "wrapper"): Promise<boolean> {
    const runId = (await this.#project.newest())?.runId ?? "";
    const [victim] = victimsIn(this.#project.path(".perdure", "runs", runId));
    if (victim === undefined) return false;
    const { pid } = victim.wrapper;
    if (which === "wrapper") return kill(pid);
    const agent = this.#project.stepProcesses().find((one) => statOf(one)?.parent === pid);
    return agent !== undefined && kill(agent);
  }

  #strikeAll(): void {
    for (const pid of this.#project.stepProcesses()) kill(pid);
  }

  /** A program ends with its run's end, by our hand, or because we asked it to. */
  #expected({ exit, signal, stdout, stderr }: Result): boolean {
    const stopped = this.#stops > 0 && (exit === 130 || exit === 143);
    if (stopped || signal === "SIGKILL" || signal === "SIGINT" || signal === "SIGTERM") return true;
    this.#violations.push(`exit ${exit}, signal ${signal}:\n${stdout}${stderr}`);
    return false;
  }

  async #judge(before: {
    readonly runId: string | undefined;
    readonly requests: number;
    readonly effects: number;
    readonly kills: number;
  }): Promise<void> {
    const project = this.#project;
    const run = await project.newest();
    if (run === undefined || run.runId === before.runId) {
      this.#violations.push("the run is not in the journal");
      return;
    }
    const requests = project.model
      .requests()
      .filter(({ ask, sequence }) => ask !== undefined && sequence > before.requests);
    const { accounts, violations } = judge({
      agents: project.agents,
      events: run.events,
      requests,
      effects: project.effectLines(before.effects),
      transcripts: project.transcripts().map(([, text]) => text),
      kills: this.#killed() - before.kills,
    });
    this.#accounts.push(...accounts);
    this.#attempts += run.events.filter(({ event }) => event.type === "step.started").length;
    if (run.status !== "completed") this.#violations.push(`the run is ${run.status}`);
    const found = [
      ...violations,
      ...this.#damages(run),
      ...(await this.#leftOver()),
      ...(await this.#untold(run)),
    ];
    this.#violations.push(...found.map((message) => `run ${run.runId}: ${message}`));
  }

  /** Journals and transcripts that are not whole. */
  #damages({ runId, events }: StoredRun): readonly string[] {
    const project = this.#project;
    const problems = checkJournal(project.path(".perdure", "state.db"));
    const copy = readEventsFile(project.path(".perdure", "runs", runId, "events.jsonl"));
    const whole = copy.problems.length === 0 && copy.events.length === events.length;
    const broken = project.transcripts().flatMap(([name, text]) => {
      const lines = text.split("\n").slice(0, -1);
      const at = lines.findIndex((line) => parseJson(line) === undefined);
      return at < 0 ? [] : [`line ${at + 1} of the transcript ${name} is broken`];
    });
    return [
      ...problems.map(({ message }) => message),
      ...(whole ? [] : [`events.jsonl: ${copy.events.length} of ${events.length} events`]),
      ...broken,
    ];
  }

  /** The spending that a person sees equals that of the events. */
  async #untold({ runId, events }: StoredRun): Promise<readonly string[]> {
    const spent = spentText(spentIn(events.map(({ event }) => event))) ?? "nothing";
    const shown = await this.#project.must(["show", runId]);
    return shown.includes(spent) ? [] : [`spent is ${spent}, but it shows:\n${shown}`];
  }

  async #leftOver(): Promise<readonly string[]> {
    try {
      await eventually("no process is left", () => this.#project.stepProcesses().length === 0);
      return [];
    } catch (error) {
      return [`${String(error)}: ${this.#project.stepProcesses().join(", ")}`];
    }
  }
}

/** Waits, but not beyond the end. */
async function nap(ms: number, over: AbortSignal): Promise<void> {
  await Promise.race([sleep(ms, undefined, { ref: false }), aborted(over)]);
}

async function aborted(over: AbortSignal): Promise<void> {
  if (over.aborted) return;
  await new Promise<void>((done) => {
    over.addEventListener("abort", () => done(), { once: true });
  });
}
