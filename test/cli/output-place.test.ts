/** Outputs are in the workspace of their step; neither a value nor a link leads out of it. */
import * as fs from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

let outer: Project;
let project: Project;
beforeEach(() => {
  outer = new Project();
  outer.write("secret.txt", "secret of somebody else\n");
  fs.mkdirSync(outer.path("foreign"));
  outer.write("foreign/f.txt", "secret of somebody else\n");
  fs.mkdirSync(outer.path("project"));
  project = new Project(outer.path("project"));
});
afterEach(async () => {
  await project.remove();
  await outer.discard();
});

/** The contents of all artifacts that were kept. */
function kept(): readonly string[] {
  if (!project.exists(".perdure", "artifacts")) return [];
  return fs
    .readdirSync(project.path(".perdure", "artifacts"), { recursive: true, encoding: "utf8" })
    .map((name) => project.path(".perdure", "artifacts", name))
    .filter((path) => fs.statSync(path).isFile())
    .map((path) => fs.readFileSync(path, "utf8"));
}

/** Values that would lead an output out of the workspace, by the steps that use them. */
const VALUES = {
  up: "../../../../../../../../../../../../tmp/perdure-evil",
  absolute: "/tmp/perdure-evil",
  within: "a/../../evil",
};

/** The steps that try to lead an output out of their workspace, as YAML. */
function attempts(): Readonly<Record<string, string>> {
  const values = Object.keys(VALUES).map((step) => [
    step,
    `    run: ${project.effect(step)}
    outputs: { f: "\${{ input.${step} }}/evil.txt" }
`,
  ]);
  return {
    ...Object.fromEntries(values),
    file: `    run: ln -sf '${outer.path("secret.txt")}' "$PERDURE_OUTPUT_F"
    outputs: { f: out-1/f.txt }
`,
    folder: `    run: rmdir out-2; ln -s '${outer.path("foreign")}' out-2
    outputs: { f: out-2/f.txt }
`,
  };
}

describe.each(["here", "copy", "own"])("in the workspace %s", (kind) => {
  it("neither a value nor a link in the place of a file or a folder leads out", async () => {
    const own = kind === "own" ? "    workspace: own\n" : "";
    const steps = Object.entries(attempts()).map(
      ([step, text]) => `  - id: ${step}\n    needs: []\n${own}${text}`,
    );
    const workspace = kind === "own" ? "here" : kind;
    project.write("p.yaml", `workspace: ${workspace}\nsteps:\n${steps.join("")}`);
    const words = Object.entries(VALUES).flatMap(([name, value]) => ["-i", `${name}=${value}`]);
    const { exit, stdout } = await project.run(["run", "p.yaml", ...words]);
    expect(exit).toBe(3);
    for (const step of Object.keys(attempts())) {
      const refusal = `✗ ${step} failed: .*its output "f" is outside of its workspace: /`;
      expect(stdout).toMatch(new RegExp(refusal));
    }
    expect(kept()).toEqual([]);
    // A value is refused before its step starts, and no folder is made.
    expect(project.effects()).toEqual({});
    expect(fs.existsSync("/tmp/perdure-evil")).toBe(false);
  });
});

it("follows a link that stays in the workspace", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: one
    cwd: sub
    run: echo made > ../made-1.txt; ln -sf made-1.txt ../latest.txt
    outputs: { f: ../latest.txt }
`,
  );
  fs.mkdirSync(project.path("sub"));
  await project.must(["run", "p.yaml"]);
  expect(kept()).toEqual(["made\n"]);
});

it("reports a path that leads out whatever its values are", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: "true"
    outputs:
      up: ../x.txt
      value: "../\${{ input.w }}/x.txt"
      absolute: /etc/passwd
      fine: "a/../\${{ input.w }}/x.txt"
  - id: two
    cwd: sub
    run: "true"
    outputs: { fine: ../x.txt, up: ../../x.txt }
`,
  );
  const { exit, stdout, stderr } = await project.run(["validate", "p.yaml"]);
  const places = [...(stdout + stderr).matchAll(/p\.yaml:(\d+:\d+)/g)].map((found) => found[1]);
  expect(places).toEqual(["5:11", "6:14", "7:17", "12:36"]);
  expect(stdout + stderr).toContain("the output `up` is outside of the workspace");
  expect(exit).toBe(4);
});

it("restores no kept file through a link that leads out", async () => {
  const hold = project.hold("two");
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: echo made > "$PERDURE_OUTPUT_F"
    outputs: { f: out/made.txt }
  - id: two
    run: ${hold.command}
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.kill("SIGKILL");
  await project.killSteps();
  fs.rmSync(project.path("out"), { recursive: true });
  fs.symlinkSync(outer.path("foreign"), project.path("out"));
  const resumed = project.start(["resume"]);
  await hold.release();
  const { stdout } = await resumed.ended;
  expect(stdout).toContain("outputs.f of step one leads out of the workspace");
  expect(fs.readdirSync(outer.path("foreign"))).toEqual(["f.txt"]);
});
