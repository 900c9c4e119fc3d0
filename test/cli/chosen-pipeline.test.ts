/**
 * A sub-pipeline that is chosen when its step starts: the plan contains all that may be chosen.
 */
import * as fs from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
  fs.mkdirSync(project.path("audits"));
  for (const name of ["security", "style", "speed"]) {
    project.write(
      `audits/${name}.yaml`,
      `input: { type: object, properties: { of: { type: string, default: it } } }
steps: [{ id: look, run: "${project.effect(name)}; echo ${name} of \${{ input.of }}" }]
`,
    );
  }
});
afterEach(() => project.remove());

function pipeline(keys: string): void {
  project.write("p.yaml", `steps:\n  - id: audit\n    ${keys.replaceAll("\n", "\n    ")}\n`);
}

it("is chosen for each item, by its path or by its name", async () => {
  pipeline(`for_each: [security, audits/style.yaml]
pipeline: \${{ item }}
pipelines: audits/*.yaml
input: { of: "the \${{ item }}" }`);
  const said = await project.must(["run", "p.yaml"]);
  expect(said).toContain("security of the security\n");
  expect(said).toContain("style of the audits/style.yaml\n");
  expect(project.effects()).toEqual({ security: 1, style: 1 });
});

it("may be part of a path, and may come from the context", async () => {
  project.write(
    "p.yaml",
    `steps:
  - { id: pick, run: 'echo which=speed >> "$PERDURE_CONTEXT"' }
  - { id: audit, pipeline: "audits/\${{ context.which }}.yaml", pipelines: [audits/speed.yaml] }
  - { id: after, run: "${project.effect("after")}" }
`,
  );
  await project.must(["run", "p.yaml"]);
  expect(project.effects()).toEqual({ speed: 1, after: 1 });
});

it("must be one of those in the plan", async () => {
  pipeline("pipeline: ${{ input.which }}\npipelines: audits/*.yaml");
  const failed = await project.run(["run", "p.yaml", "-i", "which=taste"]);
  expect(failed.exit).toBe(3);
  const known = "audits/security.yaml, audits/speed.yaml, audits/style.yaml";
  expect(failed.stdout).toContain(`there is no pipeline taste among ${known}`);
  expect(project.effects()).toEqual({});
});

it("stays as it was when the run started, even after a kill", async () => {
  const hold = project.hold("look");
  project.write(
    "audits/style.yaml",
    `steps: [{ id: look, run: "${hold.command}" }, { id: end, run: "${project.effect("end")}" }]\n`,
  );
  pipeline("for_each: [security, style]\npipeline: ${{ item }}\npipelines: audits/*.yaml");
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.kill("SIGKILL");
  fs.rmSync(project.path("audits"), { recursive: true });
  const resumed = project.start(["resume"]);
  await hold.release();
  expect((await resumed.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ security: 1, end: 1 });
});

it("needs files that are known when the plan is made", async () => {
  pipeline("pipeline: ${{ input.which }}");
  const none = await project.run(["validate", "p.yaml"]);
  expect(none.exit).toBe(4);
  expect(none.stderr).toContain("p.yaml:3:5");
  expect(none.stderr).toContain("add `pipelines:`");
  pipeline("pipeline: ${{ input.which }}\npipelines: [nothing/*.yaml, no.yaml]");
  const missing = await project.run(["validate", "p.yaml"]);
  expect(missing.stderr).toContain("no file matches `nothing/*.yaml`");
  expect(missing.stderr).toContain("there is no file `no.yaml`");
  pipeline("pipeline: audits/style.yaml\npipelines: audits/*.yaml");
  const useless = await project.run(["validate", "p.yaml"]);
  expect(useless.stderr).toContain("`pipelines` needs a `pipeline` with ${{ }}");
});
