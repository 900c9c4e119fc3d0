/**
 * Owners and steps in containers and on other machines: a process that cannot be seen is not
 * presumed dead (P6).
 */
import { randomUUID } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { CONTAINER, machineWith, needNamespaces } from "../rig/namespace.ts";
import {
  eventually,
  type Hold,
  PlainProject,
  PROGRAM,
  type Program,
  type Project,
} from "../rig/project.ts";

const BOOT_ID = "/proc/sys/kernel/random/boot_id";
const MACHINE_ID = "/etc/machine-id";

let project: Project;
beforeAll(needNamespaces);
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** A run that is held in its first step of two. */
async function heldRun(
  through: readonly string[] = [],
): Promise<{ hold: Hold; runner: Program; id: string }> {
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
  const runner = project.start(["run", "p.yaml"], { through });
  await hold.arrived();
  const [runId = ""] = await project.runIds();
  return { hold, runner, id: runId.slice(0, 8) };
}

/** Every way to drive or end a run is refused, and the views call it running. */
async function refusesAll(id: string, through: readonly string[]): Promise<void> {
  for (const args of [
    ["resume", id],
    ["retry", id, "one"],
    ["rewind", id, "one"],
  ]) {
    const refused = await project.run(args, { through });
    expect(refused.exit, args.join(" ")).toBe(7);
    expect(refused.stderr).toMatch(/is owned by process \d+ of \S+ on \S+, which cannot be seen/);
    expect(refused.stderr).toContain(`perdure resume ${id} --take-over`);
  }
  const stopped = await project.run(["stop", id], { through });
  expect(stopped.exit).toBe(7);
  expect(stopped.stderr).toContain("cannot be seen from here");
  const listed = await project.must(["list", "runs"], { through });
  expect(listed).toContain("running (elsewhere)");
  expect(listed).not.toContain("interrupted");
  const why = await project.must(["why", id], { through });
  expect(why).toContain("is running one");
  expect(why).toContain("which this machine cannot see");
  expect(why).not.toMatch(/interrupted|died/);
}

it("leaves a run of this machine alone in a container", async () => {
  const { hold, runner, id } = await heldRun();
  await refusesAll(id, CONTAINER);
  await hold.release();
  expect((await runner.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("leaves a run of a container alone on its host", async () => {
  const { hold, runner, id } = await heldRun(CONTAINER);
  await refusesAll(id, []);
  await hold.release();
  expect((await runner.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("leaves a run of another container alone", async () => {
  const { hold, runner, id } = await heldRun(CONTAINER);
  await refusesAll(id, CONTAINER);
  await hold.release();
  expect((await runner.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("leaves a run of another machine with the same name alone", async () => {
  const { hold, runner, id } = await heldRun();
  const elsewhere = machineWith(project.dir, {
    [BOOT_ID]: `${randomUUID()}\n`,
    [MACHINE_ID]: `${randomUUID().replaceAll("-", "")}\n`,
  });
  await refusesAll(id, elsewhere);
  await hold.release();
  expect((await runner.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("leaves a run alone when the machines have no id", async () => {
  const { hold, runner, id } = await heldRun();
  const elsewhere = machineWith(project.dir, {
    [BOOT_ID]: `${randomUUID()}\n`,
    [MACHINE_ID]: "\n",
  });
  await refusesAll(id, elsewhere);
  await hold.release();
  expect((await runner.ended).exit).toBe(0);
});

it("takes a run over after a reboot of the same machine", async () => {
  const before = machineWith(project.dir, { [BOOT_ID]: `${randomUUID()}\n` });
  const { hold, runner } = await heldRun(before);
  await runner.kill("SIGKILL");
  await project.killSteps();

  const resumed = project.start(["resume"]);
  await resumed.printed("one lost: ");
  await eventually("the step starts again", () => project.effects().one === 2);
  await hold.release();
  expect((await resumed.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 2, two: 1 });
});

it("takes a run over from a container when a person vouches for its end", async () => {
  const { hold, runner, id } = await heldRun(CONTAINER);
  await runner.kill("SIGKILL");
  const refused = await project.run(["resume", id]);
  expect(refused.exit).toBe(7);

  const resumed = project.start(["resume", id, "--take-over"]);
  await resumed.printed("one lost: ");
  await eventually("the step starts again", () => project.effects().one === 2);
  await hold.release();
  expect((await resumed.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 2, two: 1 });
});

it("does not start a step again that may still run where it cannot be seen", async () => {
  const { hold, runner, id } = await heldRun();
  await runner.kill("SIGKILL");
  const journal = new DatabaseSync(project.path(".perdure", "state.db"));
  journal.exec("UPDATE leases SET owner = NULL");
  journal.close();

  const refused = await project.run(["resume", id], { through: CONTAINER });
  expect(refused.exit).toBe(7);
  expect(refused.stderr).toBe(
    `error: step one of run ${id} was started in another container or on another machine, ` +
      `and may still run there\n  next: if you know that it is dead: perdure resume ${id} --take-over\n`,
  );
  const kept = await project.must(["clean", "--all"], { through: CONTAINER });
  expect(kept).toContain("its step one still runs");
  const resumed = project.start(["resume", id]);
  await resumed.printed("one is still running");
  await hold.release();
  expect((await resumed.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("reports in an isolated step that its run is active", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: one
    isolate: true
    run: |
      '${process.execPath}' '${PROGRAM}' why "$PERDURE_RUN_ID" > why.txt
`,
  );
  await project.must(["run", "p.yaml"]);
  expect(project.read("why.txt")).toContain("is running one");
  expect(project.read("why.txt")).not.toMatch(/died|interrupted/);
});
