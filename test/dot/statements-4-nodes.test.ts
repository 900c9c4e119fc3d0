/** What each kind of node does: chapters 4 and 6 of the specification, and 11.6. */
import { describe, expect } from "vitest";
import { approvingChoice } from "../../src/core/attempt/gate.ts";
import { waitsFor } from "../../src/core/graph/visit-state.ts";
import { bad, ok } from "../core/play.ts";
import {
  answers,
  decided,
  found,
  graph,
  lowered,
  planOf,
  says,
  statement,
  stepIn,
  tools,
  type Walk,
  walk,
} from "./statement.ts";

const fail = says({ outcome: "fail" });

describe("agents", () => {
  statement("4.5", "a simulated stage answers with its name, and succeeds", () => {
    const walked = walk(
      "a [prompt=x]; start -> a -> exit",
      {},
      { reading: { simulate: "agents" } },
    );
    expect(walked.outcomes.a).toBe("success");
    expect(walked.context.last_response).toBe("[Simulated] Response for stage: a");
  });
  decided("4.5", "simulation", "a simulated stage fails where only that ends a loop", () => {
    const body = `a [prompt=x]; b [prompt=x]; start -> a -> b; b -> a [condition="outcome=success"]
      b -> exit [condition="outcome=fail"]`;
    const walked = walk(body, {}, { reading: { simulate: "agents" } });
    expect(walked).toMatchObject({ status: "completed", path: "start a b a b exit" });
  });
  statement("4.5", "last_response is the first 200 characters of the answer", () => {
    const walked = walk("a [prompt=x]; start -> a -> exit", { a: answers("x".repeat(500)) });
    expect(walked.context).toMatchObject({ last_stage: "a", last_response: "x".repeat(200) });
  });
  statement("4.5", "a backend that is missing is a failure with an edge", () => {
    const body = `a [prompt=x]; ${tools("b")} start -> a -> exit; a -> b [condition="outcome=fail"]
      b -> exit`;
    const missing = { how: "not-started", reason: "spawn", message: "no such program" } as const;
    expect(walk(body, { a: missing }).path).toBe("start a b exit");
  });
});

describe("tools", () => {
  statement("4.10", "the command is run as it is written", () => {
    const text = graph(
      'a [shape=parallelogram, tool_command="echo $HOME $goal"]; start -> a -> exit',
    );
    expect(stepIn(planOf(text), "a").work).toEqual({ kind: "shell", run: "echo $HOME $goal" });
  });
  statement("4.10", "one that exceeds its timeout fails, and an edge for failures follows", () => {
    const body = `${tools("a[timeout=1s] b")} start -> a -> exit; a -> b [condition="outcome=fail"]
      b -> exit`;
    const late = { how: "timed-out", limit: "timeout", message: "late" } as const;
    expect(walk(body, { a: late }).path).toBe("start a b exit");
  });
  decided("4.10", "nodes without work", "a tool without a command is an error", () => {
    const text = graph("a [shape=parallelogram, tool_comand=make]; start -> a -> exit");
    expect(found(text)).toContain("error[tool-command]");
  });
  decided("C", "`auto_status`", "it changes nothing, and is named", () => {
    const body = `${tools("a[auto_status=true]")} start -> a -> exit`;
    expect(found(graph(body))).toEqual(["warning[unsupported]"]);
    expect(walk(body, { a: bad }).outcomes.a).toBe("fail");
  });
  statement("4.12", "a type of its own is run by the command that is registered for it", () => {
    const text = graph("a [type=deploy, zone=x]; start -> a -> exit");
    const plan = planOf(text, { handlers: { deploy: "./deploy.sh" } });
    expect(stepIn(plan, "a").work).toEqual({ kind: "shell", run: "./deploy.sh" });
  });
});

const FORK = "f [shape=component]; j [shape=tripleoctagon]; start -> f; j -> exit";

describe("branches", () => {
  const two = `${FORK}; ${tools("a b")} f -> a -> j; f -> b -> j`;
  const results = (walked: Walk): unknown => walked.context["parallel.results"];

  statement("4.8", "they run at the same time", () => {
    const { play } = walk(two);
    const starts = play.events.findIndex((one) => one.type === "step.started" && one.step === "b");
    const ends = play.events.findIndex((one) => one.type === "step.completed" && one.step === "a");
    expect(starts).toBeLessThan(ends);
  });
  statement("4.8", "max_parallel=1 runs one after the other", () => {
    const { play } = walk(two.replace("component", "component, max_parallel=1"));
    const starts = play.events.findIndex((one) => one.type === "step.started" && one.step === "b");
    const ends = play.events.findIndex((one) => one.type === "step.completed" && one.step === "a");
    expect(starts).toBeGreaterThan(ends);
  });
  statement("4.8", "all edges of a component are followed, whatever their conditions are", () => {
    const edges = `f -> a [condition="outcome=fail"]; a -> j; f -> b [label=x, weight=3]; b -> j`;
    const walked = walk(`${FORK}; ${tools("a b")} ${edges}`);
    expect(results(walked)).toMatchObject([{ id: "a" }, { id: "b" }]);
  });
  statement("4.8", "parallel.results has the end of each", () => {
    expect(results(walk(two, { b: bad }))).toMatchObject([
      { id: "a", outcome: "success" },
      { id: "b", outcome: "fail" },
    ]);
  });
  statement("4.8", "each has a copy of the context", () => {
    const body = `${two.replace("start -> f", "")} ${tools("s x")} start -> s -> f
      a -> x [condition="context.k=v"]; x -> j`;
    const walked = walk(body, { s: ok({ k: "v" }) });
    expect(walked.attempts("x")).toBe(1);
  });
  statement("3.8", "what a branch writes to the context stays in it", () => {
    const walked = walk(two, { a: ok({ mine: "1" }) });
    expect(walked.context).not.toHaveProperty("mine");
    expect(results(walked)).toMatchObject([{ context: { mine: "1" } }, {}]);
  });
  statement("4.8", "wait_all with a failure is a partial success, and the run continues", () => {
    const walked = walk(two, { b: bad });
    expect(walked).toMatchObject({ status: "completed", path: "start f j exit" });
    expect(walked.outcomes.f).toBe("partial_success");
  });
  statement("4.8", "wait_all without a success is a partial success, too; the fan-in fails", () => {
    const walked = walk(two, { a: bad, b: bad });
    expect(walked).toMatchObject({
      status: "failed",
      outcomes: { f: "partial_success", j: "fail" },
    });
  });
  statement("4.8", "first_success without a success fails", () => {
    const walked = walk(two.replace("component", "component, join_policy=first_success"), {
      a: bad,
      b: bad,
    });
    expect(walked).toMatchObject({ status: "failed", outcomes: { f: "fail" } });
  });
  statement("4.8", "a branch has retries and edges for failures", () => {
    const body = `${FORK}; ${tools("a[max_retries=1] b x")} f -> a -> j; f -> b -> j
      b -> x [condition="outcome=fail"]; x -> j`;
    const walked = walk(body, { a: [bad, ok()], b: fail });
    expect(results(walked)).toMatchObject([{ outcome: "success" }, { outcome: "success" }]);
    expect([walked.attempts("a"), walked.attempts("x")]).toEqual([2, 1]);
  });
  statement("4.8", "a branch may have branches", () => {
    const inner = `g [shape=component]; k [shape=tripleoctagon]; g -> c -> k; g -> d -> k; k -> j`;
    const walked = walk(`${FORK}; ${tools("a c d")} f -> a -> j; f -> g; ${inner}`);
    expect(walked).toMatchObject({ status: "completed", path: "start f j exit" });
    expect([walked.attempts("c"), walked.attempts("d")]).toEqual([1, 1]);
  });
  statement("4.8", "without a fan-in, what follows the place where they meet runs once", () => {
    const body = `f [shape=component]; ${tools("a b c")} start -> f; f -> a -> c; f -> b -> c; c -> exit`;
    const walked = walk(body);
    expect(walked).toMatchObject({ status: "completed", path: "start f c exit" });
    expect(walked.attempts("c")).toBe(1);
  });
  statement("3.4", "a goal gate in a branch that is missed keeps the run from its exit", () => {
    const body = `${FORK}; ${tools("a[goal_gate=true, retry_target=f] b")} f -> a -> j; f -> b -> j`;
    const walked = walk(body, { a: [bad, ok()] });
    expect(walked.status).toBe("completed");
    expect(walked.attempts("a")).toBe(2);
    expect(walk(body.replace(", retry_target=f", ""), { a: bad }).status).toBe("failed");
  });
  statement("4.8", "first_success ends as soon as one has succeeded", () => {
    const walked = walk(two.replace("component", "component, join_policy=first_success"));
    expect(walked).toMatchObject({ status: "completed", path: "start f j exit" });
    expect([walked.attempts("a"), walked.attempts("b")]).toEqual([1, 0]);
    expect(results(walked)).toMatchObject([{ outcome: "success" }, { outcome: "skipped" }]);
  });
});

describe("fan-ins", () => {
  const best = (script: Parameters<typeof walk>[1]): unknown =>
    walk(`${FORK}; ${tools("a b")} f -> a -> j; f -> b -> j`, script).context[
      "parallel.fan_in.best_id"
    ];

  statement("4.9", "without parallel.results it fails", () => {
    const walked = walk("j [shape=tripleoctagon]; start -> j -> exit");
    expect(walked).toMatchObject({ status: "failed", outcomes: { j: "fail" } });
  });
  statement("4.9", "a success comes before a partial success", () => {
    expect(best({ a: says({ outcome: "partial_success" }) })).toBe("b");
  });
  statement("4.9", "then the larger score", () => {
    expect(best({ a: ok({ score: 1 }), b: ok({ score: 2 }) })).toBe("b");
  });
  statement("4.9", "then the first id", () => {
    expect(best({})).toBe("a");
  });
  statement("4.9", "with a prompt an agent gets the results", () => {
    const text = graph(`${FORK.replace("octagon]", "octagon, prompt=Which]")}; ${tools("a b")}
      f -> a -> j; f -> b -> j`);
    const { work } = stepIn(planOf(text), "j");
    expect(work.kind === "agent" ? work.prompt : "").toContain("parallel.results");
  });
});

describe("gates", () => {
  const review = (more = ""): string =>
    `h [shape=hexagon, label="Review?"${more}]; ${tools("ship fix")} start -> h
     h -> ship [label="[A] Approve"]; h -> fix [label="[F] Fix"]; ship -> exit; fix -> exit`;

  statement(
    "4.6",
    "without an answer the run waits; the question has text, keys and labels",
    () => {
      const walked = walk(review());
      expect(walked.path).toBe("start");
      expect(walked.events("step.asked")).toMatchObject([
        { question: "Review?", choices: [{ key: "A" }, { key: "F" }] },
      ]);
    },
  );
  for (const answer of ["F", "f", "Fix", "fix", "[F] Fix"]) {
    statement("4.6", `the answer ${answer} chooses the edge "[F] Fix"`, () => {
      expect(walk(review(), { h: answer }).path).toBe("start h fix exit");
    });
  }
  for (const [written, key] of [
    ["Y) Yes", "Y"],
    ["Y - Yes", "Y"],
    ["[Y] Yes", "Y"],
    ["Yes", "Y"],
  ] as const) {
    statement("4.6", `the key of "${written}" is ${key}`, () => {
      const body = `h [shape=hexagon]; ${tools("a")} start -> h; h -> exit [label="${written}"]
        h -> a [label="No"]; a -> exit`;
      expect(walk(body).events("step.asked")[0]?.choices[0]?.key).toBe(key);
      expect(walk(body, { h: key }).path).toBe("start h exit");
    });
  }
  statement("4.6", "an edge without a label is labelled with its target", () => {
    const body = `h [shape=hexagon]; ${tools("ship fix")} start -> h; h -> ship -> exit; h -> fix -> exit`;
    expect(walk(body, { h: "fix" }).path).toBe("start h fix exit");
  });
  statement("4.6", "human.gate.selected is the key of the choice", () => {
    expect(walk(review(), { h: "Fix" }).context["human.gate.selected"]).toBe("F");
  });
  decided("11.6", "gates", "preferred_label and suggested_next_ids are both set", () => {
    const status = walk(review(), { h: "Fix" }).statusOf("h");
    expect(status).toMatchObject({ preferred_label: "Fix", suggested_next_ids: ["fix"] });
  });
  decided("4.6", "answers", "an answer that is no choice is refused", () => {
    expect(() => walk(review(), { h: "maybe" })).toThrow('there is no choice "maybe"');
  });
  decided("4.6", "gates", "a choice whose edge is for failures makes the gate fail", () => {
    const body = `h [shape=hexagon]; ${tools("a b")} start -> h; a -> exit; b -> exit
      h -> a [label="Yes", condition="outcome=success"]; h -> b [label="No", condition="outcome=fail"]`;
    expect(walk(body, { h: "No" })).toMatchObject({
      path: "start h b exit",
      outcomes: { h: "fail" },
    });
    expect(walk(body, { h: "Yes" }).path).toBe("start h a exit");
  });
  statement("6.5", "after the timeout human.default_choice counts", () => {
    const walked = walk(review(', timeout=1s, human.default_choice="fix"'));
    expect(walked.path).toBe("start h fix exit");
  });
  statement("4.6", "without a default the timeout is a retry: it asks again, then it fails", () => {
    const walked = walk(review(", timeout=1s, max_retries=2"));
    expect(walked.events("step.asked")).toHaveLength(3);
    expect(walked).toMatchObject({ status: "failed", outcomes: { h: "fail" } });
    const once = walk(review(", timeout=1s"));
    expect(once.events("step.asked")).toHaveLength(1);
    expect(once.outcomes.h).toBe("fail");
  });
  statement("4.6", "a gate without edges fails", () => {
    const body = `${tools("a")} h [shape=hexagon]; start -> a -> exit; a -> h [weight=1]`;
    expect(walk(body, { h: "S" })).toMatchObject({ status: "failed", outcomes: { h: "fail" } });
  });
  decided("4.6", "answers", "human.gate.label is the label without its key", () => {
    expect(walk(review(), { h: "Fix" }).context["human.gate.label"]).toBe("Fix");
  });
  statement("6.4", "auto-approve takes the first choice, whatever its label is", () => {
    const body = `h [shape=hexagon]; ${tools("redo ship")} start -> h; redo -> exit; ship -> exit
      h -> redo [label="Reject"]; h -> ship [label="Approve"]`;
    const [asked] = walk(body).play.run.waiting.person;
    const choices = waitsFor(asked?.state, "person") ? asked.state.choices : [];
    expect(approvingChoice(choices)?.label).toBe("Reject");
  });
});

describe("managers", () => {
  const child = graph(`${tools("w")} start -> w -> exit`);
  const manager = (more = ""): string =>
    `"stack.child_dotfile"="c.dot"; m [shape=house${more}]; start -> m -> exit`;
  const managed = (more: string, script: Parameters<typeof walk>[1]): Walk =>
    walk(manager(more), script, { others: { "c.dot": child } });

  statement("4.11", "it runs the child of the graph, and its success is its own", () => {
    const walked = managed("", {});
    expect(walked).toMatchObject({ status: "completed", path: "start m exit" });
    expect(walked.attempts("w")).toBe(1);
  });
  statement("4.11", "stack.child.status and stack.child.outcome are in the context", () => {
    expect(managed("", {}).context).toMatchObject({
      "stack.child.status": "completed",
      "stack.child.outcome": "success",
    });
  });
  statement("4.11", "a child that fails makes it fail", () => {
    expect(managed("", { w: bad })).toMatchObject({ status: "failed", outcomes: { m: "fail" } });
  });
  statement("4.11", "stack.child_autostart=false does not start the child", () => {
    expect(managed(', "stack.child_autostart"=false', {}).attempts("w")).toBe(0);
  });
  statement("4.11", "when its cycles are used up, it fails", () => {
    const hanging = 'm2 [shape=hexagon, label="?"]; start -> m2 -> exit';
    const limits = ', "manager.max_cycles"=3, "manager.poll_interval"=1s';
    const walked = walk(manager(limits), {}, { others: { "c.dot": graph(hanging) } });
    expect(walked).toMatchObject({ status: "failed", outcomes: { m: "fail" } });
  });
  statement("4.11", "when manager.stop_condition is true, it succeeds", () => {
    const long = graph(`${tools("w v")} start -> w -> v -> exit`);
    const body = manager(', "manager.stop_condition"="context.enough=yes"');
    const walked = walk(body, { w: ok({ enough: "yes" }) }, { others: { "c.dot": long } });
    expect(walked).toMatchObject({ status: "completed", outcomes: { m: "success" } });
    expect(walked.attempts("v")).toBe(0);
  });
  statement("4.11", "steer sends its instructions to the agents of its child", () => {
    const steers = ', "manager.actions"="observe,steer", prompt="Be quick, $goal"';
    const plan = planOf(graph(manager(steers)), {}, { "c.dot": child });
    const { work } = stepIn(plan, "m");
    // test/dot/steering.test.ts shows it.
    expect(work.kind === "pipeline" && work.watch?.steer).toEqual({
      says: "Be quick, The goal",
      everyMs: 45_000,
    });
  });
  decided("4.11", "nodes without work", "a manager without a child is an error", () => {
    expect(found(graph("m [shape=house]; start -> m -> exit"))).toContain("error[manager-child]");
  });
  statement("A", "stack.child_workdir is the directory of the child", () => {
    const plan = planOf(graph(`"stack.child_workdir"="sub"; ${manager()}`), {}, { "c.dot": child });
    const { work } = stepIn(plan, "m");
    const inner = work.kind === "pipeline" ? work.graph.steps : [];
    expect(inner.find(({ id }) => id === "w")?.cwd).toBe("sub");
  });
});

describe("prompts", () => {
  decided("4.7", "diamond with a prompt", "a diamond with a prompt asks an agent", () => {
    const body = `d [shape=diamond, prompt="Is it good?"]; ${tools("fix")} start -> d; fix -> exit
      d -> exit [condition="outcome=success"]; d -> fix [condition="outcome=fail"]`;
    expect(stepIn(planOf(graph(body)), "d").work).toMatchObject({ kind: "agent" });
    expect(walk(body, { d: fail }).path).toBe("start d fix exit");
  });
  decided("4.6", "gates", "the question of a gate has its prompt", () => {
    const body = 'h [shape=hexagon, label="Ship?", prompt="Read this."]; start -> h -> exit';
    expect(walk(body).events("step.asked")[0]?.question).toBe("Ship?\n\nRead this.");
  });
  statement("4.9", "a fan-in with a prompt records the branch that its agent names", () => {
    const body = `${FORK.replace("octagon]", 'octagon, prompt="Which?"]')}; ${tools("a b")}
      f -> a -> j; f -> b -> j`;
    const picked = walk(body, { j: answers("The second.\nb") }).context;
    expect(picked).toMatchObject({
      "parallel.fan_in.best_id": "b",
      "parallel.fan_in.best_outcome": "success",
    });
  });
});

describe("hooks", () => {
  statement("9.7", "hooks for an agent that has none are named", () => {
    const hook = 'a [prompt=x, llm_provider=openai, "tool_hooks.pre"=y]; start -> a -> exit';
    expect(found(graph(hook))).toContain("warning[unsupported]");
  });
  statement("9.7", "they are for the tool calls of an agent; on a tool node they are named", () => {
    const { diagnostics } = lowered(graph(`${tools('a["tool_hooks.pre"=y]')} start -> a -> exit`));
    expect(diagnostics[0]?.message).toContain("hooks are for the tool calls of an agent");
  });
});
