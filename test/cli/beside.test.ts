/**
 * Two runs in one directory: always reported; if both have agents, asked about or refused (app/Q1).
 */
import { mkdirSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Hold, PlainProject, type Program, type Project } from "../rig/project.ts";
import { Terminal } from "../rig/terminal.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** A pipeline of one step, with an agent that runs a script or without one. */
function pipeline(name: string, agent: boolean, script: string, workspace = "here"): string {
  const file = project.path(project.write(`${name}.sh`, `cat > /dev/null\n${script}\n`));
  const step = agent ? "agent: fake, prompt: Go." : `run: "${script}"`;
  const agents = `agents: { fake: { command: "sh '${file}'" } }\n`;
  const text = `workspace: ${workspace}\n${agent ? agents : ""}steps: [{ id: one, ${step} }]\n`;
  return project.write(`${name}.yaml`, text);
}

async function heldRun(agent: boolean): Promise<{ hold: Hold; runner: Program; id: string }> {
  const hold = project.hold("first");
  const runner = project.start(["run", pipeline("first", agent, hold.command)]);
  await hold.arrived();
  const [id = ""] = await project.runIds();
  return { hold, runner, id: id.slice(0, 8) };
}

it("reports that another run is active in the directory, and names it", async () => {
  const { hold, runner, id } = await heldRun(false);

  const second = await project.must(["run", pipeline("second", true, project.effect("second"))]);
  expect(second).toContain(`Run ${id} (first) is also working in this directory\n`);

  await hold.release();
  expect((await runner.ended).exit).toBe(0);
  expect(await project.must(["run", "second.yaml"])).not.toContain("as well");
});

it("refuses a second run with agents without --beside", async () => {
  const { hold, runner, id } = await heldRun(true);
  const file = pipeline("second", true, project.effect("second"));

  for (const args of [
    ["run", file],
    ["run", file, "--detach"],
  ]) {
    const refused = await project.run(args);
    expect(refused.exit).toBe(2);
    expect(refused.stderr).toBe(
      `error: run ${id} (first) has agents working in ${project.dir}: the two runs would change ` +
        "each other's files; `workspace: worktree` keeps them apart\n" +
        `  next: perdure attach ${id}\n` +
        "        to start it anyway: perdure run second.yaml --beside\n",
    );
  }
  expect(await project.runIds()).toHaveLength(1);
  expect(project.effects()).toEqual({});

  expect(await project.must(["run", file, "--beside"])).toContain("also working in this directory");
  expect(project.effects()).toEqual({ second: 1 });
  await hold.release();
  expect((await runner.ended).exit).toBe(0);
});

it("refuses to resume beside it, too", async () => {
  const file = pipeline("second", true, `${project.effect("second")}; test -e mended`);
  expect((await project.run(["run", file])).exit).toBe(3);
  const [second = ""] = await project.runIds();
  const { hold, runner } = await heldRun(true);
  project.write("mended", "");

  const refused = await project.run(["resume", second]);
  expect(refused.exit).toBe(2);
  const short = second.slice(0, 8);
  expect(refused.stderr).toContain(`to start it anyway: perdure resume ${short} --beside`);
  await project.must(["resume", second, "--beside"]);
  expect(project.effects()).toEqual({ second: 2 });
  await hold.release();
  expect((await runner.ended).exit).toBe(0);
});

it("does not mention runs in other directories or in workspaces of their own", async () => {
  const { hold, runner } = await heldRun(true);
  const own = pipeline("own", true, "true", "directory");
  expect(await project.must(["run", own])).not.toContain("working in");
  mkdirSync(project.path("below"));
  pipeline("below/p", true, "true");
  const other = await project.must(["run", "p.yaml"], { cwd: project.path("below") });
  expect(other).not.toContain("working in");
  await hold.release();
  expect((await runner.ended).exit).toBe(0);
});

describe("on a terminal", () => {
  it("asks before it starts a second run", async () => {
    const { hold, runner, id } = await heldRun(true);
    pipeline("second", true, project.effect("second"));
    const terminal = new Terminal(project, { columns: 150, rows: 30 });
    try {
      terminal.perdure("run second.yaml");
      await terminal.shows(`Run ${id} (first) has agents working in ${project.dir}`);
      await terminal.shows("or [a]bort?");
      terminal.type("a");
      await terminal.shows("status 130");
      expect(project.effects()).toEqual({});
      terminal.perdure("run second.yaml");
      await terminal.shows(/or \[a\]bort\?.*or \[a\]bort\?/s);
      terminal.type("s");
      await terminal.shows("status 0");
      expect(project.effects()).toEqual({ second: 1 });
    } finally {
      terminal.close();
    }
    await hold.release();
    expect((await runner.ended).exit).toBe(0);
  });
});
