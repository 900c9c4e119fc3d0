/** One owner per run, with proof (P6): who is refused, who takes over, and who is left alone. */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openLocalProject } from "../../src/app/project/project.ts";
import type { Refusal } from "../../src/app/refusal.ts";
import { eventually, type Hold, PlainProject, type Project } from "../rig/project.ts";

/** How many runs start at once; each is a process. */
const MANY = 8;
/** Enough that a look at a project falls between two of the files that are made. */
const NEW_PROJECTS = 150;
const NEW_PROJECTS_SCRIPT = join(import.meta.dirname, "../rig/new-projects.ts");

let project: Project;
let foreign: ChildProcess | undefined;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(async () => {
  foreign?.kill("SIGKILL");
  foreign = undefined;
  await project.remove();
});

/** A run that is held in its first step of two. */
async function heldRun(): Promise<{ hold: Hold; runner: ReturnType<Project["start"]> }> {
  const hold = project.hold("one");
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: |
      ${project.effect("one")}
      ${hold.command}
  - id: two
    run: ${project.effect("two")}
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  return { hold, runner };
}

interface LeaseOwner {
  pid: number;
  started: string;
  boot: string;
  machine?: string;
  host: string;
}

function editOwner(change: (owner: LeaseOwner) => LeaseOwner): void {
  const journal = new DatabaseSync(project.path(".perdure", "state.db"));
  const row = journal.prepare("SELECT owner FROM leases").get() as { owner: string };
  const owner = change(JSON.parse(row.owner) as LeaseOwner);
  journal.prepare("UPDATE leases SET owner = ?").run(JSON.stringify(owner));
  journal.close();
}

it("does not resume a living run, but adds to its budget through its owner", async () => {
  const { hold, runner } = await heldRun();
  const [runId = ""] = await project.runIds();
  const id = runId.slice(0, 8);
  for (const args of [["resume"], ["resume", id, "--from-step", "two"]]) {
    const refused = await project.run(args);
    expect(refused.exit, args.join(" ")).toBe(7);
    expect(refused.stderr).toContain(`error: run ${id} is owned by process ${runner.pid} of `);
    expect(refused.stderr).toContain(`next: perdure attach ${id}`);
  }
  const said = await project.must(["resume", id, "--budget", "+30m"]);
  expect(said).toContain(`Added +30m to the budget of run ${id}, which process ${runner.pid} of `);
  const refused = await project.run(["resume", id, "--budget", "+30m", "--turns", "+1"]);
  expect(refused.exit).toBe(7);
  await hold.release();
  expect((await runner.ended).exit).toBe(0);
  const events = project.read(".perdure", "runs", runId, "events.jsonl").split("\n");
  const funded = events.filter((line) => line.includes('"run.funded"'));
  expect(funded).toEqual([expect.stringContaining('"added":{"timeMs":1800000}')]);

  expect(await project.must(["resume", runId])).toContain("There is nothing to resume.");
  const none = await project.run(["resume"]);
  expect(none.exit).toBe(2);
  expect(none.stderr).toBe("error: there is no unfinished run here\n  next: perdure list runs\n");
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("refuses to resume a cleaned run, and says why", async () => {
  project.write("p.yaml", "steps:\n  - id: one\n    run: exit 1\n");
  await project.run(["run", "p.yaml"]);
  const [runId = ""] = await project.runIds();
  await project.must(["clean", runId]);

  const refused = await project.run(["resume", runId]);

  expect(refused.exit).toBe(1);
  expect(refused.stderr).toMatch(/\(p\) had failed, and its files were removed on .* UTC\.\n/);
  expect(refused.stderr).toContain(`next: perdure run ${project.path("p.yaml")}`);
});

it("does not clean a run whose step outlived its runner, and lets exactly one of two resumes win", async () => {
  const { hold, runner } = await heldRun();
  await runner.kill("SIGKILL");
  const id = (await project.newestId()).slice(0, 8);
  const cleaned = await project.must(["clean", "--all"]);
  expect(cleaned).toBe(`${id}  kept: its step one still runs; continue it: perdure resume ${id}\n`);

  const rivals = [project.start(["resume"]), project.start(["resume"])];
  const loser = await Promise.race(rivals.map(({ ended }) => ended));
  expect(loser.exit, loser.stdout + loser.stderr).toBe(7);
  expect(loser.stderr).toMatch(/is owned by process \d+ of \S+ on \S+\n {2}next: perdure attach/);
  await hold.release();
  const results = await Promise.all(rivals.map(({ ended }) => ended));

  expect(new Set(results.map(({ exit }) => exit))).toEqual(new Set([0, 7]));
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("does not mistake another process with the pid of a step for the step", async () => {
  const { hold, runner } = await heldRun();
  await runner.kill("SIGKILL");
  await project.killSteps();
  foreign = spawn("sleep", ["1000"]);
  const [runId = ""] = await project.runIds();
  const file = project.path(".perdure", "runs", runId, "attempts", "one@1.1", "pid");
  const [start, , ...rest] = readFileSync(file, "utf8").split(" ");
  writeFileSync(file, [start, foreign.pid, ...rest].join(" "));

  const resumed = project.start(["resume"]);
  await resumed.printed("one lost: ");
  await eventually("the step starts again", () => project.effects().one === 2);
  await hold.release();

  expect((await resumed.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 2, two: 1 });
  expect(foreign.exitCode ?? foreign.signalCode).toBeNull();
});

it("takes over a run from a reused pid and from an earlier boot; from another machine only with --take-over", async () => {
  const { hold, runner } = await heldRun();
  await runner.kill("SIGKILL");
  foreign = spawn("sleep", ["1000"]);
  const { pid = 0 } = foreign;
  editOwner((owner) => ({ ...owner, pid }));
  const listed = await project.must(["list", "runs", "--output", "json"]);
  expect(listed).toContain('"status": "interrupted"');
  const second = project.start(["resume"]);
  await second.printed("one is still running");
  await second.kill("SIGKILL");

  editOwner((owner) => ({ ...owner, pid: process.pid, boot: "an-earlier-boot" }));
  const third = project.start(["resume"]);
  await third.printed("one is still running");
  await third.kill("SIGKILL");

  const elsewhere = { boot: "boot-of-elsewhere", machine: "of-elsewhere", host: "elsewhere" };
  editOwner((owner) => ({ ...owner, pid, ...elsewhere }));
  const stopped = await project.run(["stop"]);
  expect(stopped.exit).toBe(7);
  expect(stopped.stderr).toMatch(/is owned by process \d+ of \S+ on elsewhere, .*: stop it there/);
  const refused = await project.run(["resume"]);
  expect(refused.exit).toBe(7);
  expect(refused.stderr).toContain("on elsewhere");
  expect(refused.stderr).toContain("if you know that it is dead: perdure resume");
  expect(refused.stderr).toContain("--take-over");
  const resumed = project.start(["resume", "--take-over"]);
  await hold.release();
  expect((await resumed.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
  expect(foreign.exitCode ?? foreign.signalCode).toBeNull();
});

it("refuses beside a paused owner, which writes and starts nothing when it wakes up after a takeover", async () => {
  const { hold, runner } = await heldRun();
  const [runId = ""] = await project.runIds();
  const id = runId.slice(0, 8);
  process.kill(runner.pid, "SIGSTOP");
  const refused = await project.run(["resume", id]);
  expect(refused.exit).toBe(7);
  expect(refused.stderr).toContain(`is owned by process ${runner.pid} of `);

  const resumed = project.start(["resume", id, "--take-over"]);
  await resumed.printed("one is still running");
  const steps = project.stepProcesses();
  expect(steps.length).toBeGreaterThan(0);
  await hold.release();
  expect((await resumed.ended).exit).toBe(0);
  const events = project.read(".perdure", "runs", runId, "events.jsonl");
  process.kill(runner.pid, "SIGCONT");
  const woken = await runner.ended;

  expect(woken.exit).toBe(7);
  expect(woken.stderr).toContain("Another process owns run");
  expect(project.read(".perdure", "runs", runId, "events.jsonl")).toBe(events);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("leaves the living step to the new owner when the paused one wakes up first", async () => {
  const { hold, runner } = await heldRun();
  const id = (await project.newestId()).slice(0, 8);
  process.kill(runner.pid, "SIGSTOP");
  const resumed = project.start(["resume", id, "--take-over"]);
  await resumed.printed("one is still running");
  const steps = project.stepProcesses();
  process.kill(runner.pid, "SIGCONT");
  // It is asked to stop, which its owner would do: it finds that it is not the owner any more.
  runner.child.kill("SIGTERM");
  const { exit, stderr } = await runner.ended;
  expect(exit, stderr).toBe(7);

  expect(project.stepProcesses()).toEqual(steps);
  await hold.release();
  expect((await resumed.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("lets many runs start at the same time in one directory", async () => {
  project.write("p.yaml", `steps: [{ id: one, run: "${project.effect("one")}" }]\n`);
  const runs = Array.from({ length: MANY }, () => project.start(["run", "p.yaml", "-q"]));
  for (const result of await Promise.all(runs.map(({ ended }) => ended))) {
    expect(result.exit, result.stderr).toBe(0);
  }
  expect(project.effects()).toEqual({ one: MANY });
});

it("finds either no project or a complete one while another process creates it", async () => {
  const directories = Array.from({ length: NEW_PROJECTS }, (_, at) => project.path(`new-${at}`));
  const maker = project.script(NEW_PROJECTS_SCRIPT, directories);
  let isMaking = true;
  const made = maker.ended.finally(() => {
    isMaking = false;
  });
  const wrong: unknown[] = [];
  const isThere = async (directory: string): Promise<boolean> => {
    try {
      await (await openLocalProject(directory, "read-only")).journal.close();
      return true;
    } catch (error) {
      if ((error as Refusal).code !== "no-runs") wrong.push(error);
      return false;
    }
  };
  for (const directory of directories) {
    while (!(await isThere(directory)) && isMaking) await setImmediate();
  }
  expect((await made).exit).toBe(0);
  expect(wrong).toEqual([]);
});
