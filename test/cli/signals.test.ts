/**
 * Signals, closed terminals and limits: what ends, what continues, and what is reported (P2, P10).
 */
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually, PlainProject, type Program, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

async function runId(): Promise<string> {
  const [id = ""] = await project.runIds();
  return id;
}

function receipt(id: string, step: string): { status: string; attempt: number } {
  return JSON.parse(project.read(".perdure", "runs", id, "receipts", `${step}-shell.json`));
}

/** One step that is held, with a child in a session of its own; then another step. */
async function heldRun(prelude = ""): Promise<Program> {
  const hold = project.hold("one");
  project.write(
    "p.yaml",
    `steps:
  - id: zero
    run: ${project.effect("zero")}
  - id: one
    run: |
      ${prelude || ":"}
      setsid sleep 1000 &
      ${project.effect("begun")}
      ${hold.command}
      ${project.effect("ended")}
  - id: two
    run: ${project.effect("two")}
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  return runner;
}

it.each([
  ["SIGINT", 130, "SIGINT (Ctrl-C)"],
  ["SIGTERM", 143, "SIGTERM"],
] as const)(
  "%s ends the steps with all their children and prints how to continue",
  async (signal, exit, by) => {
    const runner = await heldRun();
    const id = await runId();
    expect(project.stepProcesses().length).toBeGreaterThan(1);

    const result = await runner.kill(signal);

    expect(result.exit, result.stderr).toBe(exit);
    expect(result.stdout).toContain(`‖ one interrupted: `);
    expect(result.stdout).toContain(`Run ${id.slice(0, 8)} (p) was stopped by ${by}.\n`);
    expect(result.stdout).toContain(`1 of 3 steps completed: zero; next: one.\n`);
    expect(result.stdout).toContain(`Continue: perdure resume ${id.slice(0, 8)}\n`);
    expect(project.stepProcesses()).toEqual([]);
    expect(receipt(id, "one").status).toBe("interrupted");
    const resumed = project.start(["resume"]);
    await eventually("the step starts again", () => project.effects().begun === 2);
    await project.must(["stop"]);
    expect((await resumed.ended).exit).toBe(143);
    expect(project.effects()).toEqual({ zero: 1, begun: 2 });
  },
);

it("ends steps that ignore a first SIGINT at the second one", async () => {
  const runner = await heldRun("trap '' TERM INT");
  const id = await runId();
  runner.child.kill("SIGINT");
  await runner.printed("● stopping: SIGINT; Ctrl-C again ends the running steps at once");
  const result = await runner.kill("SIGINT");

  expect(result.exit).toBe(130);
  expect(project.stepProcesses()).toEqual([]);
  expect(result.stdout).toContain(`Continue: perdure resume ${id.slice(0, 8)}\n`);
  expect(project.effects()).toEqual({ zero: 1, begun: 1 });
});

it.each(["SIGHUP", "a closed stdout", "a closed stdout and stderr"])(
  "continues after %s",
  async (what) => {
    const hold = project.hold("one");
    project.write(
      "p.yaml",
      `steps:
  - id: one
    run: |
      ${hold.command}
      echo something to print
  - id: two
    run: ${project.effect("two")}
`,
    );
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    if (what === "SIGHUP") runner.child.kill("SIGHUP");
    else runner.child.stdout?.destroy();
    if (what.endsWith("stderr")) runner.child.stderr?.destroy();
    await hold.release();
    const result = await runner.ended;

    expect(result.exit, result.stderr).toBe(0);
    expect(result.stderr).toBe("");
    expect(project.effects()).toEqual({ two: 1 });
  },
);

it("stops a run with perdure stop; with --after-step the running step finishes first", async () => {
  const hold = project.hold("one");
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: |
      ${hold.command}
      ${project.effect("one")}
  - id: two
    run: ${project.effect("two")}
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  const id = (await runId()).slice(0, 8);
  const reported = await project.must(["stop", id, "--after-step"]);
  expect(reported).toMatch(
    /^Asked process \d+ of \S+ on \S+ to stop run \w{8} after the steps that/,
  );
  expect(reported).toContain(`Continue it later: perdure resume ${id}\n`);
  await runner.printed("● stopping after the running steps: perdure stop (");
  await hold.release();
  const stopped = await runner.ended;
  expect(stopped.exit, stopped.stderr).toBe(143);
  expect(project.effects()).toEqual({ one: 1 });
  expect(stopped.stdout).toContain("1 of 2 steps completed: one; next: two.\n");

  const again = await project.run(["stop", id]);
  expect(again.exit).toBe(1);
  expect(again.stderr).toBe(
    `error: run ${id} has nothing running to stop\n  next: perdure why ${id}\n`,
  );
  expect((await project.run(["resume", id])).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("leaves a detached run alone when an attached person leaves", async () => {
  const hold = project.hold("one");
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: |
      echo first line
      ${hold.command}
      echo last line
`,
  );
  const started = await project.must(["run", "p.yaml", "--detach"]);
  const id = (await runId()).slice(0, 8);
  expect(started).toMatch(/^Run \S{36} runs in the background as process \d+\n/);
  expect(started).toContain(`See it: perdure attach ${id}\n`);
  await hold.arrived();

  const first = project.start(["attach", id]);
  await first.printed("one │ first line");
  const left = await first.kill("SIGINT");
  expect(left.exit).toBe(0);
  expect(left.stdout).toContain("; Ctrl-C leaves it running.");
  expect(left.stdout).toContain(`Watch it: perdure attach ${id}`);

  const reader = project.start(["attach", id]);
  await reader.printed("one │ first line");
  reader.child.stdout?.destroy();
  const second = project.start(["attach", id]);
  await second.printed("one │ first line");
  await hold.release();
  const seen = await second.ended;
  expect(seen.exit, seen.stderr).toBe(0);
  expect(seen.stdout).toContain("one │ last line");
  expect(seen.stdout).toContain("(p) completed in ");
  expect((await reader.ended).exit).toBe(0);
});

it("ends an attach whose reader is gone, while the run continues", async () => {
  const runner = await heldRun();
  const attached = project.start(["attach"]);
  await attached.printed("Attached to run");
  attached.child.stdout?.destroy();
  project.write("news", "");
  await project.must(["stop", "--after-step"]);
  const result = await attached.ended;
  expect(result.exit).toBe(0);
  expect(runner.child.exitCode).toBeNull();
});

it.each([
  ["timeout", "it ran longer than its timeout", "timeout"],
  ["idle_timeout", "it wrote nothing for 200ms", "idle"],
])("%s ends a step: status 5, and the command that continues", async (setting, words, reason) => {
  project.write(
    "p.yaml",
    `steps:
  - id: slow
    run: setsid sleep 1000 & sleep 1000
    ${setting}: 200ms
`,
  );
  const result = await project.run(["run", "p.yaml"]);
  const id = await runId();

  expect(result.exit, result.stderr).toBe(5);
  expect(result.stdout).toContain(`failed: step slow (1 attempt): ${words}`);
  expect(result.stdout).toContain(`Fix the cause, then continue: perdure resume ${id.slice(0, 8)}`);
  expect(project.stepProcesses()).toEqual([]);
  const file = project.path(".perdure", "runs", id, "receipts", "slow-shell.json");
  expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ status: "failed", reason });
});
