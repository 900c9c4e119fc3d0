/** A pipeline that is named instead of its file. */
import * as fs from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
  fs.mkdirSync(project.path("pipelines"));
  fs.mkdirSync(project.path("deep"));
  const text = (word: string): string => `steps: [{ id: say, run: "echo ${word}" }]\n`;
  project.write("pipelines/release.yaml", text("released"));
  project.write("pipelines/nightly.yml", text("nightly"));
  project.write("local.yaml", text("local"));
});
afterEach(() => project.remove());

it("is found in the folder `pipelines`, here or above, and beside it", async () => {
  expect(await project.must(["run", "release"])).toContain("say │ released\n");
  expect(await project.must(["run", "local"])).toContain("say │ local\n");
  fs.mkdirSync(project.path(".git"));
  const deep = await project.run(["run", "nightly"], { cwd: project.path("deep") });
  expect(deep.stdout).toContain("say │ nightly\n");
});

it("is suggested when its name is misspelt", async () => {
  const refused = await project.run(["run", "relaese"]);
  expect(refused.exit).toBe(2);
  expect(refused.stderr).toContain("there is no file relaese, and no pipeline of that name");
  expect(refused.stderr).toContain("perdure run release");
});

it("is one of a list when none is named", async () => {
  const refused = await project.run(["run"]);
  expect(refused.exit).toBe(2);
  expect(refused.stderr).toMatch(
    /which pipeline is meant\?.*perdure run nightly.*perdure run release/s,
  );
});
