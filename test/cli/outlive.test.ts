/** A step outlives its runner (P2). */
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually, PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

it("takes the result of a step that ended while there was no runner", async () => {
  const hold = project.hold("slow");
  project.write(
    "p.yaml",
    `steps:
  - id: slow
    run: |
      ${project.effect("slow")}
      echo first line
      ${hold.command}
      echo last line
      touch '${project.path("ended")}'
  - id: next
    run: ${project.effect("next")}
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.kill("SIGKILL");
  await hold.release();
  await eventually("the step ends by itself", () => project.exists("ended"));

  const resumed = await project.run(["resume"]);

  expect(resumed.exit).toBe(0);
  expect(project.effects()).toEqual({ slow: 1, next: 1 });
});

it("follows a step that still runs, and shows its output from the first byte", async () => {
  const hold = project.hold("slow");
  project.write(
    "p.yaml",
    `steps:
  - id: slow
    run: |
      ${project.effect("slow")}
      echo first line
      ${hold.command}
      echo last line
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.kill("SIGKILL");

  const resumed = project.start(["resume"]);
  await resumed.printed("slow │ first line");
  await hold.release();
  const result = await resumed.ended;

  expect(result.exit).toBe(0);
  expect(result.stdout).toContain("slow │ last line");
  expect(project.effects()).toEqual({ slow: 1 });
});
