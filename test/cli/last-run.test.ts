/**
 * `perdure resume` without an argument takes the run that was interrupted last, without surprises
 * (resume/L1).
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Program, type Project } from "../rig/project.ts";
import { Terminal } from "../rig/terminal.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** A pipeline whose only step is held; it counts under the pipeline's name. */
async function held(name: string): Promise<Program> {
  const hold = project.hold(name);
  project.write(
    `${name}.yaml`,
    `steps: [{ id: one, run: "${project.effect(name)}; test -e open || ${hold.command}" }]\n`,
  );
  const runner = project.start(["run", `${name}.yaml`]);
  await hold.arrived();
  return runner;
}

async function failed(name: string): Promise<string> {
  project.write(
    `${name}.yaml`,
    `steps: [{ id: one, run: "${project.effect(name)}; test -e mended" }]\n`,
  );
  expect((await project.run(["run", `${name}.yaml`])).exit).toBe(3);
  return newest();
}

async function completed(name: string): Promise<string> {
  project.write(`${name}.yaml`, `steps: [{ id: one, run: "${project.effect(name)}" }]\n`);
  await project.must(["run", `${name}.yaml`]);
  return newest();
}

async function newest(): Promise<string> {
  return (await project.runIds())[0]?.slice(0, 8) ?? "";
}

it("takes the run that was interrupted last, not the one that was created last", async () => {
  const a = await held("a");
  await failed("b");
  await a.kill("SIGINT");
  project.write("open", "");

  expect(await project.must(["resume"])).toContain("of a from step");
  expect(project.effects()).toEqual({ a: 2, b: 1 });
});

it("takes one that was interrupted after another had completed", async () => {
  const a = await held("a");
  await completed("b");
  await a.kill("SIGINT");
  project.write("open", "");

  await project.must(["resume"]);
  expect(project.effects()).toEqual({ a: 2, b: 1 });
});

it("skips a living run, and takes an interrupted one", async () => {
  const a = await held("a");
  await a.kill("SIGINT");
  const b = await held("b");
  project.write("open", "");

  expect(await project.must(["resume"])).toContain("of a from step");
  await b.kill("SIGINT");
});

describe("refuses, and suggests commands,", () => {
  it("when the last run has failed", async () => {
    const a = await held("a");
    await a.kill("SIGINT");
    const interrupted = await newest();
    const id = await failed("b");

    for (const args of [["resume"], ["run", "--resume-last"]]) {
      const refused = await project.run(args);
      expect(refused.exit).toBe(2);
      expect(refused.stderr.replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, "WHEN")).toBe(
        `error: run ${id} (b), the last one here, has failed: name the run to resume\n` +
          `  next: perdure resume ${id}   (b: failed, 0 of 1 steps completed, WHEN UTC)\n` +
          `        perdure resume ${interrupted}   (a: interrupted, 0 of 1 steps completed, WHEN UTC)\n`,
      );
    }
    expect(project.effects()).toEqual({ a: 1, b: 1 });

    project.write("mended", "");
    await project.must(["resume", id]);
    expect(project.effects()).toEqual({ a: 1, b: 2 });
  });

  it("when the last run has completed", async () => {
    const old = await failed("deploy");
    const id = await completed("b");

    const refused = await project.run(["resume"]);
    expect(refused.exit).toBe(2);
    expect(refused.stderr).toContain(`error: run ${id} (b), the last one here, has completed`);
    expect(refused.stderr).toContain(`next: perdure resume ${old}   (deploy: failed`);
    expect(project.effects()).toEqual({ deploy: 1, b: 1 });
  });

  it("when the last run of the named file has failed", async () => {
    const id = await failed("a");
    const refused = await project.run(["run", "a.yaml", "--resume-last"]);
    expect(refused.exit).toBe(2);
    expect(refused.stderr).toContain(`run ${id} (a), the last one of a.yaml, has failed`);
  });
});

it("shows a failed run with --dry-run, and rewinds it with --from-step", async () => {
  await failed("a");
  expect(await project.must(["resume", "--dry-run"])).toContain("one");
  expect(project.effects()).toEqual({ a: 1 });
  project.write("mended", "");
  await project.must(["resume", "--from-step", "one"]);
  expect(project.effects()).toEqual({ a: 2 });
});

describe("on a terminal", () => {
  let terminal: Terminal;
  beforeEach(() => {
    terminal = new Terminal(project, { columns: 120, rows: 24 });
  });
  afterEach(() => terminal.close());

  it("asks about a failed run, and resumes it", async () => {
    const id = await failed("a");
    project.write("mended", "");
    terminal.perdure("resume");
    await terminal.shows(`Run ${id} (a), the last one here, has failed.`);
    await terminal.shows("or [a]bort?");
    terminal.type("r");
    await terminal.shows("status 0");
    expect(project.effects()).toEqual({ a: 2 });
  });

  it("starts nothing when the person does not want it", async () => {
    await failed("deploy");
    const id = await completed("b");
    terminal.perdure("resume");
    await terminal.shows(`Run ${id} (b), the last one here, has completed.`);
    await terminal.shows("or [a]bort?");
    terminal.type("");
    await terminal.shows("Nothing was started.");
    await terminal.shows("status 130");
    expect(project.effects()).toEqual({ deploy: 1, b: 1 });
  });
});
