/** Edited pipelines: `resume --update` does what it shows, measured by counted effects (P1). */
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import { Situation } from "../rig/kept-project.ts";
import { stall, stateless, text } from "../rig/model/reply.ts";
import { eventually, type Hold, normalised, PlainProject, type Project } from "../rig/project.ts";
import { Terminal } from "../rig/terminal.ts";

let project: Project;
let hold: Hold;
beforeEach(() => {
  project = new PlainProject();
  hold = project.hold("test");
});
afterEach(() => project.remove());

async function shortId(): Promise<string> {
  const [id = ""] = await project.runIds();
  return id.slice(0, 8);
}

/** plan -> build -> test -> ship; `test` is held. */
function pipeline(): string {
  return `name: release
steps:
  - id: plan
    run: |
      ${project.effect("plan")}
      echo goal=win >> "$PERDURE_CONTEXT"
  - id: build
    run: |
      ${project.effect("build")}
      echo app > "$PERDURE_OUTPUT_APP"
    outputs: { app: out/app }
  - id: test
    run: |
      ${project.effect("test")}
      test -e '${project.path("go")}' || ${hold.command}
  - id: ship
    run: |
      ${project.effect("ship")}
      test "$(cat \${{ outputs.build.app }})" = app
      test \${{ context.goal }} = win
`;
}

function edit(from: string, to: string): void {
  const before = project.read("p.yaml");
  expect(before).toContain(from);
  project.write("p.yaml", before.replace(from, to));
}

/** A run that was killed, step and runner, while `test` was running; it will pass from now on. */
async function newCrash(head = ""): Promise<string> {
  project.write("p.yaml", `${head}${pipeline()}`);
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.kill("SIGKILL");
  await project.killSteps();
  project.write("go", "");
  return shortId();
}

const crashed = new Situation<Project, string>(newCrash);
afterAll(() => crashed.forget());

/** The same run for all tests that call this, each time as it was after the kill. */
async function crash(): Promise<string> {
  const found = await crashed.in(project);
  project = found.project;
  return found.value;
}

async function table(id: string): Promise<string> {
  return normalised(await project.must(["resume", id, "--update", "--dry-run"]), project);
}

/** What an update will do with each step, without the reasons. */
async function actions(id: string): Promise<Readonly<Record<string, string>>> {
  const rows = (await table(id)).split("\n").filter((line) => /^\w+ {2,}\w/.test(line));
  return Object.fromEntries(
    rows.slice(1).map((row) => {
      const [step = "", action = ""] = row.split(/ {2,}/);
      return [step, action];
    }),
  );
}

describe("between a crash and its resume", () => {
  it("an edit of comments and formatting changes nothing", async () => {
    const id = await crash();
    edit("steps:", "# what we do\nsteps:   # in this order\n");
    edit("{ app: out/app }", "\n      app: 'out/app'");
    const said = await project.must(["resume", id, "--update"]);
    expect(said).toContain("Nothing to update: the edit changes no step.\n");
    expect(project.effects()).toEqual({ plan: 1, build: 1, test: 2, ship: 1 });
    expect(
      project.read(".perdure", "runs", (await project.runIds())[0] ?? "", "events.jsonl"),
    ).not.toContain("run.updated");
  });

  it("an edit of a pending step keeps all that is done, and runs the new text", async () => {
    const id = await crash();
    edit(project.effect("ship"), project.effect("ship-new"));
    expect(await actions(id)).toEqual({ plan: "reuse", build: "reuse", test: "run", ship: "run" });
    expect(project.effects()).toEqual({ plan: 1, build: 1, test: 1 });
    await project.must(["resume", id, "--update", "--yes"]);
    expect(project.effects()).toEqual({ plan: 1, build: 1, test: 2, "ship-new": 1 });
  });

  it("an edit of a completed step runs it and all after it again", async () => {
    const id = await crash();
    edit(project.effect("build"), project.effect("build-new"));
    expect(await actions(id)).toEqual({
      plan: "reuse",
      build: "run again",
      test: "run again",
      ship: "run",
    });
    await project.must(["resume", id, "--update", "--yes"]);
    expect(project.effects()).toEqual({ plan: 1, build: 1, "build-new": 1, test: 2, ship: 1 });
    const [full = ""] = await project.runIds();
    for (const attempt of ["build@1.1", "build@2.1"]) {
      expect(project.receipt(full, attempt), attempt).toBeDefined();
    }
  });

  it("a renamed step is a new step, and the old one is history", async () => {
    const id = await crash();
    edit("id: build", "id: make");
    edit("outputs.build.app", "outputs.make.app");
    expect(await actions(id)).toEqual({
      plan: "reuse",
      make: "run",
      test: "run again",
      ship: "run",
      build: "leave out",
    });
    await project.must(["resume", id, "--update", "--yes"]);
    expect(project.effects()).toEqual({ plan: 1, build: 2, test: 2, ship: 1 });
    expect(await project.must(["explain", id, "build"])).toMatch(/no longer in the pipeline/);
    expect((await project.run(["logs", id, "build"])).exit).toBe(0);
  });
});

it("plain resume reports the edit, and continues with the plan as it was", async () => {
  const id = await crash();
  edit(project.effect("ship"), project.effect("ship-new"));
  const said = await project.must(["resume", id]);
  expect(said).toMatch(/\/p\.yaml .*was edited since; the run continues with its plan as it was/);
  expect(said).toContain(`(adopt the edit: perdure resume ${id} --update)`);
  expect(project.effects()).toEqual({ plan: 1, build: 1, test: 2, ship: 1 });
});

it("resume uses the new plan after an update, and compares the file with it", async () => {
  const id = await crash();
  edit(project.effect("ship"), `${project.effect("ship-new")}; test -e '${project.path("flag")}'`);
  expect((await project.run(["resume", id, "--update", "--yes"])).exit).toBe(3);
  project.write("flag", "");
  const said = await project.must(["resume", id]);
  expect(said).not.toContain("was edited since");
  expect(project.effects()).toEqual({ plan: 1, build: 1, test: 2, "ship-new": 2 });
});

it("a second update of a completed run runs the steps that were added at the end", async () => {
  const id = await crash();
  edit(project.effect("ship"), project.effect("ship-new"));
  await project.must(["resume", id, "--update", "--yes"]);
  const again = await project.must(["resume", id, "--update"]);
  expect(again).toContain("Nothing to update: the file has not changed.\n");
  expect(again).toContain("There is nothing to resume.");
  project.write(
    "p.yaml",
    `${project.read("p.yaml")}  - id: tell\n    run: ${project.effect("tell")}\n`,
  );
  const said = await project.must(["resume", id, "--update", "--yes"]);
  expect(said).toMatch(/completed in .*\n {2}5 steps\n/);
  expect(project.effects()).toEqual({ plan: 1, build: 1, test: 2, "ship-new": 1, tell: 1 });
  expect(await project.must(["doctor"])).toContain(
    "every event and every plan matches its checksum",
  );
  const [full = ""] = await project.runIds();
  project.write(".perdure/state.db", "not a database");
  await project.must(["doctor", "--repair"]);
  expect(await project.must(["show", full])).toContain("5 of 5 steps completed");
});

it("an invalid file changes nothing: every mistake is reported, exit 4", async () => {
  const id = await crash();
  edit("id: ship", "id: plan");
  const refused = await project.run(["resume", id, "--update", "--yes"]);
  expect(refused.exit).toBe(4);
  expect(refused.stderr).toContain("p.yaml:");
  expect(refused.stderr).toContain(`next: fix it, then: perdure resume ${id} --update`);
  project.write("p.yaml", pipeline());
  await project.must(["resume", id]);
  expect(project.effects()).toEqual({ plan: 1, build: 1, test: 2, ship: 1 });
});

it("needs a person's agreement, one request at a time, and valid options", async () => {
  const id = await crash();
  edit(project.effect("ship"), project.effect("ship-new"));
  const asked = await project.run(["resume", id, "--update"]);
  expect(asked.exit).toBe(2);
  expect(asked.stderr).toContain(`next: perdure resume ${id} --update --yes`);
  expect((await project.run(["resume", id, "--update", "--from-step", "test"])).exit).toBe(2);
  expect((await project.run(["resume", id, "--update", "--files", "burn"])).exit).toBe(2);
  expect(project.effects()).toEqual({ plan: 1, build: 1, test: 1 });
});

it("asks on a terminal, and adopts the edit only for y", async () => {
  const id = await crash();
  edit(project.effect("ship"), project.effect("ship-new"));
  const terminal = new Terminal(project, { columns: 120, rows: 40 });
  try {
    terminal.perdure(`resume ${id} --update`);
    await terminal.shows("Adopt the edit and continue? [y/N]");
    terminal.type("n");
    await terminal.shows("Nothing was changed.");
    await terminal.shows("status 130");
    terminal.clear();
    terminal.perdure(`resume ${id} --update`);
    await terminal.shows("Adopt the edit and continue? [y/N]");
    terminal.type("y");
    await terminal.shows("status 0");
  } finally {
    terminal.close();
  }
  expect(project.effects()).toEqual({ plan: 1, build: 1, test: 2, "ship-new": 1 });
});

it("changes nothing in a run that has continued while the person was asked", async () => {
  const id = await crash();
  edit(project.effect("build"), project.effect("build-new"));
  const terminal = new Terminal(project, { columns: 120, rows: 40 });
  try {
    terminal.perdure(`resume ${id} --update`);
    await terminal.shows("Adopt the edit and continue? [y/N]");
    await project.must(["resume", id]);
    terminal.type("y");
    await terminal.shows(`run ${id} has continued since its update was shown`);
    await terminal.shows(`next: perdure resume ${id} --update`);
    await terminal.shows("status 1");
    expect(project.effects()).toEqual({ plan: 1, build: 1, test: 2, ship: 1 });
    expect(await project.must(["why", id])).toContain("completed");
    // What it suggests asks again, about the run as it is now.
    terminal.perdure(`resume ${id} --update`);
    await terminal.shows(/\[y\/N\].*\[y\/N\]/s);
    terminal.type("y");
    await terminal.shows("status 0");
  } finally {
    terminal.close();
  }
  expect(project.effects()).toMatchObject({ build: 1, "build-new": 1 });
});

describe("a running step", () => {
  async function orphan(): Promise<string> {
    project.write("p.yaml", pipeline());
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await runner.kill("SIGKILL");
    return shortId();
  }

  it("continues when the edit does not change it", async () => {
    const id = await orphan();
    edit(project.effect("ship"), project.effect("ship-new"));
    const resumed = project.start(["resume", id, "--update", "--yes"]);
    await resumed.printed("test is still running: re-attached");
    await hold.release();
    expect((await resumed.ended).exit).toBe(0);
    expect(project.effects()).toEqual({ plan: 1, build: 1, test: 1, "ship-new": 1 });
  });

  it("is ended first when the edit changes it", async () => {
    const id = await orphan();
    const [before] = project.stepProcesses();
    edit(project.effect("test"), project.effect("test-new"));
    expect(await table(id)).toContain("\nWhat still runs is stopped first: test.\n");
    project.write("go", "");
    await project.must(["resume", id, "--update", "--yes"]);
    expect(project.stepProcesses()).not.toContain(before);
    expect(project.effects()).toEqual({ plan: 1, build: 1, test: 1, "test-new": 1, ship: 1 });
  });
});

it("leaves the update to a background process, and reports it as JSON", async () => {
  const id = await crash();
  edit(project.effect("ship"), project.effect("ship-new"));
  await project.must(["resume", id, "--update", "--yes", "--quiet", "--detach"]);
  await eventually("the run is over", () => project.effects()["ship-new"] === 1);
  await project.run(["attach", id, "--quiet"]);
  edit(project.effect("ship-new"), project.effect("ship-newer"));
  const said = await project.must(["resume", id, "--update", "--yes", "--json"]);
  const types = said.split("\n").flatMap((line) => (line === "" ? [] : [typeOf(line)]));
  expect(types[0]).toBe("run.updated");
  expect(types.at(-1)).toBe("run.completed");
  expect(project.effects()["ship-newer"]).toBe(1);
});

function typeOf(line: string): string {
  return (JSON.parse(line) as { type: string }).type;
}

it("estimates the remaining work from other runs of the same file", async () => {
  project.write("go", "");
  project.write("p.yaml", pipeline());
  await project.must(["run", "p.yaml"]);
  project.write("p.yaml", pipeline());
  rmSync(project.path("go"));
  const id = await newCrash();
  edit(project.effect("ship"), project.effect("ship-new"));
  const { steps } = JSON.parse(
    await project.must(["resume", id, "--update", "--dry-run", "--json"]),
  ) as { steps: { step: string; action: string; estimate: { worked_ms: number } | null }[] };
  expect(steps.map(({ step, action }) => [step, action])).toEqual([
    ["plan", "reuse"],
    ["build", "reuse"],
    ["test", "run"],
    ["ship", "run"],
  ]);
  expect(steps[3]?.estimate?.worked_ms).toBeGreaterThan(0);
});

it("adds the new defaults of the input's schema, and refuses an input that no longer fits", async () => {
  const id = await crash();
  const schema = (rest: string): string => `input: { type: object, ${rest} }\nsteps:`;
  edit("steps:", schema("properties: { who: { default: you } }"));
  edit(project.effect("ship"), `${project.effect("ship-new")}; test \${{ input.who }} = you`);
  await project.must(["resume", id, "--update", "--yes"]);
  expect(project.effects()).toEqual({ plan: 1, build: 1, test: 2, "ship-new": 1 });
  edit("{ who: { default: you } }", "{ who: { default: you } }, required: [key]");
  const refused = await project.run(["resume", id, "--update", "--yes"]);
  expect(refused.exit).toBe(2);
  expect(refused.stderr).toContain("key is missing");
});

describe("the files of an update", () => {
  const FILES = (text: string): string => `workspace: copy
steps:
  - id: first
    run: echo first >> notes
  - id: second
    run: echo ${text} >> notes
  - id: third
    run: cat notes > seen; cp notes '${project.path("result")}'
`;

  const completed = new Situation<Project, string>(async () => {
    execFileSync("git", ["init", "-q", project.dir]);
    project.write("p.yaml", FILES("second"));
    await project.must(["run", "p.yaml"]);
    expect(project.read("result")).toBe("first\nsecond\n");
    project.write("p.yaml", FILES("other"));
    return shortId();
  });
  afterAll(() => completed.forget());

  async function done(): Promise<string> {
    const found = await completed.in(project);
    project = found.project;
    return found.value;
  }

  it("stay as they are", async () => {
    await project.must(["resume", await done(), "--update", "--yes"]);
    expect(project.read("result")).toBe("first\nsecond\nother\n");
  });

  it("are restored to before the steps that run again, when a person asks for it", async () => {
    const id = await done();
    await project.must(["resume", id, "--update", "--yes", "--files", "restore"]);
    expect(project.read("result")).toBe("first\nother\n");
    expect(await project.must(["explain", id, "third"])).toContain("the files were restored first");
  });

  it("are not restored over the work of a step that is kept", async () => {
    const id = await done();
    project.write(
      "p.yaml",
      FILES("second").replace(
        "  - id: second",
        "  - id: beside\n    needs: []\n    run: 'true'\n  - id: second\n    needs: [first]",
      ),
    );
    await project.must(["resume", id, "--update", "--yes"]);
    project.write("p.yaml", project.read("p.yaml").replace("echo first", "echo one"));
    const refused = await project.run(["resume", id, "--update", "--yes", "--files", "restore"]);
    expect(refused.exit).toBe(2);
    expect(refused.stderr).toContain("beside is kept, and has worked since then");
  });

  it("of the project itself are not restored, because the edit is one of them", async () => {
    const id = await newCrash("workspace: here\n");
    edit(project.effect("build"), project.effect("build-new"));
    const refused = await project.run(["resume", id, "--update", "--yes", "--files", "restore"]);
    expect(refused.exit).toBe(2);
    expect(refused.stderr).toContain("that would undo the edit");
    expect(project.read("p.yaml")).toContain("build-new");
  });

  it("cannot be moved to another workspace", async () => {
    const id = await done();
    project.write("p.yaml", FILES("other").replace("workspace: copy", "workspace: here"));
    const refused = await project.run(["resume", id, "--update", "--yes"]);
    expect(refused.exit).toBe(2);
    expect(refused.stderr).toContain("moves the run to another workspace");
  });
});

describe("conversations", () => {
  let agents: FakeClaude;
  afterEach(() => agents.close());

  async function cutOff(): Promise<void> {
    agents = await FakeClaude.open(stateless(stall("accept", text("Done."))));
    agents.write(
      "p.yaml",
      `steps:
  - { id: work, agent: claude, prompt: Do it. }
  - { id: next, run: echo next >> effects }
`,
    );
    const runner = agents.begin(["run", "p.yaml"]);
    await agents.model.stalled();
    await runner.kill("SIGKILL");
    await agents.killSteps();
    agents.model.release();
  }

  it("of steps that are kept continue", async () => {
    await cutOff();
    agents.write("p.yaml", agents.read("p.yaml").replace("echo next", "echo later"));
    const result = await agents.finish(["resume", "--update", "--yes"]);
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(await agents.said()).toEqual(["work: task in 1", "work: interrupted in 1"]);
    expect(agents.effects()).toEqual({ later: 1 });
  });

  it("of steps that restart are new ones, with the new prompt", async () => {
    await cutOff();
    agents.write("p.yaml", agents.read("p.yaml").replace("Do it.", "Do it well."));
    const result = await agents.finish(["resume", "--update", "--yes"]);
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(await agents.said()).toEqual(["work: task in 1", "work: task in 2"]);
    expect(JSON.stringify(agents.model.requests("work").at(-1))).toContain("Do it well.");
  });
});
