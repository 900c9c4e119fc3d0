/** What the README shows to be typed is valid as it stands there. */
import { mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

const README = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const PIPELINES = [...README.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, yaml = ""]) => yaml);

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

it("has a pipeline in TypeScript", async () => {
  const [, text = ""] = /^```ts\n([\s\S]*?)^```$/m.exec(README) ?? [];
  project.write("checks.ts", text);
  expect(await project.must(["validate", "checks.ts"])).toBe("checks.ts: valid, 3 steps\n");
});

it("has pipelines", () => {
  expect(PIPELINES.length).toBeGreaterThanOrEqual(3);
});

it.each(PIPELINES)("%s", async (yaml) => {
  for (const [, name = ""] of yaml.matchAll(/prompt_file: (\S+)/g)) {
    mkdirSync(dirname(project.path(name)), { recursive: true });
    project.write(name, "Do it.\n");
  }
  for (const [, name = ""] of yaml.matchAll(/pipeline: (\S+\.yaml)/g)) {
    project.write(name, "steps: [{ id: out, run: ls }]\n");
  }
  project.write("p.yaml", yaml);
  const { exit, stdout, stderr } = await project.run(["validate", "p.yaml"]);
  expect(stdout + stderr).toMatch(/^p\.yaml: valid, \d+ steps\n$/);
  expect(exit).toBe(0);
});
