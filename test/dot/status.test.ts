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
/** The same for a second stage; the first one must succeed. */
const ROUTES_BEHIND = `${ROUTES.replace("start -> a", "start -> before")}
  before -> a [condition="outcome=success"]; before -> exit [condition="outcome=fail"]`;

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
    const stages = words.map((outcome, at) => {
      const next = at + 1 < words.length ? `a${at + 1}` : "b";
      return `${tool(`a${at}`, report("status.json", { outcome }))}; ${tool(`fix${at}`, "true")}
        a${at} -> exit [condition="outcome=success"]; a${at} -> fix${at} [condition="outcome=fail"]
        fix${at} -> ${next}`;
    });
    const partly = { status: "PARTIAL_SUCCESS", preferred_next_label: "Ship" };
    const ran = await project.play(
      `${stages.join("\n")}; start -> a0; ${tool("b", report("status.json", partly))}
      b -> c [label="Hold"]; b -> exit [label="ship"]; ${tool("c", "true")}; c -> exit`,
    );
    expect(ran.path).toBe("start a0 fix0 a1 fix1 a2 fix2 a3 fix3 b exit");
    expect(ran.checkpoint.perdure.outcomes.b).toBe("partial_success");
  });
});

describe("a status.json that this attempt did not write", () => {
  it("does not count, and stays", async () => {
    const git = (...args: string[]) => execFileSync("git", args, { cwd: project.dir });
    project.write("status.json", JSON.stringify(FAIL));
    git("init", "-q");
    git("add", "status.json");
    const own = '{"outcome":"fail"}';
    const ran = await project.play(
      `${tool("before", "true")}; ${tool("a", `cp status.json seen; echo '${own}' > status.json`)}
      ${ROUTES_BEHIND}`,
    );
    expect(ran.path).toBe("start before a fix exit");
    expect(project.read("seen")).toBe(JSON.stringify(FAIL));
    expect(project.read("status.json")).toBe(JSON.stringify(FAIL));
  });

  it("is not taken from the attempt or the visit before", async () => {
    const stages = ["$ATTRACTOR_STAGE_DIR/status.json", "status.json"].map((file, at) => {
      const retry = report(file, { outcome: "retry" });
      return tool(`a${at}`, `test -e seen${at} || { touch seen${at}; ${retry}; }`, "max_retries=1");
    });
    const fail = report("$ATTRACTOR_STAGE_DIR/status.json", FAIL);
    const ran = await project.play(
      `${stages.join("; ")}; ${tool("b", `test -e two || { touch two; ${fail}; }`)}
      start -> a0; a0 -> a1 [condition="outcome=success"]; a0 -> exit [condition="outcome=fail"]
      a1 -> b [condition="outcome=success"]; a1 -> exit [condition="outcome=fail"]
      b -> b [condition="outcome=fail"]; b -> exit [condition="outcome=success"]`,
    );
    expect(ran).toMatchObject({ exit: 0, path: "start a0 a1 b b exit" });
    for (const name of ["seen0", "seen1", "two"]) expect(project.exists(name)).toBe(true);
  });

  it("is another file of the project if it is no report", async () => {
    const ran = await project.play(
      `${tool("before", `echo '{"services": []}' > status.json`)}
      ${tool("a", "cp status.json seen; echo '{outcome' > status.json")} ${ROUTES_BEHIND}`,
    );
    expect(ran.path).toBe("start before a fix exit");
    expect(project.read("seen")).toBe('{"services": []}\n');
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
    const ran = await project.play(
      `a [prompt="Build. Write status.json."]; b [prompt="Write to $KILROY_STAGE_STATUS_PATH."]
      c [prompt="Build."]; start -> a -> b -> c -> exit`,
    );
    expect(ran.path).toBe("start a b c exit");
    const said = project.prompts().map(([, prompt]) => prompt.includes("PERDURE_STATUS_FILE"));
    expect(said).toEqual([true, false, false]);
  });
});

describe("an answer with routing JSON", () => {
  it("counts alone and in a fenced block at the end", async () => {
    const cases: readonly (readonly [string, string])[] = [
      ['{"preferred_next_label": "Fix"}', "fix"],
      ['It is red.\n```json\n{"preferred_label": "fix"}\n```', "fix"],
      ['```json\n{"preferred_label": "fix"}\n```\nThat was an example.', "done"],
      ['The schema is {"preferred_label": "fix"}', "done"],
      ['{"status": "healthy"}', "done"],
    ];
    project.agent('cat "answer-$ATTRACTOR_NODE_ID"');
    const stages = cases.map(([answer], at) => {
      project.write(`answer-a${at}`, answer);
      const next = at + 1 < cases.length ? `a${at + 1}` : "exit";
      return `a${at} [prompt="Go."]; a${at} -> done${at} [label="Ship"]; a${at} -> fix${at} [label="Fix"]
        ${tool(`done${at}`, "true")}; done${at} -> ${next}; ${tool(`fix${at}`, "true")}; fix${at} -> ${next}`;
    });
    const { path } = await project.play(`start -> a0; ${stages.join("\n")}`);
    const taken = cases.map(([, way], at) => `a${at} ${way}${at}`);
    expect(path).toBe(`start ${taken.join(" ")} exit`);
  });

  it("can report a failure, and a file outweighs it", async () => {
    project.agent(`test "$ATTRACTOR_NODE_ID" = a || ${report("status.json", { outcome: "success" })}
      echo '{"outcome": "fail", "failure_reason": "red"}'`);
    const ran = await project.play(`before [prompt="Go."]; a [prompt="Go."] ${ROUTES_BEHIND}`);
    expect(ran.path).toBe("start before a fix exit");
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
    await project.play(
      `${tool("a", retry, "max_retries=1")}; b [prompt="Go."]
      start -> a; a -> exit [condition="outcome=success"]; a -> b [condition="outcome=fail"]; b -> exit`,
    );
    expect(JSON.parse(project.read("logs-2", "a", "status.json"))).toMatchObject({
      outcome: "fail",
      failure_reason: expect.stringContaining("max retries exceeded"),
    });
    expect(JSON.parse(project.read("logs-2", "b", "status.json"))).toMatchObject({
      notes: "Stage completed: b",
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
