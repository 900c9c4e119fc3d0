/**
 * `finally`: steps that run when the run has reached its end, once for each end (run-end/N1), and
 * that never hide a failure (run-end/N2).
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

const FAILED = 3;

function pipeline(parts: { work?: string; end?: string; head?: string; more?: string } = {}): void {
  const {
    work = `${project.effect("work")}; test -e ok`,
    end = "true",
    head = "",
    more = "",
  } = parts;
  project.write(
    "p.yaml",
    `${head}
steps:
  - { id: first, run: ${JSON.stringify(project.effect("first"))} }
  - { id: work, run: ${JSON.stringify(work)} }
  - { id: last, run: ${JSON.stringify(project.effect("last"))} }
finally:
  - id: report
    run: |
      echo "report \${{ run.status }} \${{ has(results.work) ? results.work.status : 'none' }}" >> '${project.path("effects")}'
  - { id: clean, run: ${JSON.stringify(`${project.effect("clean")}; ${end}`)} }
  - { id: mail, when: run.status == "failed", run: ${JSON.stringify(project.effect("mail"))} }
${more}`,
  );
}

async function idOf(): Promise<string> {
  return (await project.newestId()).slice(0, 8);
}

it("runs when a run fails, and again when the resumed run completes", async () => {
  pipeline();
  const failed = await project.run(["run", "p.yaml"]);
  expect(failed.exit).toBe(FAILED);
  expect(failed.stdout).toContain("failed: step work (1 attempt)");
  const once = { first: 1, work: 1, "report failed failed": 1, clean: 1, mail: 1 };
  expect(project.effects()).toEqual(once);
  project.write("ok", "");
  const id = await idOf();
  await project.must(["resume", id]);
  const twice = { ...once, work: 2, last: 1, clean: 2, "report completed completed": 1 };
  expect(project.effects()).toEqual(twice);
  const show = await project.must(["show", id]);
  expect(show).toMatch(/\[finally\] clean +completed/);
  expect(show).toMatch(/\[finally\] mail +skipped/);
  await project.must(["retry", id, "work"]);
  expect(project.effects()).toMatchObject({ work: 3, last: 2, clean: 3, mail: 1 });
  await project.must(["replay", id]);
});

it("makes a completed run fail, and hides no other failure", async () => {
  pipeline({ end: "test -e ok2" });
  project.write("ok", "");
  const run = await project.run(["run", "p.yaml"]);
  expect(run.exit).toBe(FAILED);
  const id = await idOf();
  expect(run.stdout).toContain("failed: step finally@1/clean (1 attempt): it exited with 1");
  expect(run.stdout).toContain(`Fix the cause, then continue: perdure resume ${id}`);
  const once = { first: 1, work: 1, last: 1, "report completed completed": 1, clean: 1 };
  expect(project.effects()).toEqual(once);
  const refused = await project.run(["retry", id, "finally@1/clean"]);
  expect(refused.exit).toBe(2);
  expect(refused.stderr).toContain("is a step of `finally`");
  project.write("ok2", "");
  await project.must(["resume", id]);
  expect(project.effects()).toEqual({ ...once, "report completed completed": 2, clean: 2 });

  const other = new PlainProject();
  try {
    other.write(
      "p.yaml",
      "steps: [{ id: work, run: exit 7 }]\nfinally: [{ id: clean, run: exit 9 }]\n",
    );
    const both = await other.run(["run", "p.yaml"]);
    expect(both.exit).toBe(FAILED);
    expect(both.stdout).toContain("failed: step work (1 attempt): it exited with 7");
  } finally {
    await other.remove();
  }
});

it("runs once even if the runner is killed inside it", async () => {
  const hold = project.hold("clean");
  pipeline({ end: hold.command });
  project.write("ok", "");
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.kill("SIGKILL");
  const id = await idOf();
  const refused = await project.run(["rewind", id, "work"]);
  expect(refused.exit).toBe(2);
  expect(refused.stderr).toContain("the run has reached its end");
  const resumed = project.start(["resume", id]);
  await resumed.printed("finally@1/clean");
  await hold.release();
  expect((await resumed.ended).exit).toBe(0);
  const once = { first: 1, work: 1, last: 1, "report completed completed": 1, clean: 1 };
  expect(project.effects()).toEqual(once);
});

it("does not run when a person stops the run, but when a later resume ends it", async () => {
  const hold = project.hold("work");
  pipeline({ work: `${project.effect("work")}; ${hold.command}` });
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.kill("SIGINT");
  expect(project.effects()).toEqual({ first: 1, work: 1 });
  const resumed = project.start(["resume", await idOf()]);
  await hold.arrived();
  await hold.release();
  expect((await resumed.ended).exit).toBe(0);
  const once = { first: 1, work: 2, last: 1, "report completed completed": 1, clean: 1 };
  expect(project.effects()).toEqual(once);
});

it("runs when the budget is used up, and again at the end after an increase", async () => {
  pipeline({ head: "budget: { time: 1ms }", work: project.effect("work") });
  const stopped = await project.run(["run", "p.yaml"]);
  expect(stopped.exit).not.toBe(0);
  expect(stopped.stdout).toContain("the budget is used up; its finally steps run");
  const effects = project.effects();
  expect(effects).toMatchObject({ clean: 1 });
  expect(Object.keys(effects).filter((name) => name.startsWith("report stopped"))).toHaveLength(1);
  expect(effects).not.toHaveProperty("last");
  await project.must(["resume", await idOf(), "--budget", "+1h"]);
  expect(project.effects()).toMatchObject({ last: 1, clean: 2, "report completed completed": 1 });
});

it("allows only commands and prompts, with ids of their own", async () => {
  pipeline({ more: "  - { id: ask, gate: Sure? }\n  - { id: work, needs: [clean], run: ls }\n" });
  const { exit, stderr } = await project.run(["validate", "p.yaml"]);
  expect(exit).toBe(4);
  expect(stderr).toContain("a step of `finally` cannot have `gate`");
  expect(stderr).toContain("a step of `finally` cannot have `needs`");
  expect(stderr).toContain("`work` is already the id of another step");
  project.write("q.yaml", 'steps: [{ id: a, when: run.status == "failed", run: ls }]\n');
  const other = await project.run(["validate", "q.yaml"]);
  expect(other.stderr).toContain("`run.status` exists only in the steps of `finally`");
});
