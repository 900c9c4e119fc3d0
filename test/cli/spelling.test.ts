/**
 * Alternative spellings of commands, output for programs, quiet and colours: what scripts rely on.
 */
import { mkdirSync } from "node:fs";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { KeptProject } from "../rig/kept-project.ts";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** The run of p.yaml, which the tests begin with. */
let failed: { readonly kept: KeptProject; readonly id: string } | undefined;
afterAll(() => failed?.kept.forget());

/** Puts the run of p.yaml into the project of the test. */
async function failedRun(): Promise<string> {
  if (failed === undefined) {
    const id = await newFailedRun("p.yaml");
    failed = { kept: new KeptProject(project), id };
    return id;
  }
  await project.remove();
  ({ project } = failed.kept);
  failed.kept.putBack();
  return failed.id;
}

/** A run whose second step of three fails until a file is there. */
async function newFailedRun(file: string): Promise<string> {
  project.write(
    file,
    `steps:
  - id: one
    run: ${project.effect("one")}
  - id: two
    run: |
      ${project.effect("two")}
      test -e '${project.path("flag")}'
  - id: three
    run: ${project.effect("three")}
`,
  );
  expect((await project.run(["run", file])).exit).toBe(3);
  const [id = ""] = await project.runIds();
  return id;
}

describe("other spellings of resume", () => {
  it.each([
    ["resume --pipeline-id ID"],
    ["resume SHORT"],
    ["run --resume ID"],
    ["run p.yaml --resume ID"],
  ])("%s", async (spelling) => {
    const id = await failedRun();
    project.write("flag", "");
    const args = spelling.replace("ID", id).replace("SHORT", id.slice(0, 8)).split(" ");
    expect((await project.run(args)).exit).toBe(0);
    expect(project.effects()).toEqual({ one: 1, two: 2, three: 1 });
  });

  it.each(["run --resume-last", "run p.yaml --resume-last"])("%s", async (spelling) => {
    const hold = project.hold("last");
    project.write(
      "p.yaml",
      `steps: [{ id: one, run: "${project.effect("one")}; test -e flag || ${hold.command}" }]\n`,
    );
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await runner.kill("SIGINT");
    project.write("flag", "");
    expect((await project.run(spelling.split(" "))).exit).toBe(0);
    expect(project.effects()).toEqual({ one: 2 });
  });

  it.each([["run --from-step three --run ID"], ["resume --pipeline-id ID --from-step three"]])(
    "%s",
    async (spelling) => {
      const id = await failedRun();
      const result = await project.run(spelling.replace("ID", id).split(" "));
      expect(result.exit, result.stderr).toBe(0);
      expect(project.effects()).toEqual({ one: 1, two: 1, three: 1 });
    },
  );

  it("take the last run of the pipeline if a file is named", async () => {
    const id = await failedRun();
    await newFailedRun("second.yaml");
    project.write("flag", "");
    const resumed = await project.must(["run", "p.yaml", "--from-step", "two"]);
    expect(resumed).toContain(`Resuming run ${id} of p from step 2 of 3: two`);
    const none = await project.run(["run", "p.yaml", "--resume-last"]);
    expect(none.exit).toBe(2);
    expect(none.stderr).toBe(
      "error: there is no unfinished run of p.yaml\n  next: perdure list runs\n",
    );
  });
});

it("treats sessions ls, show and clean as list runs, show and clean", async () => {
  const id = await failedRun();
  expect(await project.must(["sessions", "ls"])).toBe(await project.must(["list", "runs"]));
  expect(await project.must(["sessions"])).toBe(await project.must(["list"]));
  // From a directory below the project, too.
  mkdirSync(project.path("deep/er"), { recursive: true });
  const listed = await project.must(["list", "--output", "json"], { cwd: project.path("deep/er") });
  expect(listed).toContain(id);
  expect(
    await project.must(["-C", project.dir, "sessions", "ls", "--output", "json"], { cwd: "/" }),
  ).toBe(listed);
  expect(await project.must(["sessions", "show", id])).toBe(await project.must(["show", id]));
  expect(await project.must(["sessions", "clean", "--all", "--dry-run"])).toContain("would remove");
});

it("prints only a stream of events with --json, numbered without gaps", async () => {
  await failedRun();
  const id = (await project.runIds())[0] ?? "";
  project.write("flag", "");
  for (const args of [
    ["run", "p.yaml"],
    ["resume", id],
  ]) {
    const { exit, stdout, stderr } = await project.run([...args, "--json"]);
    expect(exit).toBe(0);
    expect(stderr).toBe("");
    const events = stdout
      .trimEnd()
      .split("\n")
      .map(
        (line) =>
          JSON.parse(line) as { sequence: number; type: string; run_id: string; time: string },
      );
    const [first] = events;
    const from = first?.sequence ?? 0;
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, at) => from + at));
    expect(new Set(events.map(({ run_id }) => run_id)).size).toBe(1);
    expect(events.at(-1)?.type).toBe("run.completed");
    for (const { time } of events) expect(new Date(time).toISOString()).toBe(time);
  }
});

it("prints nothing with --quiet about a run that completes, and otherwise why and what to do", async () => {
  const id = await failedRun();
  const failed = await project.run(["resume", id, "--quiet"]);
  expect(failed.exit).toBe(3);
  expect(failed.stdout).toBe("");
  expect(failed.stderr).toContain(`Fix the cause, then continue: perdure resume ${id.slice(0, 8)}`);
  project.write("flag", "");
  const done = await project.run(["resume", id, "-q"]);
  expect([done.exit, done.stdout, done.stderr]).toEqual([0, "", ""]);
});

it("prints no colours into a pipe, whatever TERM says", async () => {
  await failedRun();
  project.write("bad.yaml", "steps: 1\n");
  const env = { TERM: "xterm-256color" };
  for (const args of [["run", "p.yaml"], ["list"], ["show"], ["run", "bad.yaml"], ["--help"]]) {
    const { stdout, stderr } = await project.run(args, { env });
    expect(stdout + stderr).not.toContain("\u001b");
  }
});

it("exits with 0 for help and version", async () => {
  // text.test.ts asks with --help.
  for (const args of [["help"], ["help", "run"], ["-V"]]) {
    const result = await project.run(args);
    expect(result.exit, args.join(" ")).toBe(0);
    expect(result.stderr).toBe("");
    expect(result.stdout).not.toBe("");
  }
});
