/**
 * One run that is killed at random moments until it has had enough, and then resumed to its end,
 * while a bystander works in the same directories and somebody answers its gates.
 *
 * Owns: the moments and the kinds of kills, and the list of what was done to the run.
 * Does not: judge the run (soak-checkers.ts, bystander.ts).
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readEventsFile } from "../../src/journal/events-file.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import type { Random } from "../../src/util/random.ts";
import { eventually, type Program, Project, type Result } from "../rig/project.ts";
import { Bystander } from "./bystander.ts";
import { type Violation, type ViolationKind, violationsOf } from "./soak-checkers.ts";
import { parseLog, randomPipeline, type SoakPipeline } from "./soak-pipeline.ts";
import {
  type Blow,
  descendantsOf,
  gitBelow,
  kill,
  strike,
  victimsIn,
  workingIn,
} from "./victim.ts";

/**
 * A program that takes longer than this is stuck: the steps of a run take three seconds at most.
 */
const STUCK_MS = 120_000;
/** How long an owner is paused at most. */
const PAUSE_MS = 10_000;
/**
 * When nobody kills any more, a run needs one resume, one more after a failure and one per gate.
 */
const QUIET_RESUMES_MAX = 3;
const LOOK_MS = 2;
/** How long a blow waits for a git process that it can hit. */
const GIT_WAIT_MS = 400;
const FAILPOINT_MAX = 60;
const TRACKED_FILES = 20;

const KILLS = [
  "runner",
  "runner at a failpoint",
  "wrapper",
  "group",
  "child",
  "runner and group",
  "git",
  "whole tree",
  "pause",
  "SIGINT",
  "SIGTERM",
] as const;
type Kill = (typeof KILLS)[number];

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
  const root = fs.mkdtempSync(join(tmpdir(), "perdure-soak-"));
  const soak = new SoakRun(root, random, killsWanted);
  const result = await soak.toItsEnd();
  if (result.violations.length > 0) return { ...result, kept: root };
  await soak.project.discard();
  fs.rmSync(root, { recursive: true });
  return result;
}

class SoakRun {
  readonly project: Project;
  readonly #log: string;
  readonly #random: Random;
  readonly #pipeline: SoakPipeline;
  readonly #bystander: Bystander;
  readonly #kills = Object.fromEntries(KILLS.map((one) => [one, 0])) as Record<Kill, number>;
  readonly #touched = new Set<string>();
  readonly #violations: Violation[] = [];
  #killsLeft: number;
  #resumes = 0;
  #stops = 0;
  #gitKilled = false;

  constructor(root: string, random: Random, killsWanted: number) {
    this.#log = join(root, "log");
    this.#random = random;
    this.#killsLeft = killsWanted;
    this.#pipeline = randomPipeline(random, this.#log);
    this.project = repositoryIn(join(root, "project"), this.#pipeline.text);
    fs.writeFileSync(this.#log, "");
    this.#bystander = new Bystander(this.project.dir, () => this.#workspaceInUse());
  }

  async toItsEnd(): Promise<SoakResult> {
    const gates = this.#pipeline.steps.filter(({ kind }) => kind === "gate").length;
    let quiet = 0;
    for (;;) {
      if (this.#killsLeft <= 0) quiet++;
      const result = await this.#once();
      if (result === "stuck" || result.exit === 0) break;
      this.#checkExit(result);
      if (result.exit === 6) await this.#answerAll();
      if (quiet > QUIET_RESUMES_MAX + gates) {
        const message = `${quiet} resumes in peace, and still exit ${result.exit}`;
        this.#violate("stuck", `${message}\n${result.stdout}${result.stderr}`);
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
    const { runId } = await this.#stored();
    if (runId !== undefined) this.#resumes++;
    const args = runId === undefined ? ["run", "p.yaml"] : this.#resumeArgs(runId);
    const random = this.#random;
    const atFailpoint = this.#killsLeft > 0 && random.chance(0.15);
    const env = atFailpoint ? { PERDURE_FAILPOINT: String(1 + random.below(FAILPOINT_MAX)) } : {};
    this.#gitKilled = false;
    const program = this.project.start(args, { env });
    const lived = this.#strikeWhileItLives(program, atFailpoint);
    const result = await withPatience(program);
    if (result === "stuck") {
      this.#violate("stuck", `perdure ${args.join(" ")} does not end:\n${program.stdout}`);
      await program.kill();
    }
    await lived;
    if (atFailpoint && result !== "stuck" && result.signal === "SIGKILL") {
      this.#count("runner at a failpoint");
    }
    return result;
  }

  /** What the bystander left in a workspace of the run's own stays there. */
  #resumeArgs(runId: string): readonly string[] {
    const keep = this.#pipeline.workspace === "worktree" ? ["--files", "keep"] : [];
    return ["resume", runId, ...keep];
  }

  async #strikeWhileItLives(program: Program, atFailpoint: boolean): Promise<void> {
    let over = false;
    void program.ended.then(() => {
      over = true;
    });
    while (!over && !atFailpoint && this.#killsLeft > 0) {
      const blow = this.#random.pick(KILLS);
      // A step can only be hit while it runs.
      const steps = blow === "wrapper" || blow === "group" || blow === "child";
      const moment = this.#random.pick(steps ? (["START", "START", "any"] as const) : MOMENTS);
      await this.#waitFor(moment, () => over);
      if (!over) await this.#strike(program, blow);
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
    return this.#lines().filter(({ what }) => what === moment).length;
  }

  async #strike(program: Program, blow: Kill): Promise<void> {
    switch (blow) {
      case "runner at a failpoint":
        return;
      case "runner":
        if (program.child.kill("SIGKILL")) this.#count(blow);
        return;
      case "SIGINT":
      case "SIGTERM":
        this.#stops++;
        if (program.child.kill(blow)) this.#count(blow);
        // Now and then the runner does not even get to its end in order.
        if (this.#random.chance(0.3) && program.child.kill("SIGKILL")) this.#count("runner");
        return;
      case "runner and group": {
        const first = this.#random.chance(0.5);
        const hit = first && this.#strikeStep("group");
        if (program.child.kill("SIGKILL")) this.#count(blow);
        if (!hit) this.#strikeStep("group");
        return;
      }
      case "git":
        return this.#strikeGit(program);
      case "whole tree":
        return this.#strikeTree(program);
      case "pause":
        return this.#pause(program);
      default:
        if (this.#strikeStep(blow)) this.#count(blow);
    }
  }

  #strikeStep(blow: Blow): boolean {
    const victims = this.#victims();
    if (victims.length === 0) return false;
    const victim = this.#random.pick(victims);
    const hit = strike(victim, blow, this.#random);
    if (hit) this.#touched.add(victim.key);
    return hit;
  }

  #victims(): ReturnType<typeof victimsIn> {
    const root = this.project.path(".perdure", "runs");
    const [runId] = fs.existsSync(root) ? fs.readdirSync(root) : [];
    return runId === undefined ? [] : victimsIn(join(root, runId));
  }

  /** Kills the next git process that the runner starts, at a moment of its life. */
  async #strikeGit(program: Program): Promise<void> {
    const deadline = performance.now() + GIT_WAIT_MS;
    while (performance.now() < deadline && program.child.exitCode === null) {
      const [pid] = gitBelow(program.pid);
      if (pid === undefined) {
        await sleep(1);
        continue;
      }
      this.#gitKilled = true;
      if (kill(pid)) this.#count("git");
      // As when the system kills by memory: the runner may be next.
      if (this.#random.chance(0.3) && program.child.kill("SIGKILL")) this.#count("runner");
      return;
    }
  }

  /** A power cut, `docker kill`, the end of a session: nothing of the run survives. */
  async #strikeTree(program: Program): Promise<void> {
    // Often in the middle of git's work.
    const deadline = performance.now() + GIT_WAIT_MS;
    const inGit = this.#random.chance(0.5);
    while (inGit && performance.now() < deadline && gitBelow(program.pid).length === 0) {
      await sleep(1);
    }
    if (program.child.exitCode !== null || !kill(program.pid, "SIGSTOP")) return;
    const tree = [...descendantsOf(program.pid), ...this.project.stepProcesses()];
    this.#count("whole tree");
    for (const pid of [program.pid, ...tree]) kill(pid);
    // What they had started meanwhile.
    await program.ended;
    for (const pid of this.project.stepProcesses()) kill(pid);
    this.#touchStarted();
  }

  /** All that has started and not ended is dead by our hand. */
  #touchStarted(): void {
    const lines = this.#lines();
    for (const { what, step, attempt } of lines) {
      const ended = lines.some(
        (line) => line.step === step && line.attempt === attempt && line.what === "END",
      );
      if (what === "START" && !ended) this.#touched.add(`${step}.${attempt}`);
    }
    // Its last line was written, and its exit status perhaps not.
    for (const { step, attempt } of lines.slice(-1)) this.#touched.add(`${step}.${attempt}`);
  }

  /** An owner that does not move still owns its run: nobody else gets it. */
  async #pause(program: Program): Promise<void> {
    const { runId, owned = false } = await this.#stored();
    if (runId === undefined || !owned || !kill(program.pid, "SIGSTOP")) return;
    this.#count("pause");
    // It may have stopped in the middle of a transaction, which the other one then waits for.
    const over = setTimeout(() => kill(program.pid, "SIGCONT"), PAUSE_MS);
    try {
      const other = await this.project.run(this.#resumeArgs(runId));
      if (other.exit === 7 || (await this.#stored()).owned !== true) return;
      const what = `a second resume beside a paused owner: exit ${other.exit}`;
      this.#violate("repeated", `${what}\n${other.stdout}${other.stderr}`);
    } finally {
      clearTimeout(over);
      kill(program.pid, "SIGCONT");
    }
  }

  /** Another process answers what is asked; what is not asked yet is refused. */
  async #answerAll(): Promise<void> {
    const { runId = "" } = await this.#stored();
    for (const { id, kind } of this.#pipeline.steps) {
      if (kind === "gate") await this.project.run(["answer", runId, id, "approve"]);
    }
  }

  #count(blow: Kill): void {
    this.#kills[blow]++;
    this.#killsLeft--;
  }

  #lines(): ReturnType<typeof parseLog> {
    return parseLog(fs.readFileSync(this.#log, "utf8"));
  }

  #violate(kind: ViolationKind, message: string): void {
    this.#violations.push({ kind, message });
  }

  /** The directory in which steps without one of their own work, if it is not the project. */
  #workspaceInUse(): string | undefined {
    if (this.#pipeline.workspace === "here") return undefined;
    const shared = this.#pipeline.steps.filter(({ kind }) => kind === "shared");
    const line = this.#lines().find(({ step }) => shared.some(({ id }) => id === step));
    return line !== undefined && fs.existsSync(line.directory) ? line.directory : undefined;
  }

  /** A program ends with its run's end, by our hand, or because we asked it to. */
  #checkExit({ exit, signal, stdout, stderr }: Result): void {
    const stopped = this.#stops > 0 && (exit === 130 || exit === 143);
    const ours = signal === "SIGKILL" || signal === "SIGINT" || signal === "SIGTERM";
    // Without its git, a runner cannot continue; it says so and can be resumed.
    const withoutGit = exit === 1 && this.#gitKilled;
    if (exit === 3 || exit === 6 || stopped || ours || withoutGit) return;
    this.#violate("stuck", `exit ${exit}, signal ${signal}:\n${stdout}${stderr}`);
    this.#killsLeft = 0;
  }

  async #stored() {
    const file = this.project.path(".perdure", "state.db");
    if (!fs.existsSync(file)) return {};
    const journal = await openSqliteJournal(file, { mode: "read-only" });
    try {
      const [run] = await journal.log.list({});
      if (run === undefined) return {};
      const { runId, status, lease } = run;
      const owned = lease?.owner !== undefined;
      return { runId, status, owned, events: (await journal.log.load(runId)).events };
    } finally {
      await journal.close();
    }
  }

  async #judge(): Promise<void> {
    const { runId = "", status, events = [] } = await this.#stored();
    const { steps, workspace } = this.#pipeline;
    if (status !== "completed") this.#violate("stuck", `the run is ${status}`);
    for (const message of await this.#bystander.verdict()) this.#violate("changed", message);
    const evidence = { events, steps, touched: this.#touched, stops: this.#stops };
    const directory =
      workspace === "here"
        ? this.project.dir
        : this.project.path(".perdure", "runs", runId, "workspace");
    const fileIn = (name: string): string | undefined => {
      const path = join(directory, name);
      return fs.existsSync(path) ? fs.readFileSync(path, "utf8") : undefined;
    };
    if (status === "completed") {
      this.#violations.push(...violationsOf({ ...evidence, fileIn, log: this.#lines() }));
    }
    const doctor = await this.project.run(["doctor"]);
    if (doctor.exit !== 0) this.#violate("damaged", doctor.stdout + doctor.stderr);
    const copy = readEventsFile(this.project.path(".perdure", "runs", runId, "events.jsonl"));
    if (copy.problems.length > 0 || copy.events.length !== events.length) {
      const message = `events.jsonl has ${copy.events.length} of ${events.length} events`;
      this.#violate("damaged", `${message} ${copy.problems.join("; ")}`);
    }
    await this.#checkLeftOver();
  }

  async #checkLeftOver(): Promise<void> {
    const left = (): readonly number[] => [
      ...this.project.stepProcesses(),
      ...workingIn(this.project.dir),
    ];
    try {
      await eventually("no process is left", () => left().length === 0);
    } catch (error) {
      this.#violate("left-over", `${String(error)}: ${left().join(", ")}`);
    }
  }
}

/** A project in a git repository of its own, with a few tracked files. */
function repositoryIn(directory: string, pipeline: string): Project {
  fs.mkdirSync(directory);
  const project = new Project(directory);
  project.write("p.yaml", pipeline);
  for (let n = 0; n < TRACKED_FILES; n++) project.write(`tracked-${n}.txt`, `${n}\n`);
  const git = (...args: readonly string[]): void => {
    const who = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"];
    execFileSync("git", ["-C", directory, ...who, ...args]);
  };
  git("init", "-q");
  git("add", ".");
  git("commit", "-q", "-m", "tracked");
  return project;
}

async function withPatience(program: Program): Promise<Result | "stuck"> {
  const over = new AbortController();
  const stuck = sleep(STUCK_MS, "stuck" as const, { signal: over.signal }).catch(
    () => "stuck" as const,
  );
  const result = await Promise.race([program.ended, stuck]);
  over.abort();
  return result;
}
