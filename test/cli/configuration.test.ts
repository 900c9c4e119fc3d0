/** The configuration of a project and of a user: what a run takes from it, and when. */
import * as fs from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

let project: Project;
let env: Record<string, string>;
beforeEach(() => {
  project = new Project();
  fs.mkdirSync(project.path("own", "perdure"), { recursive: true });
  fs.mkdirSync(project.path("deep"));
  env = { XDG_CONFIG_HOME: project.path("own") };
});
afterEach(() => project.remove());

const SAY = `steps: [{ id: say, run: 'echo "$WORD, $GREETING"' }]\n`;
const SAY_WORD = `  - { id: say, run: 'echo "word: $WORD"' }\n`;

describe("the configuration of a project and of a user", () => {
  it("applies to runs from anywhere in the project, and the pipeline overrides it", async () => {
    project.write("own/perdure/config.yaml", "env: { WORD: user, GREETING: hello }\n");
    project.write("perdure.yaml", "env: { WORD: project }\n");
    project.write("say.yaml", SAY);
    expect(await project.must(["run", "say.yaml"], { env })).toContain("say │ project, hello\n");
    const deep = { env, cwd: project.path("deep") };
    expect(await project.must(["run", "../say.yaml"], deep)).toContain("project, hello\n");
    project.write("say.yaml", `env: { WORD: pipeline }\n${SAY}`);
    expect(await project.must(["run", "say.yaml"], { env })).toContain("pipeline, hello\n");
    const valid = await project.must(["validate", "say.yaml"], { env });
    expect(valid).toContain("from own/perdure/config.yaml: env.GREETING");
    expect(valid).not.toContain("env.WORD");
  });

  it("gives steps their agents and their defaults", async () => {
    const count = project.effect("asked");
    project.write(
      "perdure.yaml",
      `agents: { echo: "${count}; cat" }\ndefaults: { agent: echo, retry: { attempts: 2, backoff: 1ms } }\n`,
    );
    project.write("ask.yaml", "steps: [{ id: ask, prompt: Good morning., check: 'false' }]\n");
    const failed = await project.run(["run", "ask.yaml"]);
    expect(failed.exit).toBe(3);
    expect(failed.stdout).toContain("Good morning.");
    expect(project.effects()).toEqual({ asked: 2 });
  });

  it("is part of a run from its start; only --update reads it again", async () => {
    const hold = project.hold("first");
    project.write("perdure.yaml", "env: { WORD: before }\n");
    project.write(
      "p.yaml",
      `steps:\n  - { id: first, run: "test -e go || ${hold.command}" }\n${SAY_WORD}`,
    );
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await runner.kill("SIGKILL");
    project.write("perdure.yaml", "env: { WORD: after }\n");
    const id = (await project.newestId()).slice(0, 8);
    const resumed = project.start(["resume", id]);
    await resumed.printed("perdure.yaml was edited since; the run continues with its plan");
    await resumed.kill("SIGKILL");
    await project.killSteps();
    project.write("go", "");
    const updated = await project.run(["resume", id, "--update", "--yes"]);
    expect(updated.exit).toBe(0);
    expect(updated.stdout).toContain("word: after\n");
    // The edit is adopted: nothing has changed since.
    const again = await project.must(["resume", id, "--from-step", "say", "--yes"]);
    expect(again).toContain("word: after\n");
    expect(again).not.toContain("was edited since");
  });

  it("stays as it was without --update", async () => {
    const hold = project.hold("first");
    project.write("perdure.yaml", "env: { WORD: before }\n");
    project.write("p.yaml", `steps:\n  - { id: first, run: "${hold.command}" }\n${SAY_WORD}`);
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await runner.kill("SIGKILL");
    fs.rmSync(project.path("perdure.yaml"));
    const resumed = project.start(["resume"]);
    await hold.release();
    const { stdout } = await resumed.ended;
    expect(stdout).toContain("word: before\n");
    expect(stdout).toContain("p.yaml was edited since");
  });

  it("is checked with the pipeline, and a mistake names its file and line", async () => {
    project.write("perdure.yaml", "defaults:\n  timeout: 5\n");
    project.write("say.yaml", SAY);
    const refused = await project.run(["run", "say.yaml"]);
    expect(refused.exit).toBe(4);
    expect(refused.stderr).toContain("perdure.yaml:2:12");
    expect(refused.stderr).toContain("2 |   timeout: 5");
    const alone = await project.run(["validate", "perdure.yaml"]);
    expect(alone.exit).toBe(4);
    expect(alone.stderr).toContain("perdure.yaml:2:12");
    project.write("perdure.yaml", "defaults:\n  timeout: 5s\n");
    expect(await project.must(["validate", "perdure.yaml"])).toContain("perdure.yaml: valid");
    const listed = JSON.parse(await project.must(["validate", "say.yaml", "--json"]));
    expect(listed.files[0].settings).toEqual([
      { file: "perdure.yaml", keys: ["defaults.timeout"] },
    ]);
  });

  it("is not offered as a pipeline of the project", async () => {
    project.write("perdure.yaml", "env: { A: b }\n");
    const refused = await project.run(["run", "perdure"]);
    expect(refused.exit).toBe(2);
    expect(refused.stderr).toContain("no pipeline of that name");
  });
});
