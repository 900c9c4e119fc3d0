/** Sentences that were wrong once. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

it("reports a timeout once, and calls one step one step", async () => {
  project.write("p.yaml", "steps:\n  - { id: one, run: sleep 60, timeout: 100ms }\n");
  const { stdout } = await project.run(["run", "p.yaml"]);
  expect(stdout).toMatch(/^Run \S+ of p \(1 step\)$/m);
  expect(stdout).toContain("one failed: it ran longer than its timeout of 100ms");
  expect(stdout).not.toMatch(/timeout.*timeout of/);
  expect(await project.must(["validate", "p.yaml"])).toBe("p.yaml: valid, 1 step\n");
});

it("calls a map a map if a word is expected", async () => {
  project.write("p.yaml", "steps:\n  - { id: one, run: ls, workspace: { kind: own } }\n");
  const { stderr } = await project.run(["validate", "p.yaml"]);
  expect(stderr).toContain("`workspace` cannot be a map");
  expect(stderr).not.toContain("[object Object]");
});

it("does not say that there are no runs when a filter hides them", async () => {
  project.write("p.yaml", "steps:\n  - { id: one, run: 'true' }\n");
  await project.must(["run", "p.yaml"]);
  for (const list of [["sessions", "ls"], ["list"]]) {
    expect(await project.must([...list, "--status", "interrupted"])).toBe(
      "No runs with status interrupted. See all of them: perdure list runs\n",
    );
  }
});
