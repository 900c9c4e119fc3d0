/** A value in a command is data; `validate` warns if the command itself parses it again. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

it("warns with a position and a remedy that works, without an error", async () => {
  const pipeline = (command: string): string => `steps:\n  - id: one\n    run: ${command}\n`;
  project.write("bad.yaml", pipeline('sh -c "echo ${{ input.x }}"'));
  const bad = await project.run(["validate", "bad.yaml"]);
  expect(bad.exit).toBe(0);
  expect(bad.stderr).toContain("bad.yaml:3:26");
  expect(bad.stderr).toContain("`sh -c` parses this value again, so it can become a command");
  expect(bad.stderr).toContain("pass it as an argument: sh -c '... \"$1\"' sh ${{ input.x }}");

  project.write("good.yaml", pipeline("sh -c 'printf %s \"$1\" > said' sh ${{ input.x }}"));
  const good = await project.run(["validate", "good.yaml"]);
  expect(good.stderr).toBe("");
  const evil = "$(touch pwned); touch pwned";
  await project.must(["run", "good.yaml", "-i", `x=${evil}`]);
  expect(project.read("said")).toBe(evil);
  expect(project.exists("pwned")).toBe(false);
});
