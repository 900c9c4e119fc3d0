/**
 * Wall-clock time never affects correctness (J6): clocks that are set back, between and during
 * runs.
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually, PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

const DAYS_2_MS = 2 * 86_400_000;

/** An environment in which the clock of our program is two days back, from once a file exists. */
function backThen(when: string): { env: Record<string, string> } {
  const file = project.write(
    "clock.mjs",
    `import { existsSync } from "node:fs";
const now = Date.now;
Date.now = () => now() - (existsSync(${JSON.stringify(project.path(when))}) ? ${DAYS_2_MS} : 0);
`,
  );
  return { env: { NODE_OPTIONS: `--import=${project.path(file)}` } };
}

/** The middle step fails until it may pass; its retry waits long enough to be interrupted. */
function pipeline(backoff: string): void {
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: ${project.effect("one")}
  - id: flaky
    run: |
      ${project.effect("flaky")}
      test -e '${project.path("pass")}'
    retry: { attempts: 3, backoff: { initial: ${backoff}, jitter: 0 } }
  - id: three
    run: ${project.effect("three")}
`,
  );
}

it("does not wait two days when the clock was set back between crash and resume", async () => {
  pipeline("2s");
  const runner = project.start(["run", "p.yaml"]);
  await runner.printed("flaky failed");
  await runner.kill("SIGKILL");
  project.write("pass", "");
  project.write("back", "");

  const resumed = await project.run(["resume"], backThen("back"));

  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ one: 1, flaky: 2, three: 1 });
  expect(resumed.stdout).toContain("flaky started (attempt 2 of 3)");
});

it("does not wait two days when the clock is set back while a retry waits", async () => {
  pipeline("1s");
  const runner = project.start(["run", "p.yaml"], backThen("back"));
  await runner.printed("flaky failed");
  project.write("pass", "");
  project.write("back", "");

  const result = await runner.ended;

  expect(result.exit, result.stdout + result.stderr).toBe(0);
  expect(project.effects()).toEqual({ one: 1, flaky: 2, three: 1 });
});

it("keeps the order of events and reports no negative times when time goes backwards", async () => {
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
  const runner = project.start(["run", "p.yaml"], backThen("back"));
  await hold.arrived();
  project.write("back", "");
  await hold.release();
  const result = await runner.ended;

  expect(result.exit, result.stderr).toBe(0);
  expect(result.stdout).not.toMatch(/in -\d/);
  await eventually("the effects are there", () => project.effects().two === 1);
  const [run] = JSON.parse(await project.must(["list", "--output", "json"])) as {
    status: string;
  }[];
  expect(run?.status).toBe("completed");
  expect(await project.must(["doctor"])).toContain("the journal is intact");
  expect(await project.must(["show"])).not.toMatch(/-\d+(ms|s)/);
});
