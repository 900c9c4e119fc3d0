/** Pipelines that are named without their path. */
import * as fs from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually, PlainProject, type Project } from "../rig/project.ts";
import { Terminal } from "../rig/terminal.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
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

it("is suggested when its name is misspelled", async () => {
  const refused = await project.run(["run", "relaese"]);
  expect(refused.exit).toBe(2);
  expect(refused.stderr).toContain("there is no file relaese, and no pipeline of that name");
  expect(refused.stderr).toContain("perdure run release");
});

it("is listed when the command names none", async () => {
  const refused = await project.run(["run"]);
  expect(refused.exit).toBe(2);
  expect(refused.stderr).toMatch(
    /perdure run needs a pipeline.*perdure run nightly.*perdure run release/s,
  );
});

it("is chosen from a list on a terminal, by its number or its name", async () => {
  project.write(
    "pipelines/nightly.yml",
    '# Updates everything.\nsteps: [{ id: say, run: "true" }]\n',
  );
  project.write("compose.yaml", "services: {}\n");
  const terminal = new Terminal(project, { columns: 80, rows: 24 });
  try {
    terminal.perdure("run");
    await terminal.shows(
      / 1 {2}nightly +Updates everything\.\n +2 {2}release\n +3 {2}local\.yaml\n/,
    );
    await terminal.shows("Which one?");
    terminal.type("7");
    await terminal.shows("There is no pipeline 7.");
    terminal.type("rel");
    await terminal.shows("status 0");
    terminal.perdure("run");
    await eventually("it asks again", () => terminal.text().split("Which one?").length === 4);
    terminal.key("Enter");
    await terminal.shows("Nothing was started.");
    await terminal.shows("status 130");
  } finally {
    terminal.close();
  }
  expect(await project.must(["list"])).toMatch(/^[0-9a-f]{8} +release +completed/m);
  expect(await project.runIds()).toHaveLength(1);
});

it("is not mistaken for a prompt, nor a prompt for a pipeline", async () => {
  const { exit, stderr } = await project.run(["run", "Make the tests pass"]);
  expect(exit).toBe(2);
  expect(stderr).toContain("perdure run --agent claude 'Make the tests pass'");
});

it("works with validate, graph, doctor and prices", async () => {
  expect(await project.must(["validate", "release"])).toMatch(/^release: valid, 1 step\n/);
  expect(await project.must(["graph", "release"])).toContain("say");
  expect(await project.must(["doctor", "release"])).toContain("release can run here");
  const found: unknown = JSON.parse(await project.must(["doctor", "release", "--json"]));
  expect(found).toMatchObject({ file: "release", ready: true });
  expect(await project.must(["prices", "release"])).toContain("MODEL");
  const refused = await project.run(["validate", "relaese"]);
  expect(refused.exit).toBe(2);
  expect(refused.stderr).toContain("perdure validate release");
});

describe("with --from-step", () => {
  beforeEach(() => {
    project.write(
      "pipelines/deploy.yaml",
      `name: to production
input: { type: object, properties: { target: { type: string, default: none } } }
steps:
  - { id: build, run: "${project.effect("build")}" }
  - { id: ship, run: "${project.effect("ship")}; echo to \${{ input.target }}" }
`,
    );
  });

  it("runs part of its newest run again, or forks it with another input", async () => {
    await project.must(["run", "release"]);
    const [id = ""] = await project.runIds();
    const none = await project.run(["run", "deploy", "--from-step", "ship"]);
    expect(none.exit).toBe(1);
    expect(none.stderr).toContain("next: perdure run deploy\n");
    const wrong = await project.run(["run", "deploy", "--from-step", "ship", "--run", id]);
    expect(wrong.exit).toBe(2);
    expect(wrong.stderr).toContain("not of deploy");
    expect(project.effects()).toEqual({});

    await project.must(["run", "deploy", "-i", "target=moon"]);
    const [first = ""] = await project.runIds();
    await project.must(["run", "release"]);
    const again = await project.must(["run", "deploy", "--from-step", "ship"]);
    expect(again).toContain("to moon\n");
    expect(project.effects()).toEqual({ build: 1, ship: 2 });
    expect(await project.runIds()).toHaveLength(3);
    // By the name in its file, too.
    await project.must(["run", "to production", "--from-step", "ship"]);
    expect(project.effects()).toEqual({ build: 1, ship: 3 });

    const other = ["run", "deploy", "--from-step", "ship", "-i", "target=mars"];
    expect(await project.must(other)).toContain("to mars\n");
    expect(project.effects()).toEqual({ build: 1, ship: 4 });
    expect(await project.runIds()).toHaveLength(4);
    const named = ["run", "deploy", "--from-step", "ship", "--run", first, "-i", "target=venus"];
    expect(await project.must(named)).toContain("to venus\n");
    expect(project.effects()).toEqual({ build: 1, ship: 5 });
  });
});
