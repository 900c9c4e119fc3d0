/**
 * One run that is killed at random moments until it has had enough, and then resumed to its end.
 *
 * Owns: the moments and the kinds of kills, and the list of what was done to the run.
 * Does not: judge the run (soak-checkers.ts).
 */
import * as fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { checkJournal } from "../../src/journal/check.ts";
import { readEventsFile } from "../../src/journal/events-file.ts";
import { openSqliteJournal } from "../../src/journal/sqlite.ts";
import type { Random } from "../../src/util/random.ts";
import { eventually, type Program, Project, type Result } from "../rig/project.ts";
import { type Violation, violationsOf } from "./soak-checkers.ts";
import { LOG_FILE, parseLog, randomPipeline, type SoakPipeline } from "./soak-pipeline.ts";
import { type Blow, strike, victimsIn } from "./victim.ts";

/** A program that takes longer than this is stuck: the steps of a run take two seconds at most. */
const STUCK_MS = 60_000;
/** When nobody kills any more, a run needs one resume, or one more after a failure. */
const QUIET_RESUMES_MAX = 3;
const LOOK_MS = 2;
const FAILPOINT_MAX = 60;

const KILLS = [
  "runner",
  "runner at a failpoint",
  "wrapper",
  "group",
  "child",
  "runner and group",
  "SIGINT",
  "SIGTERM",
] as const;
export type Kill = (typeof KILLS)[number];

/** When to strike: at once after a step's start or end, or at any time. */
const MOMENTS = ["START", "END", "any"] as const;
type Moment = (typeof MOMENTS)[number];

export interface SoakResult {
  readonly kills: Readonly<Record<Kill, number>>;
  readonly resumes: number;
  readonly steps: number;
  readonly violations: readonly Violation[];
  /** Where the project lies, when it is kept because something is wrong with it. */
  readonly kept?: string;
}

/** Runs one random pipeline, with about so many kills. */
export async function soakRun(random: Random, killsWanted: number): Promise<SoakResult> {
  const soak = new SoakRun(random, killsWanted);
  const result = await soak.toItsEnd();
  if (result.violations.length > 0) return { ...result, kept: soak.project.dir };
  await soak.project.remove();
  return result;
}

class SoakRun {
  readonly project = new Project();
  readonly #random: Random;
  readonly #pipeline: SoakPipeline;
  readonly #kills = Object.fromEntries(KILLS.map((kill) => [kill, 0])) as Record<Kill, number>;
  readonly #touched = new Set<string>();
  readonly #violations: Violation[] = [];
  #killsLeft: number;
  #resumes = 0;
  #stops = 0;

  constructor(random: Random, killsWanted: number) {
    this.#random = random;
    this.#killsLeft = killsWanted;
    this.#pipeline = randomPipeline(random);
    this.project.write("p.yaml", this.#pipeline.text);
    this.project.write(LOG_FILE, "");
  }

  async toItsEnd(): Promise<SoakResult> {
    let quiet = 0;
    for (;;) {
      if (this.#killsLeft <= 0) quiet++;
      const result = await this.#once();
      if (result === "stuck" || result.exit === 0) break;
      this.#checkExit(result);
      if (quiet > QUIET_RESUMES_MAX) {
        const message = `${quiet} resumes in peace, and still exit ${result.exit}`;
        this.#violations.push({ kind: "stuck", message: `${message}\n${result.stderr}` });
        break;
      }
    }
    await this.#judge();
    return {
      kills: this.#kills,
      resumes: this.#resumes,
      steps: this.#pipeline.steps.length,
      violations: this.#violations,
    };
  }

  /** Starts the program and strikes while it lives. */
  async #once(): Promise<Result | "stuck"> {
    const { runId } = this.#stored();
    if (runId !== undefined) this.#resumes++;
    const args = runId === undefined ? ["run", "p.yaml"] : ["resume", runId];
    const random = this.#random;
    const atFailpoint = this.#killsLeft > 0 && random.chance(0.2);
    const env = atFailpoint ? { PERDURE_FAILPOINT: String(1 + random.below(FAILPOINT_MAX)) } : {};
    const program = this.project.start(args, { env });
    const patience = new AbortController();
    const stuck = sleep(STUCK_MS, "stuck" as const, { signal: patience.signal }).catch(
      () => "stuck" as const,
    );
    const lived = this.#strikeWhileItLives(program, atFailpoint);
    const result = await Promise.race([program.ended, stuck]);
    if (result === "stuck") {
      const message = `perdure ${args.join(" ")} does not end:\n${program.stdout}`;
      this.#violations.push({ kind: "stuck", message });
      await program.kill();
    }
    patience.abort();
    await lived;
    if (atFailpoint && result !== "stuck" && result.signal === "SIGKILL") {
      this.#count("runner at a failpoint");
    }
    return result;
  }

  async #strikeWhileItLives(program: Program, atFailpoint: boolean): Promise<void> {
    let over = false;
    void program.ended.then(() => {
      over = true;
    });
    while (!over && !atFailpoint && this.#killsLeft > 0) {
      const kill = this.#random.pick(KILLS);
      // A step can only be hit while it runs.
      const steps = kill === "wrapper" || kill === "group" || kill === "child";
      const moment = this.#random.pick(steps ? (["START", "START", "any"] as const) : MOMENTS);
      await this.#waitFor(moment, () => over);
      if (!over) this.#strike(program, kill);
    }
  }

  /** Waits for the next moment to strike. */
  async #waitFor(moment: Moment, over: () => boolean): Promise<void> {
    const seen = this.#linesOf(moment);
    if (moment === "any") await sleep(this.#random.below(400));
    else {
      while (!over() && this.#linesOf(moment) === seen) await sleep(LOOK_MS);
      await sleep(this.#random.below(12));
    }
  }

  #linesOf(moment: Moment): number {
    if (moment === "any") return 0;
    return this.#log().filter(({ what }) => what === moment).length;
  }

  #strike(program: Program, kill: Kill): void {
    switch (kill) {
      case "runner at a failpoint":
        return;
      case "runner":
        if (program.child.kill("SIGKILL")) this.#count(kill);
        return;
      case "SIGINT":
      case "SIGTERM":
        this.#stops++;
        if (program.child.kill(kill)) this.#count(kill);
        // Now and then the runner does not even get to its end in order.
        if (this.#random.chance(0.3) && program.child.kill("SIGKILL")) this.#count("runner");
        return;
      case "runner and group": {
        const first = this.#random.chance(0.5);
        const hit = first && this.#strikeStep("group");
        if (program.child.kill("SIGKILL")) this.#count(kill);
        if (!hit) this.#strikeStep("group");
        return;
      }
      default:
        if (this.#strikeStep(kill)) this.#count(kill);
    }
  }

  #strikeStep(blow: Blow): boolean {
    const root = this.project.path(".perdure", "runs");
    const [runId] = fs.existsSync(root) ? fs.readdirSync(root) : [];
    const victims = runId === undefined ? [] : victimsIn(`${root}/${runId}`);
    if (victims.length === 0) return false;
    const victim = this.#random.pick(victims);
    const hit = strike(victim, blow, this.#random);
    if (hit) this.#touched.add(victim.key);
    return hit;
  }

  #count(kill: Kill): void {
    this.#kills[kill]++;
    this.#killsLeft--;
  }

  #log(): ReturnType<typeof parseLog> {
    return parseLog(this.project.read(LOG_FILE));
  }

  /** A program ends with its run's end, by our hand, or because we asked it to. */
  #checkExit({ exit, signal, stdout, stderr }: Result): void {
    const stopped = this.#stops > 0 && (exit === 130 || exit === 143);
    const ours = signal === "SIGKILL" || signal === "SIGINT" || signal === "SIGTERM";
    if (exit === 3 || stopped || ours) return;
    const message = `exit ${exit}, signal ${signal}:\n${stdout}${stderr}`;
    this.#violations.push({ kind: "stuck", message });
    this.#killsLeft = 0;
  }

  #stored() {
    const file = this.project.path(".perdure", "state.db");
    if (!fs.existsSync(file)) return {};
    const journal = openSqliteJournal(file, { mode: "read-only" });
    try {
      const [run] = journal.list({});
      if (run === undefined) return {};
      return { runId: run.runId, status: run.status, events: journal.load(run.runId).events };
    } finally {
      journal.close();
    }
  }

  async #judge(): Promise<void> {
    const { runId, status, events = [] } = this.#stored();
    const { steps } = this.#pipeline;
    if (status !== "completed") {
      this.#violations.push({ kind: "stuck", message: `the run is ${status}` });
    }
    const evidence = { events, steps, touched: this.#touched, stops: this.#stops };
    this.#violations.push(...violationsOf({ ...evidence, log: this.#log() }));
    for (const { message } of checkJournal(this.project.path(".perdure", "state.db"))) {
      this.#violations.push({ kind: "damaged", message });
    }
    const doctor = await this.project.run(["doctor"]);
    if (doctor.exit !== 0) this.#violations.push({ kind: "damaged", message: doctor.stderr });
    const copy = readEventsFile(this.project.path(".perdure", "runs", runId ?? "", "events.jsonl"));
    if (copy.problems.length > 0 || copy.events.length !== events.length) {
      const message = `events.jsonl has ${copy.events.length} of ${events.length} events`;
      this.#violations.push({ kind: "damaged", message: `${message} ${copy.problems.join("; ")}` });
    }
    await this.#checkLeftOver();
  }

  async #checkLeftOver(): Promise<void> {
    try {
      await eventually("no process is left", () => this.project.stepProcesses().length === 0);
    } catch (error) {
      const left = this.project.stepProcesses().join(", ");
      const message = `${String(error)}: ${left}`;
      this.#violations.push({ kind: "left-over", message });
    }
  }
}
