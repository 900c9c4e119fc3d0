/**
 * A text as the input of a pipeline, outputs with dashes, and the directory in which a step works.
 */
import * as fs from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

describe("a text as the input", () => {
  beforeEach(() => {
    project.write(
      "p.yaml",
      "input: text\nsteps: [{ id: say, run: 'printf \"<%s>\" ${{ input }}' }]\n",
    );
  });

  it.each(["plain words", "a=b", "[WIP] fix", '{"a": 1}', "007", "true"])("is %s", async (text) => {
    expect(await project.must(["run", "p.yaml", "-i", text])).toContain(`<${text}>`);
  });

  it("is read from a file as it is", async () => {
    project.write("task.md", '["not a list"]\n');
    const said = await project.must(["run", "p.yaml", "-i", "@task.md"]);
    expect(said).toContain('<["not a list"]');
  });

  it("is required, and may be given only once", async () => {
    const missing = await project.run(["run", "p.yaml"]);
    expect(missing.exit).toBe(2);
    expect(missing.stderr).toContain("next: perdure run p.yaml --input TEXT\n");
    const twice = await project.run(["run", "p.yaml", "-i", "a", "-i", "b"]);
    expect(twice.exit).toBe(2);
    expect(project.exists(".perdure")).toBe(false);
  });

  it("has a default in its schema", async () => {
    const schema = '{ type: string, default: "by default" }';
    project.write("d.yaml", `input: ${schema}\nsteps: [{ id: say, run: 'echo \${{ input }}' }]\n`);
    expect(await project.must(["run", "d.yaml"])).toContain("by default\n");
  });
});

it("passes on an output with a dash in its name", async () => {
  project.write(
    "p.yaml",
    `steps:
  - { id: my-build, run: 'echo built > "$PERDURE_OUTPUT_MY_APP"', outputs: { my-app: out/app } }
  - { id: use, run: 'cat "$PERDURE_OUTPUT_MY_BUILD_MY_APP" \${{ outputs["my-build"]["my-app"] }}' }
`,
  );
  expect(await project.must(["run", "p.yaml"])).toContain("use │ built\nuse │ built\n");
});

it("works in `cwd`, which cannot lead out of the workspace", async () => {
  fs.mkdirSync(project.path("packages", "app"), { recursive: true });
  project.write(
    "p.yaml",
    `defaults: { cwd: packages }
steps:
  - { id: one, run: 'echo "in $(basename "$PWD")"' }
  - { id: two, cwd: packages/app, run: 'echo "in $(basename "$PWD")"' }
  - { id: three, cwd: "packages/\${{ input.where }}", run: "${project.effect("three")}" }
`,
  );
  const result = await project.run(["run", "p.yaml", "-i", "where=../.."]);
  expect(result.exit).toBe(3);
  expect(result.stdout).toContain("one │ in packages\n");
  expect(result.stdout).toContain("two │ in app\n");
  expect(result.stdout).toContain("outside of the workspace");
  expect(project.effects()).toEqual({});
});
