/** What each kind of node does: diamonds, gates, fan-ins and timers, and what is refused. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DotProject, report, tool } from "./rig.ts";

let project: DotProject;
beforeEach(() => {
  project = new DotProject();
});
afterEach(() => project.remove());

it("reports every node that cannot work, and a second exit", async () => {
  const wrong = await project.validate(
    `a [shape=parallelogram, tool_comand="make"]; b [shape=house]; c [shape=insulator]
    start -> a -> b -> c -> exit`,
  );
  expect(wrong.exit).toBe(4);
  for (const rule of ["tool-command", "manager-child", "wait-duration"]) {
    expect(wrong.stderr).toContain(`error[${rule}]`);
  }
  const { exit, stderr } = await project.validate(
    "end [shape=Msquare]; a [prompt=x]; start -> a -> exit; a -> end",
  );
  expect([exit, stderr]).toEqual([4, expect.stringContaining("error[terminal_node]")]);
});

describe("a diamond with a prompt", () => {
  it("asks an agent, whose outcome it has", async () => {
    project.agent(report("$PERDURE_STATUS_FILE", { outcome: "fail" }));
    const body = `${tool("a", "true")} ${tool("fix", "true")} d [shape=diamond, prompt="Is it good?"]
      start -> a -> d; d -> exit [condition="outcome=success"]; d -> fix [condition="outcome=fail"]; fix -> exit`;
    expect((await project.play(body)).path).toBe("start a d fix exit");
    expect(project.prompts()).toEqual([["d", expect.stringContaining("Is it good?")]]);
  });
});

describe("a gate", () => {
  const ask = async (body: string): Promise<void> => {
    expect((await project.begin(["run", project.graph(body), "--logs", "out"]).ended).exit).toBe(6);
  };
  const answer = async (...words: string[]): Promise<string> => {
    const [id = ""] = await project.runIds();
    const given = await project.begin(["answer", id, "h", ...words]).ended;
    expect([given.exit, given.stderr]).toEqual([0, ""]);
    return project.ran("out", await project.begin(["resume"]).ended).path;
  };

  it("shows its prompt, takes a text where the file wants one, and keeps it in the context", async () => {
    await ask(
      `h [shape=hexagon, label="Which?", prompt="Read the report first.", mode=freeform]
      ${tool("a", "true")} start -> h -> a -> exit`,
    );
    const { stdout } = await project.begin(["answer", await project.newestId()]).ended;
    expect(stdout).toContain("Which?");
    expect(stdout).toContain("Read the report first.");
    expect(await answer("the blue one")).toBe("start h a exit");
    const { checkpoint } = project.ran("out", { exit: 0, signal: null, stdout: "", stderr: "" });
    expect(checkpoint.context["human.gate.text"]).toBe("the blue one");
  });

  it("sends words that are no choice along the edge for them", async () => {
    const body = `h [shape=hexagon, label="Good?"]; ${tool("a", "true")} ${tool("b", "true")}
      start -> h; h -> a [label="[Y] Yes"]; h -> b [label="Other", freeform=true]; a -> exit; b -> exit`;
    await ask(body);
    expect(await answer("make it red")).toBe("start h b exit");
  });

  it("answers yes and no as success and failure", async () => {
    const body = `h [shape=hexagon, label="Good?", mode=yes_no]; ${tool("a", "true")} ${tool("b", "true")}
      start -> h; h -> a [condition="outcome=success"]; h -> b [condition="outcome=fail"]; a -> exit; b -> exit`;
    await ask(body);
    expect(await answer("no")).toBe("start h b exit");
    await project.begin(["run", project.graph(body), "--logs", "yes", "--auto-approve"]).ended;
    const { path } = project.ran("yes", { exit: 0, signal: null, stdout: "", stderr: "" });
    expect(path).toBe("start h a exit");
  });
});

describe("a fan-in with a prompt", () => {
  const body = `f [shape=component]; j [shape=tripleoctagon, prompt="Which is better?"]
    ${tool("a", "true")} ${tool("b", "true")} start -> f; f -> a -> j; f -> b -> j; j -> exit`;

  it("tells the agent how to name a branch, and records it", async () => {
    const named = { context_updates: { "parallel.fan_in.best_id": "b" } };
    const answers = [
      report("$PERDURE_STATUS_FILE", named),
      "printf 'The second.\\nb'",
      "echo Either.",
    ];
    const picked: unknown[] = [];
    for (const script of answers) {
      project.agent(script);
      const { checkpoint } = await project.play(body);
      picked.push(checkpoint.context["parallel.fan_in.best_id"]);
      expect(checkpoint.context["parallel.fan_in.best_outcome"]).toBe("success");
    }
    expect(picked).toEqual(["b", "b", "a"]);
    expect(project.prompts()[0]?.[1]).toContain("parallel.fan_in.best_id");
  });
});

describe("a kill between two attempts of a tool", () => {
  it.each([false, true])("keeps the attempts that were used (stages killed: %s)", async (all) => {
    const body = `${tool("a", "echo a >> effects; exit 1", "max_retries=2, retry_policy=linear")}
      start -> a -> exit`;
    const runner = project.begin(["run", project.graph(body), "--logs", "out"]);
    await runner.printed(/a failed.*|↻ a/);
    await runner.kill("SIGKILL");
    if (all) await project.killSteps();
    const ran = project.ran("out", await project.begin(["resume"]).ended);
    expect([ran.exit, project.effects()]).toEqual([3, { a: 3 }]);
    expect(ran.checkpoint.node_retries).toEqual({ a: 2 });
  });
});

describe("a timer", () => {
  it("waits, whatever its kind is called", async () => {
    const kinds = ["shape=insulator", "type=wait", "type=timer"];
    const timers = kinds.map((kind, at) => `w${at} [${kind}, duration="1ms"]`);
    const body = `${timers.join("; ")}; ${tool("a", "true")} start -> w0 -> w1 -> w2 -> a -> exit`;
    const ran = await project.play(body, ["--stay"]);
    expect(ran).toMatchObject({ exit: 0, path: "start w0 w1 w2 a exit", stderr: "" });
    expect(project.prompts()).toEqual([]);
  });

  it("goes on waiting after a kill, and the stages before it run once", async () => {
    const body = `w [shape=insulator, duration="1s"]; ${tool("a", "echo a >> effects")} start -> a -> w -> exit`;
    const runner = project.begin(["run", project.graph(body), "--logs", "out", "--stay"]);
    await runner.printed("w ");
    await runner.kill("SIGKILL");
    const ran = project.ran("out", await project.begin(["resume", "--stay"]).ended);
    expect(ran).toMatchObject({ exit: 0, path: "start a w exit" });
    expect(project.effects()).toEqual({ a: 1 });
  });
});
