/** The edge after a stage: what a success, a partial success and a failure lead to. */
import { mkdirSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DotProject, report, tool } from "./rig.ts";

let project: DotProject;
beforeEach(() => {
  project = new DotProject();
});
afterEach(() => project.remove());

/** A tool that reports this. */
function reports(id: string, json: object): string {
  return tool(id, report("$PERDURE_STATUS_FILE", json));
}

describe("a stage that succeeded without a matching edge", () => {
  it("ends the run, and neither counts as failed nor takes a way of failures", async () => {
    const body = `${tool("a", "true", "goal_gate=true, retry_target=b")} ${tool("b", "true")}
      start -> a; a -> b [condition="outcome=fail"]; a -> exit [condition="context.x=1"]; b -> exit`;
    const ran = await project.play(body);
    expect(ran).toMatchObject({ exit: 3, path: "start a" });
    expect(ran.stdout).toContain("no matching edge");
    expect(ran.checkpoint.perdure).toMatchObject({
      outcomes: { a: "success" },
      goal_gates: { a: "satisfied" },
    });
    expect(ran.checkpoint.context.outcome).toBe("success");
  });

  it("takes the edge for success with a partial one, unless another edge applies", async () => {
    const partly = reports("a", { outcome: "partial_success" });
    const shape = `start -> a; a -> exit [condition="outcome=success"]; a -> b [condition="outcome=fail"]; b -> exit`;
    const ran = await project.play(`${partly} ${tool("b", "true")} ${shape}`);
    expect(ran).toMatchObject({ exit: 0, path: "start a exit" });
    expect(ran.checkpoint.perdure.outcomes.a).toBe("partial_success");
    const diamond = `d [shape=diamond]; start -> a -> d; d -> exit [condition="outcome=success"]; d -> b [condition="outcome=fail"]; b -> exit`;
    expect((await project.play(`${partly} ${tool("b", "true")} ${diamond}`)).path).toBe(
      "start a d exit",
    );
    const other = `start -> a; a -> exit [condition="outcome=success"]; a -> b; b -> exit`;
    expect((await project.play(`${partly} ${tool("b", "true")} ${other}`)).path).toBe(
      "start a b exit",
    );
  });
});

describe("a failure before diamonds", () => {
  const bad = tool("a", "exit 1");

  it("is not swallowed by a diamond that does not ask about it", async () => {
    const body = `${bad} ${tool("skip", "true")} ${tool("deploy", "true")} d [shape=diamond]
      start -> a -> d; d -> skip [condition="context.env=dev"]; d -> deploy; skip -> exit; deploy -> exit`;
    const ran = await project.play(body);
    expect(ran).toMatchObject({ exit: 3, path: "start a" });
    expect(ran.stdout).toContain("it exited with 1");
    const back = body.replace("exit 1", "test -e seen || { touch seen; exit 1; }");
    const again = await project.play(
      back.replace('tool_command="test', 'retry_target=a, tool_command="test'),
    );
    expect(again).toMatchObject({ exit: 0, path: "start a a d deploy exit" });
  });

  it("reaches the diamond that asks about it, one or many", async () => {
    const one = `${bad} ${tool("fix", "true")} d [shape=diamond]; start -> a -> d; fix -> exit`;
    const asked = `d -> exit [condition="outcome=success"]; d -> fix [condition="outcome=fail"]`;
    expect((await project.play(`${one}; ${asked}`)).path).toBe("start a d fix exit");
    const otherwise = `d -> exit [condition="outcome=success"]; d -> fix`;
    expect((await project.play(`${one}; ${otherwise}`)).path).toBe("start a d fix exit");
    const many = `${bad} ${tool("fix", "true")} d [shape=diamond]; d2 [shape=diamond]; d3 [shape=diamond]
      start -> a -> d -> d2 -> d3; fix -> exit
      d3 -> exit [condition="outcome=success"]; d3 -> fix [condition="outcome=fail"]`;
    expect((await project.play(many)).path).toBe("start a d d2 d3 fix exit");
    const explicit = `${bad} ${tool("fix", "true")} d [shape=diamond]; start -> a; a -> exit
      a -> d [condition="outcome=fail"]; d -> fix -> exit`;
    expect((await project.play(explicit)).path).toBe("start a d fix exit");
  });

  it("is a success at a diamond before which nothing ran", async () => {
    const body = `d [shape=diamond]; ${tool("b", "true")}; start -> d; b -> exit
      d -> exit [condition="outcome=fail"]; d -> b [condition="outcome=success"]`;
    expect((await project.play(body)).path).toBe("start d b exit");
  });
});

describe("labels", () => {
  it("that are equal mean the first edge in the file", async () => {
    const body = `${reports("a", { preferred_label: "go" })} ${tool("b", "true")} ${tool("c", "true")}
      start -> a; a -> c [label="Go"]; a -> b [label="[G] go", weight=5]; b -> exit; c -> exit`;
    expect((await project.play(body)).path).toBe("start a c exit");
    const gate = `h [shape=hexagon]; ${tool("b", "true")} ${tool("c", "true")}
      start -> h; h -> c [label="Go"]; h -> b [label="Go"]; b -> exit; c -> exit`;
    expect((await project.play(gate, ["--auto-approve"])).path).toBe("start h c exit");
  });

  it("of another engine's checkpoint choose the edge", async () => {
    const body = `${tool("a", "echo a >> ran")} ${tool("b", "true")} ${tool("c", "true")}
      start -> a; a -> b [label="L"]; a -> c [label="R"]; b -> exit; c -> exit`;
    const file = project.graph(body);
    const foreign = (logs: string, context: object, status?: object): void => {
      mkdirSync(project.path(logs, "a"), { recursive: true });
      const checkpoint = { current_node: "a", completed_nodes: ["start", "a"], context };
      project.write(`${logs}/checkpoint.json`, JSON.stringify(checkpoint));
      if (status !== undefined) project.write(`${logs}/a/status.json`, JSON.stringify(status));
    };
    const cases: readonly (readonly [object, object | undefined, string])[] = [
      [{ outcome: "success", preferred_label: "R" }, undefined, "start a c exit"],
      [{ outcome: "success", preferred_label: "L" }, { preferred_label: "R" }, "start a c exit"],
      [{ outcome: "success" }, { outcome: "success", suggested_next_ids: ["c"] }, "start a c exit"],
      [{ outcome: "success" }, undefined, "start a b exit"],
    ];
    for (const [at, [context, status, path]] of cases.entries()) {
      foreign(`old-${at}`, context, status);
      const result = await project.begin(["resume", "--logs", `old-${at}`, file]).ended;
      expect([at, project.ran(`old-${at}`, result).path]).toEqual([at, path]);
    }
    expect(project.exists("ran")).toBe(false);
  });
});

describe("a gate", () => {
  it("asks again as often as max_retries says when nobody answers", async () => {
    const body = `h [shape=hexagon, label="Go?", timeout="1ms", max_retries=2]; start -> h -> exit`;
    const ran = await project.play(body, ["--stay"]);
    expect(ran.exit).toBe(5);
    expect(ran.stdout.match(/h asks/g)).toHaveLength(3);
  });

  it("without an edge ends the run as failed", async () => {
    const body = `h [shape=hexagon, label="Go?"]; ${tool("a", "true")} start -> a -> exit; a -> h [weight=1]`;
    const ran = await project.play(body, ["--auto-approve"]);
    expect(ran).toMatchObject({ path: "start a h", checkpoint: { perdure: { status: "failed" } } });
    expect(ran.stderr).toContain("warning[gate-choices]");
  });
});

describe("the syntax of conditions", () => {
  const edges = (conditions: readonly string[]): string =>
    `${tool("a", "true")} start -> a
${conditions.map((condition) => `a -> exit [condition="${condition}"]`).join("\n")}\na -> exit`;

  it("is checked in every condition", async () => {
    const wrong = ["outcome = = x", "context.=x", "&& &&", "outcome=success || "];
    const { exit, stderr } = await project.validate(edges(wrong));
    expect(exit).toBe(4);
    // Each has an error, whose place is shown.
    for (const condition of wrong)
      expect(stderr).toContain(`| a -> exit [condition="${condition}"]`);
  });

  it("allows an empty clause at the end, and words with spaces", async () => {
    const right = ["outcome=success && ", "preferred_label=More work needed"];
    expect((await project.validate(edges(right))).exit).toBe(0);
  });
});
