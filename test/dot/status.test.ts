/** The report of a stage: wherever it writes status.json, and what its answer says. */
import { execFileSync } from "node:child_process";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import { shell, stall, stateless, text } from "../rig/model/reply.ts";
import { eventually } from "../rig/project.ts";
import { DotProject, report, tool } from "./rig.ts";

let project: DotProject;
beforeEach(() => {
  project = new DotProject();
});
afterEach(() => project.remove());

const FAIL = { outcome: "fail", notes: "red" };
const ROUTES = `start -> a; a -> exit [condition="outcome=success"]; a -> fix [condition="outcome=fail"]
  ${tool("fix", "true")}; fix -> exit`;

describe("a stage that writes status.json", () => {
  it("has a directory of its own, also without --logs and in branches", async () => {
    const mark = 'test -d "$ATTRACTOR_STAGE_DIR" && basename "$ATTRACTOR_STAGE_DIR" >> nodes';
    const body = `f [shape=component]; j [shape=tripleoctagon]
      ${tool("a", `${mark}; ${report("$ATTRACTOR_STAGE_DIR/status.json", FAIL)}`)}
      ${tool("b", `${mark}; ${report("$ATTRACTOR_LOGS_ROOT/b/status.json", { outcome: "success" })}`)}
      start -> f; f -> a -> j; f -> b -> j; j -> exit`;
    const { exit } = await project.begin(["run", project.graph(body)]).ended;
    expect(exit).toBe(0);
    expect(project.read("nodes").trim().split("\n").sort()).toEqual(["a", "b"]);
    const { checkpoint } = await project.play(body);
    expect(checkpoint.context["parallel.results"]).toMatchObject([
      { id: "a", outcome: "fail" },
      { id: "b", outcome: "success" },
    ]);
  });

  it("understands the words that files use", async () => {
    const words = ["failure", "Error", "FAIL", "failed"];
    for (const outcome of words) {
      const ran = await project.play(`${tool("a", report("status.json", { outcome }))} ${ROUTES}`);
      expect([outcome, ran.path]).toEqual([outcome, "start a fix exit"]);
    }
    const partly = { status: "PARTIAL_SUCCESS", preferred_next_label: "Ship" };
    const ran = await project.play(
      `${tool("a", report("status.json", partly))} start -> a; a -> b [label="Hold"]; a -> exit [label="ship"]
      ${tool("b", "true")}; b -> exit`,
    );
    expect(ran.path).toBe("start a exit");
    expect(ran.checkpoint.perdure.outcomes.a).toBe("partial_success");
  });
});

describe("a status.json that this attempt did not write", () => {
  it("does not count, and stays", async () => {
    const git = (...args: string[]) => execFileSync("git", args, { cwd: project.dir });
    project.write("status.json", JSON.stringify(FAIL));
    git("init", "-q");
    git("add", "status.json");
    const own = '{"outcome":"fail"}';
    const ran = await project.play(`${tool("a", "true")} ${ROUTES}`);
    expect(ran.path).toBe("start a exit");
    expect(project.read("status.json")).toBe(JSON.stringify(FAIL));
    const wrote = await project.play(`${tool("a", `echo '${own}' > status.json`)} ${ROUTES}`);
    expect(wrote.path).toBe("start a fix exit");
    expect(project.read("status.json")).toBe(JSON.stringify(FAIL));
  });

  it("is not taken from the attempt or the visit before", async () => {
    const once = 'test -e seen || { touch seen; echo \'{"outcome":"retry"}\' > "$FILE"; }';
    for (const file of ["$ATTRACTOR_STAGE_DIR/status.json", "status.json"]) {
      const body = `${tool("a", `rm -f seen.$1; FILE="${file}"; ${once}`, "max_retries=1")} ${ROUTES}`;
      const ran = await project.play(body);
      expect(ran).toMatchObject({ exit: 0, path: "start a exit" });
      await project.begin(["run", project.write("x.yaml", "steps: [{id: x, run: rm seen}]")]).ended;
    }
    const loop = `${tool("a", `test -e two || { touch two; ${report("$ATTRACTOR_STAGE_DIR/status.json", FAIL)}; }`)}
      start -> a; a -> a [condition="outcome=fail"]; a -> exit [condition="outcome=success"]`;
    expect((await project.play(loop)).path).toBe("start a a exit");
  });

  it("is another file of the project if it is no report", async () => {
    const command = `echo '{"services": []}' > status.json`;
    expect((await project.play(`${tool("a", command)} ${ROUTES}`)).path).toBe("start a exit");
    expect(project.read("status.json")).toBe('{"services": []}\n');
    const broken = await project.play(`${tool("a", "echo '{outcome' > status.json")} ${ROUTES}`);
    expect(broken.path).toBe("start a fix exit");
  });
});

describe("a report and a kill", () => {
  it.each(["status.json", "$ATTRACTOR_STAGE_DIR/status.json"])("survives in %s", async (file) => {
    const hold = project.hold("a");
    const first = `test -e two || { touch two; exit 0; }`;
    const command = `${first}; ${report(file, FAIL)}; ${hold.command}`;
    const body = `${tool("a", command)}; ${tool("b", "true")}
      start -> a; a -> b [condition="outcome=success"]; a -> exit [condition="outcome=fail"]; b -> a`;
    const runner = project.begin(["run", project.graph(body), "--logs", "out"]);
    await hold.arrived();
    await runner.kill("SIGKILL");
    const resumed = project.begin(["resume"]);
    await resumed.printed("a");
    await hold.release();
    const ran = project.ran("out", await resumed.ended);
    expect(ran).toMatchObject({ exit: 0, path: "start a b a exit" });
    expect(project.exists("status.json")).toBe(false);
  });

  it("counts when the agent that made it continues after an interruption", async () => {
    const write = shell(report("status.json", FAIL));
    const script = stateless(write, stall("accept", text("Done.")), text("Done."));
    const agents = await FakeClaude.open(script);
    try {
      const ends = "start [shape=Mdiamond]; exit [shape=Msquare]";
      agents.write("f.dot", `digraph g { ${ends}; a [prompt="Build."] ${ROUTES} }`);
      const runner = agents.begin(["run", "f.dot", "--permissions", "all"]);
      await agents.model.stalled();
      await runner.kill("SIGKILL");
      await agents.killSteps();
      agents.model.play(stateless(write, text("Done.")));
      const { exit, stdout } = await agents.finish(["resume"]);
      expect([exit, stdout]).toEqual([0, expect.stringContaining("fix completed")]);
      expect(agents.exists("status.json")).toBe(false);
    } finally {
      await agents.close();
    }
  });

  it("is used once when the runner dies before it is recorded", async () => {
    const failpoints = project.path("failpoints");
    const body = `${tool("a", report("status.json", FAIL))} ${ROUTES}`;
    const file = project.graph(body);
    const env = { ...project.environment, PERDURE_FAILPOINT_LOG: failpoints };
    await project.run(["run", file], { env });
    const names = project.read("failpoints").trim().split("\n");
    const ended = names.indexOf("engine.ended") + 1;
    for (const nth of [ended, names.indexOf("stage-status.kept") + 1]) {
      expect(nth).toBeGreaterThan(0);
      const logs = `out-${nth}`;
      const killed = { ...project.environment, PERDURE_FAILPOINT: String(nth) };
      const cut = await project.run(["run", file, "--logs", logs], { env: killed });
      expect(cut.exit).not.toBe(0);
      const ran = project.ran(logs, await project.begin(["resume"]).ended);
      expect(ran).toMatchObject({ exit: 0, path: "start a fix exit" });
      expect(project.exists("status.json")).toBe(false);
    }
    await eventually("no step is left", () => project.stepProcesses().length === 0);
  });
});

describe("a prompt", () => {
  it("that speaks of status.json learns the path", async () => {
    await project.play(`a [prompt="Build. Write status.json."]; start -> a -> exit`);
    await project.play(`a [prompt="Write to $KILROY_STAGE_STATUS_PATH."]; start -> a -> exit`);
    await project.play(`a [prompt="Build."]; start -> a -> exit`);
    const said = project.prompts().map(([, prompt]) => prompt.includes("PERDURE_STATUS_FILE"));
    expect(said).toEqual([true, false, false]);
  });
});

describe("an answer with routing JSON", () => {
  const routes = `start -> a; a -> exit [label="Ship"]; a -> fix [label="Fix"]; ${tool("fix", "true")}; fix -> exit`;

  it("counts alone and in a fenced block at the end", async () => {
    const cases: readonly (readonly [string, string])[] = [
      ['{"preferred_next_label": "Fix"}', "start a fix exit"],
      ['It is red.\n```json\n{"preferred_label": "fix"}\n```', "start a fix exit"],
      ['```json\n{"preferred_label": "fix"}\n```\nThat was an example.', "start a exit"],
      ['The schema is {"preferred_label": "fix"}', "start a exit"],
      ['{"status": "healthy"}', "start a exit"],
    ];
    for (const [answer, path] of cases) {
      project.write("answer", answer);
      project.agent("cat answer");
      expect([answer, (await project.play(`a [prompt="Go."] ${routes}`)).path]).toEqual([
        answer,
        path,
      ]);
    }
  });

  it("can report a failure, and a file outweighs it", async () => {
    project.agent(`echo '{"outcome": "fail", "failure_reason": "red"}'`);
    expect((await project.play(`a [prompt="Go."] ${ROUTES}`)).path).toBe("start a fix exit");
    project.agent(`${report("status.json", { outcome: "success" })}; echo '{"outcome": "fail"}'`);
    expect((await project.play(`a [prompt="Go."] ${ROUTES}`)).path).toBe("start a exit");
  });
});

describe("the record of a stage", () => {
  it("says what the language says", async () => {
    const retry = report("$PERDURE_STATUS_FILE", { outcome: "retry" });
    const once = tool("a", `test -e seen || { touch seen; ${retry}; }`, "max_retries=1");
    const ran = await project.play(`${once} ${ROUTES}`);
    expect(ran.checkpoint).toMatchObject({
      node_retries: {},
      perdure: { outcomes: { a: "success" } },
    });
    await project.play(`${tool("a", retry, "max_retries=1")} ${ROUTES}`);
    expect(JSON.parse(project.read("logs-2", "a", "status.json"))).toMatchObject({
      outcome: "fail",
      failure_reason: expect.stringContaining("max retries exceeded"),
    });
    await project.play(`a [prompt="Go."]; start -> a -> exit`);
    expect(JSON.parse(project.read("logs-3", "a", "status.json"))).toMatchObject({
      notes: "Stage completed: a",
    });
  });

  it("has no outcome for a skipped stage, and none for the end of a branch", async () => {
    const skip = tool("b", report("$PERDURE_STATUS_FILE", { outcome: "skipped" }));
    const body = `${tool("a", "true")} ${skip} f [shape=component]; j [shape=tripleoctagon]
      start -> a -> b -> f; f -> c -> j; f -> d -> j; j -> exit; ${tool("c", "true")} ${tool("d", "true")}`;
    const { checkpoint, exit } = await project.play(body);
    expect(exit).toBe(0);
    expect(checkpoint.perdure.outcomes).not.toHaveProperty("b");
    expect(checkpoint.context["parallel.results"]).toMatchObject([
      { id: "c", context: { current_node: "c" } },
      { id: "d", context: { current_node: "d" } },
    ]);
  });

  it("counts a node as often as it ran", async () => {
    const body = `${tool("a", "exit 1", "max_visits=2")} start -> a; a -> exit; a -> a [condition="outcome=fail"]`;
    expect((await project.play(body)).path).toBe("start a a");
  });
});
