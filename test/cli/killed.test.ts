/** Killed steps are not charged to `retry`: they start again, with growing pauses and a limit. */
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

interface Event {
  readonly retry?: { readonly delayMs: number };
}

async function eventsOf(type: string): Promise<readonly Event[]> {
  const [runId = ""] = await project.runIds();
  const lines = project.read(".perdure", "runs", runId, "events.jsonl").trim().split("\n");
  return lines
    .map((line) => JSON.parse(line) as { readonly type: string; readonly data: Event })
    .filter((event) => event.type === type)
    .map(({ data }) => data);
}

/** A step that writes the pid that is to be killed and waits, the first time only. */
function pipeline(waits: string): void {
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: |
      ${project.effect("one")}
      test "$PERDURE_ATTEMPT" != 1 || ${waits}
  - id: two
    run: ${project.effect("two")}
`,
  );
}

async function killedOnce(): Promise<void> {
  const hold = project.hold("killed");
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  process.kill(Number(readFileSync(project.path("pid"), "utf8")), "SIGKILL");
  const result = await runner.ended;

  expect(result.exit, result.stdout + result.stderr).toBe(0);
  expect(result.stdout).toContain("one lost: it was killed (SIGKILL)");
  expect(await eventsOf("step.failed")).toEqual([]);
  expect(await eventsOf("step.lost")).toMatchObject([{ retry: { delayMs: 0 } }]);
  expect(project.effects()).toEqual({ one: 2, two: 1 });
}

describe("a killed step is lost, not failed, if the kill hit", () => {
  it("a command of its script", async () => {
    pipeline("sh -c 'echo $$ > pid; read _ < hold-killed'");
    await killedOnce();
  });

  it("its shell", async () => {
    pipeline("{ echo $$ > pid; read _ < hold-killed; }");
    await killedOnce();
  });

  it("a command of its script in a PID namespace", async () => {
    project.write(
      "p.yaml",
      `steps:
  - id: one
    isolate: true
    run: |
      ${project.effect("one")}
      test "$PERDURE_ATTEMPT" != 1 || sh -c 'kill -9 $$'
`,
    );
    const result = await project.run(["run", "p.yaml"]);
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(project.effects()).toEqual({ one: 2 });
  });
});

it("fails a script that exits with 137 by itself", async () => {
  project.write("p.yaml", `steps: [{ id: one, run: "${project.effect("one")}; exit 137" }]\n`);
  expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
  expect(project.effects()).toEqual({ one: 1 });
  expect(await eventsOf("step.failed")).toHaveLength(1);
});

it("is lost for the next runner if it was killed while there was no runner", async () => {
  const hold = project.hold("killed");
  pipeline("sh -c 'echo $$ > pid; read _ < hold-killed'");
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.kill("SIGKILL");
  process.kill(Number(readFileSync(project.path("pid"), "utf8")), "SIGKILL");

  expect(await project.must(["resume"])).toContain("one lost: it was killed (SIGKILL)");
  expect(project.effects()).toEqual({ one: 2, two: 1 });
  expect(await eventsOf("step.failed")).toEqual([]);
});

it.each([
  ["work", "kill -9 $$"],
  ["wrapper and work", "kill -9 $PPID; kill -9 $$"],
])("waits longer and longer when the %s is killed again and again", async (_, kill) => {
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: |
      ${project.effect("one")}
      test "$PERDURE_ATTEMPT" = 4 || { ${kill}; }
`,
  );
  await project.must(["run", "p.yaml"]);

  expect(project.effects()).toEqual({ one: 4 });
  const [first = -1, second = 0, third = 0] = (await eventsOf("step.lost")).map(
    ({ retry }) => retry?.delayMs ?? -1,
  );
  expect(first).toBe(0);
  expect(second).toBeGreaterThanOrEqual(400);
  expect(third).toBeGreaterThan(second);
});
