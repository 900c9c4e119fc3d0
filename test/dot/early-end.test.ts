/** Nodes that end before all that they have started: first_success, and managers that watch. */
import { execFileSync } from "node:child_process";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../rig/project.ts";
import { DotProject, report, tool } from "./rig.ts";

let project: DotProject;
beforeEach(() => {
  project = new DotProject();
});
afterEach(() => project.remove());

describe("join_policy=first_success", () => {
  const flow = (slow: string, quick: string): string => `
    f [shape=component, join_policy=first_success]; j [shape=tripleoctagon]
    ${tool("a", slow)} ${tool("a2", "echo a2 >> effects")} ${tool("b", quick)}
    start -> f; f -> a -> a2 -> j; f -> b -> j; j -> exit`;

  it("ends when one branch has succeeded, and stops the others", async () => {
    const hold = project.hold("a");
    const ran = await project.play(flow(hold.command, "true"));
    expect(ran).toMatchObject({ exit: 0, path: "start f j exit" });
    expect(ran.checkpoint.context["parallel.fan_in.best_id"]).toBe("b");
    expect(ran.checkpoint.context["parallel.results"]).toMatchObject([
      { id: "a", outcome: "skipped" },
      { id: "b", outcome: "success" },
    ]);
    expect(project.effects()).toEqual({});
    await eventually("the other branch is dead", () => project.stepProcesses().length === 0);
  });

  it("takes the files of the branch that was enough, and of none that waits behind another", async () => {
    execFileSync("git", ["init", "-q", project.dir]);
    project.write("perdure.yaml", "workspace: here\n");
    const [first, endless] = [project.hold("a"), project.hold("b")];
    const file = project.graph(`
      f [shape=component, join_policy=first_success, workspace=own]; j [shape=tripleoctagon]
      ${tool("a", `${first.command}; echo a > a.txt`)} ${tool("b", endless.command)}
      ${tool("c", "echo c > c.txt")}
      start -> f; f -> a -> j; f -> b -> j; f -> c -> j; j -> exit`);
    const runner = project.begin(["run", file, "--logs", "out"]);
    await endless.arrived();
    await eventually("the third branch has ended", () => project.exists("out", "c", "status.json"));
    await first.release();
    const ran = project.ran("out", await runner.ended);
    expect(ran).toMatchObject({ exit: 0, path: "start f j exit" });
    expect(ran.checkpoint.context["parallel.results"]).toMatchObject([
      { id: "a", outcome: "success" },
      { id: "b", outcome: "skipped" },
      { id: "c", outcome: "skipped" },
    ]);
    expect([project.exists("a.txt"), project.exists("c.txt")]).toEqual([true, false]);
  });

  it("does so after a kill, and takes a failure for none", async () => {
    const [slow, quick] = [project.hold("a"), project.hold("b")];
    const file = project.graph(flow(slow.command, quick.command));
    const runner = project.begin(["run", file, "--logs", "out"]);
    await slow.arrived();
    await quick.arrived();
    await runner.kill("SIGKILL");
    const resumed = project.begin(["resume"]);
    await quick.release();
    expect(project.ran("out", await resumed.ended)).toMatchObject({
      exit: 0,
      path: "start f j exit",
    });
    const other = await project.play(flow("true", "exit 1"));
    expect(other.checkpoint.context["parallel.fan_in.best_id"]).toBe("a");
    expect(project.effects()).toEqual({ a2: 1 });
  });
});

describe("a manager", () => {
  const child = (body: string): void => {
    project.graph(body, "child.dot");
  };
  const flow = (settings: string): string =>
    `m [shape=house, stack.child_dotfile="child.dot", ${settings}]; ${tool("b", "true")}
     start -> m; m -> exit [condition="outcome=success"]; m -> b [condition="outcome=fail"]; b -> exit`;

  it("fails when its cycles are used up, and its child is stopped", async () => {
    const hold = project.hold("a");
    child(`${tool("a", hold.command)}; start -> a -> exit`);
    const ran = await project.play(flow("manager.poll_interval=50ms, manager.max_cycles=2"));
    expect(ran).toMatchObject({ exit: 0, path: "start m b exit" });
    expect(ran.checkpoint.perdure.outcomes.m).toBe("fail");
    await eventually("the child is dead", () => project.stepProcesses().length === 0);
  });

  it("succeeds when its stop condition is true, and no further stage starts", async () => {
    const note = report("$PERDURE_STATUS_FILE", { context_updates: { enough: "yes" } });
    child(`${tool("a", note)}; ${tool("c", "echo c >> effects")} start -> a -> c -> exit`);
    const ran = await project.play(flow('manager.stop_condition="context.enough=yes"'));
    expect(ran).toMatchObject({ exit: 0, path: "start m exit" });
    expect(project.effects()).toEqual({});
    expect(ran.checkpoint.context["stack.child.outcome"]).toBe("success");
  });

  it("counts its cycles across a kill", async () => {
    const hold = project.hold("a");
    child(`${tool("a", hold.command)}; start -> a -> exit`);
    const file = project.graph(flow("manager.poll_interval=1s, manager.max_cycles=3"));
    const runner = project.begin(["run", file, "--logs", "out"]);
    await hold.arrived();
    await runner.kill("SIGKILL");
    const ran = project.ran("out", await project.begin(["resume"]).ended);
    expect(ran).toMatchObject({ exit: 0, path: "start m b exit" });
  });

  it("takes the end of its child for its own", async () => {
    child(`${tool("a", "exit 1")}; start -> a -> exit`);
    expect((await project.play(flow("manager.max_cycles=9"))).path).toBe("start m b exit");
    child(`${tool("a", "true")}; start -> a -> exit`);
    expect((await project.play(flow("manager.max_cycles=9"))).path).toBe("start m exit");
  });
});

describe("a goal gate in a branch", () => {
  const flow = (gate: string, target: string): string => `
    f [shape=component]; j [shape=tripleoctagon]
    ${tool("tests", gate, `goal_gate=true${target}`)} ${tool("b", "true")}
    start -> f; f -> tests -> j; f -> b -> j; j -> exit`;

  it("sends the run back to its retry target until it is satisfied", async () => {
    const ran = await project.play(
      flow("test -e seen || { touch seen; exit 1; }", ", retry_target=f"),
    );
    expect(ran).toMatchObject({ exit: 0, path: "start f j f j exit" });
    expect(ran.checkpoint.perdure.goal_gates).toEqual({ tests: "satisfied" });
  });

  it("ends with the limit of its node, and when it fails in the same way again and again", async () => {
    const limited = `f [shape=component]; j [shape=tripleoctagon]
      ${tool("tests", "echo $RANDOM$$ >> n; wc -l < n; cat n; exit 1", "goal_gate=true, retry_target=f, max_visits=2")}
      ${tool("b", "true")} start -> f; f -> tests -> j; f -> b -> j; j -> exit`;
    const visits = async (body: string): Promise<number> => {
      const ran = await project.play(body);
      expect(ran.exit).toBe(3);
      return ran.path.split(" ").filter((node) => node === "f").length;
    };
    expect(await visits(limited)).toBe(2);
    const settings = "stall_after=3;";
    expect(await visits(`${settings} ${flow("echo red; exit 1", ", retry_target=f")}`)).toBe(3);
  });

  it("fails the run without a target", async () => {
    const ran = await project.play(flow("exit 1", ""));
    expect(ran).toMatchObject({ exit: 3, path: "start f j exit" });
    expect(ran.checkpoint.perdure.goal_gates).toEqual({ tests: "unsatisfied" });
  });

  it("that was not visited does not count", async () => {
    const body = `f [shape=component]; j [shape=tripleoctagon]
      ${tool("a", "true")} ${tool("gate", "exit 1", "goal_gate=true")} ${tool("b", "true")}
      start -> f; f -> a; a -> j [condition="outcome=success"]; a -> gate [condition="outcome=fail"]
      gate -> j; f -> b -> j; j -> exit`;
    expect((await project.play(body)).exit).toBe(0);
  });
});
