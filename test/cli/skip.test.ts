/**
 * `perdure skip` and `fail` steps: what a person leaves out, and what an author declares failed.
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

const FAILED = 3;

function pipeline(b: string, more = ""): void {
  project.write(
    "p.yaml",
    `steps:
  - { id: a, run: ${JSON.stringify(project.effect("a"))} }
  - { id: b, ${b} }
  - { id: c, run: ${JSON.stringify(project.effect("c"))} }
${more}`,
  );
}

async function idOf(): Promise<string> {
  return (await project.newestId()).slice(0, 8);
}

const fails = (): string => `run: ${JSON.stringify(`${project.effect("b")}; false`)}`;

it("skips a failed step, and the steps after it run", async () => {
  pipeline(fails());
  const failed = await project.run(["run", "p.yaml"]);
  expect(failed.exit).toBe(FAILED);
  const id = await idOf();
  expect(failed.stdout).toContain(`perdure skip ${id} b`);
  const said = await project.must(["skip", id, "b"]);
  expect(said).toMatch(/Step b of run \S+ is skipped by \S+@\S+\.\nContinue: perdure resume/);
  await project.must(["resume", id]);
  expect(project.effects()).toEqual({ a: 1, b: 1, c: 1 });
  expect(await project.must(["show", id])).toMatch(/– b +skipped +1 .*by \S+@/);
  const again = await project.run(["skip", id, "c"]);
  expect(again.exit).toBe(2);
  expect(again.stderr).toContain("it has completed");
  await project.must(["replay", id]);
});

it("skips a step that the run has not reached, once, even if the runner is killed", async () => {
  const hold = project.hold("b");
  pipeline(`run: ${JSON.stringify(`${project.effect("b")}; ${hold.command}`)}`);
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  const id = await idOf();
  const running = await project.run(["skip", id, "b"]);
  expect(running.exit).toBe(7);
  expect(running.stderr).toContain("step b is running");
  await project.must(["skip", id, "c"]);
  await runner.printed("c will be skipped");
  await runner.kill("SIGKILL");
  const resumed = project.start(["resume", id]);
  await resumed.printed("resumed");
  await hold.release();
  expect((await resumed.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ a: 1, b: 1 });
});

it("ends the process of a step that outlived its runner, and skips the step", async () => {
  const hold = project.hold("b");
  pipeline(
    `run: ${JSON.stringify(`${project.effect("b")}; ${hold.command}; ${project.effect("b")}`)}`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.kill("SIGKILL");
  const id = await idOf();
  await project.must(["skip", id, "b"]);
  await project.must(["resume", id]);
  expect(project.effects()).toEqual({ a: 1, b: 1, c: 1 });
});

it("skips a failed step of an item, and the item completes", async () => {
  const inner = `for_each: { in: [1, 2] }, steps: [{ id: x, run: test $PERDURE_ITEM = 1 },
      { id: y, run: ${JSON.stringify(project.effect("y"))} }]`;
  pipeline(inner);
  expect((await project.run(["run", "p.yaml"])).exit).toBe(FAILED);
  const id = await idOf();
  await project.must(["skip", id, "b@1.1[1]/x"]);
  await project.must(["resume", id]);
  expect(project.effects()).toEqual({ a: 1, y: 2, c: 1 });
});

it("skips a waiting gate, and a step whose effect is uncertain", async () => {
  pipeline("gate: Sure?");
  expect((await project.run(["run", "p.yaml"])).exit).toBe(6);
  const id = await idOf();
  await project.must(["skip", id, "b"]);
  await project.must(["resume", id]);
  expect(project.effects()).toEqual({ a: 1, c: 1 });

  pipeline(`once: true, ${fails()}`);
  await project.run(["run", "p.yaml"]);
  const other = await idOf();
  await project.must(["skip", other, "b"]);
  await project.must(["resume", other]);
  expect(project.effects()).toEqual({ a: 2, b: 1, c: 2 });
});

it("ends the run at a `fail` step with its message, without an attempt", async () => {
  pipeline(
    "when: results.a.exit == 0, fail: 'a ended with ${{ results.a.exit }}: not good enough'",
    `finally: [{ id: end, run: ${JSON.stringify(project.effect("end"))} }]`,
  );
  const failed = await project.run(["run", "p.yaml"]);
  expect(failed.exit).toBe(FAILED);
  expect(failed.stdout).toContain("a ended with 0: not good enough");
  const id = await idOf();
  expect(await project.must(["why", id])).toContain("failed: step b (1 attempt): a ended with 0");
  expect(project.effects()).toEqual({ a: 1, end: 1 });
  const again = await project.run(["resume", id]);
  expect(again.exit).toBe(FAILED);
  expect(project.effects()).toEqual({ a: 1, end: 2 });
  await project.must(["skip", id, "b"]);
  await project.must(["resume", id]);
  expect(project.effects()).toEqual({ a: 1, c: 1, end: 3 });

  pipeline("when: results.a.exit != 0, fail: never");
  await project.must(["run", "p.yaml"]);
  pipeline("fail: no, run: ls");
  expect((await project.run(["validate", "p.yaml"])).stderr).toContain("`run` has no effect on a");
});
