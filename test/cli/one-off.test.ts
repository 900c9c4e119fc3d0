/** Runs without a pipeline file: a prompt, a command, or a pipeline from standard input. */
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { cleanEnvironment, PlainProject, PROGRAM, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** Runs the program with a text on its standard input. */
function piped(args: readonly string[], input: string) {
  return spawnSync(process.execPath, [PROGRAM, ...args], {
    cwd: project.dir,
    env: cleanEnvironment(),
    encoding: "utf8",
    input,
  });
}

describe("a command", () => {
  it("can be killed, listed and resumed like any other run", async () => {
    const hold = project.hold("one");
    const shell = `${project.effect("begun")}; test -e go || ${hold.command}; ${project.effect("done")}`;
    const runner = project.start(["run", "--shell", shell]);
    await hold.arrived();
    await runner.kill("SIGKILL");
    await project.killSteps();
    expect(await project.must(["list", "runs"])).toContain("ad-hoc");
    project.write("go", "");
    await project.must(["resume"]);
    expect(project.effects()).toEqual({ begun: 2, done: 1 });
  });

  it("that fails suggests how to run it again", async () => {
    const failed = await project.run(["run", "--shell", "exit 3"]);
    expect(failed.exit).toBe(3);
    const why = await project.run(["why"]);
    expect(why.stdout).toContain("perdure");
    const update = await project.run([
      "resume",
      "--update",
      (await project.newestId()).slice(0, 8),
    ]);
    expect(update.stderr).toContain("no file to edit");
  });

  it("takes input, and cannot be combined with a file", async () => {
    const said = await project.must(["run", "--shell", "echo ${{ input.word }}", "-i", "word=hi"]);
    expect(said).toContain("shell │ hi\n");
    const refused = await project.run(["run", "x.yaml", "--shell", "ls"]);
    expect(refused.exit).toBe(2);
    expect(refused.stderr).toContain("next: perdure run --shell ls\n");
  });
});

describe("a prompt", () => {
  it("goes to an agent of the project", async () => {
    project.write("perdure.yaml", `agents: { echo: "cat" }\n`);
    const said = await project.must(["run", "--agent", "echo", "Say good morning."]);
    expect(said).toContain("Say good morning.");
    expect(await project.must(["list", "runs"])).toContain("ad-hoc");
    const typed = piped(["run", "--agent", "echo", "-"], "From a pipe.");
    expect(typed.stdout).toContain("From a pipe.");
  });

  it("uses the given model and permissions", async () => {
    fs.mkdirSync(project.path("bin"));
    const program = project.path("bin", "claude");
    fs.writeFileSync(program, '#!/bin/sh\necho "$@" >> arguments\nexit 1\n', { mode: 0o755 });
    const env = { PATH: `${project.path("bin")}:${process.env.PATH}` };
    const args = ["run", "--agent", "claude", "--model", "opus", "--permissions", "plan"];
    const failed = await project.run([...args, "--no-preflight", "Look around."], { env });
    expect(failed.exit).toBe(3);
    expect(project.read("arguments")).toMatch(/--model opus.*--permission-mode plan/s);
  });

  it("is refused if the agent is unknown or the text is missing", async () => {
    const unknown = await project.run(["run", "--agent", "claud", "Go."]);
    expect(unknown.exit).toBe(4);
    expect(unknown.stderr).toContain("did you mean `claude`?");
    const empty = await project.run(["run", "--agent", "claude"]);
    expect(empty.exit).toBe(2);
    expect(empty.stderr).toContain("--agent needs a prompt");
    const model = await project.run(["run", "x.yaml", "--model", "opus"]);
    expect(model.exit).toBe(2);
    expect(project.exists(".perdure")).toBe(false);
  });

  it("is not assumed if the argument names a pipeline", async () => {
    project.write("p.yaml", "steps: [{ id: a, run: ls }]\n");
    const refused = await project.run(["run", "--agent", "claude", "p.yaml"]);
    expect(refused.stderr).toContain("--agent is for pipelines in DOT");
  });
});

describe("a pipeline from standard input", () => {
  it("runs with paths relative to the current directory, under the name ad-hoc", async () => {
    project.write("sub.yaml", `steps: [{ id: in, run: "${project.effect("in")}" }]\n`);
    const text =
      "steps:\n  - { id: a, pipeline: sub.yaml }\n  - { id: b, run: 'echo ${{ input.n }}' }\n";
    const result = piped(["run", "-", "-i", "n=7"], text);
    expect(result.stderr).toBe("");
    expect(result.stdout).toContain("of ad-hoc (2 steps)");
    expect(result.stdout).toContain("b │ 7\n");
    expect(project.effects()).toEqual({ in: 1 });
  });

  it("resumes without its text", async () => {
    const text = "name: once more\nsteps: [{ id: a, run: test -e go }]\n";
    expect(piped(["run", "-"], text).status).toBe(3);
    fs.writeFileSync(project.path("go"), "");
    expect(await project.must(["resume", await project.newestId()])).toContain("of once more");
  });

  it("reports its mistakes", async () => {
    const wrong = piped(["run", "-"], "steps:\n  - { id: a, rum: ls }\n");
    expect(wrong.status).toBe(4);
    expect(wrong.stderr).toContain("ad-hoc:2:14");
    const both = piped(["run", "-", "-i", "-"], "steps: [{ id: a, run: ls }]\n");
    expect(both.status).toBe(2);
  });
});
