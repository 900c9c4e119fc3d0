/**
 * `perdure stop` of a run whose runner is dead: what the runner left running is ended and recorded.
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually, PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

interface Shown {
  readonly status: string;
  readonly steps: readonly { readonly step: string; readonly status: string }[];
}

/** A run whose runner was killed while its first step, with a helper of its own, is held. */
async function orphanedRun(): Promise<string> {
  const hold = project.hold("one");
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: |
      ${project.effect("one")}
      setsid sleep 1000 &
      ${hold.command}
  - id: two
    run: ${project.effect("two")}
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  const [runId = ""] = await project.runIds();
  await runner.kill("SIGKILL");
  return runId.slice(0, 8);
}

it("ends the step and everything that it started, and says how to resume", async () => {
  const id = await orphanedRun();
  expect(project.stepProcesses().length).toBeGreaterThan(1);

  const stopped = await project.must(["stop", id]);

  expect(stopped).toBe(
    `Stopped run ${id}: its runner was dead, and step one has ended.\n` +
      `Continue it later: perdure resume ${id}\n`,
  );
  expect(project.stepProcesses()).toEqual([]);
  const shown = JSON.parse(await project.must(["show", id, "--json"])) as Shown;
  expect(shown.status).toBe("interrupted");
  expect(shown.steps[0]).toMatchObject({ step: "one", status: "interrupted" });
  expect(
    project.read(".perdure", "runs", (await project.runIds())[0] ?? "", "events.jsonl"),
  ).toContain('"type":"step.interrupted"');
  expect(project.effects()).toEqual({ one: 1 });
});

it("finds the run by itself when it is the only one with something alive", async () => {
  const id = await orphanedRun();
  expect(await project.must(["stop"])).toContain(`Stopped run ${id}: `);
  expect(project.stepProcesses()).toEqual([]);
});

it("lets the step finish with --after-step", async () => {
  const hold = project.hold("gate");
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
  await runner.kill("SIGKILL");

  const stop = project.start(["stop", "--after-step"]);
  const [runId = ""] = await project.runIds();
  const file = [".perdure", "runs", runId, "events.jsonl"];
  // The first runner may have been killed before it wrote the file.
  const events = (): string => (project.exists(...file) ? project.read(...file) : "");
  await eventually("the step is adopted", () => events().includes('"step.adopted"'));
  await hold.release();

  expect((await stop.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ one: 1 });
  await project.must(["resume"]);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("ends what is left of a step whose wrapper is dead, too", async () => {
  const id = await orphanedRun();
  const [runId = ""] = await project.runIds();
  const file = project.path(".perdure", "runs", runId, "attempts", "one@1.1", "pid");
  const wrapper = Number(project.read(file.slice(project.dir.length + 1)).split(" ")[1]);
  process.kill(wrapper, "SIGKILL");
  await eventually("the wrapper is dead", () => !project.stepProcesses().includes(wrapper));
  expect(project.stepProcesses().length).toBeGreaterThan(0);

  await project.must(["stop", id]);

  expect(project.stepProcesses()).toEqual([]);
});

it("refuses if nothing of the run is alive", async () => {
  const id = await orphanedRun();
  await project.killSteps();

  const refused = await project.run(["stop", id]);

  expect(refused.exit).toBe(1);
  expect(refused.stderr).toBe(
    `error: run ${id} has nothing running to stop\n  next: perdure why ${id}\n`,
  );
});
