/**
 * Statements that need real shells and files: the files by which a stage reports (4.5 and appendix
 * C), the output of tools, and the run directory (5.3 to 5.6, 9.6). One graph has a stage for each
 * of them; it runs once, and the tests read what is left.
 */
import { copyFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { isObject, type Json, type JsonObject } from "../../src/util/json.ts";
import { DotProject, type Ran, report, tool } from "./rig.ts";
import { decided, statement } from "./statement.ts";

const PLACES = {
  logs: "$ATTRACTOR_LOGS_ROOT/$ATTRACTOR_NODE_ID/status.json",
  stage: "$ATTRACTOR_STAGE_DIR/status.json",
  here: "status.json",
  named: "$PERDURE_STATUS_FILE",
} as const;

/** What a stage writes as its outcome, and what is recorded. */
const WORDS: readonly (readonly [Json, string])[] = [
  ["success", "success"],
  ["SUCCESS", "success"],
  ["Partial_Success", "partial_success"],
  ["fail", "fail"],
  ["FAIL", "fail"],
  ["Failed", "fail"],
  ["failure", "fail"],
  ["error", "fail"],
  ["RETRY", "fail"],
  ["wat", "wat"],
  [null, "success"],
  [true, "fail"],
  [5, "fail"],
];

const LONG = "x".repeat(500);
const AGENT = `case $ATTRACTOR_NODE_ID in
  agent_*) eval "echo '{\\"outcome\\": \\"fail\\"}' > \\"$(cat place.$ATTRACTOR_NODE_ID)\\"" ;;
  speaks) echo '${LONG}' ;;
esac`;

const RETRY = report("$PERDURE_STATUS_FILE", { outcome: "retry" });
/** Prints 150,000 characters. */
const MANY = "head -c 150000 /dev/zero | tr '\\0' x";
const VALUE = '{"context_updates": {"large": "%s"}}';

/** Stages in a row, each of which is followed by the next one whatever its outcome is. */
function chain(ids: readonly string[]): string {
  const edges = ids.map((id, at) => `${id} -> ${ids[at + 1] ?? "exit"} [condition="outcome!=no"];`);
  return `start -> ${ids[0]}; ${edges.join(" ")}`;
}

let project: DotProject;
let ran: Ran;

function json(...path: readonly string[]): JsonObject {
  const read = JSON.parse(project.read("logs", ...path)) as Json;
  if (!isObject(read)) throw new Error(`${path.join("/")} is no object`);
  return read;
}

const outcome = (node: string): unknown => json(node, "status.json").outcome;

beforeAll(async () => {
  project = new DotProject();
  project.agent(AGENT);
  const words = WORDS.map(([word], at) => {
    return tool(`word_${at}`, report("$PERDURE_STATUS_FILE", { outcome: word }));
  });
  const places = Object.entries(PLACES).flatMap(([id, place]) => {
    project.write(`place.agent_${id}`, place);
    return [tool(`tool_${id}`, report(place, { outcome: "fail" })), `agent_${id} [prompt=x]`];
  });
  const others = [
    tool("broken", "echo '{outcome' > $PERDURE_STATUS_FILE"),
    tool("synthetic", "exit 7", "auto_status=true"),
    'speaks [prompt="Say it."]',
    tool("prints", "echo one; echo two; echo oops >&2"),
    tool("retried", `test -e seen || { touch seen; ${RETRY}; }`, "max_retries=1"),
    tool(
      "large",
      `${MANY} > many; cat many; printf '${VALUE}' "$(cat many)" > $PERDURE_STATUS_FILE`,
    ),
  ];
  const nodes = [...words, ...places, ...others];
  const ids = nodes.map((node) => node.split(" ", 1)[0] ?? "");
  const branches = `f [shape=component]; j [shape=tripleoctagon]; ${tool("b1", "true")}
    ${tool("b2", "true")} f -> b1 -> j; f -> b2 -> j`;
  const body = `${nodes.join("\n")}\n${branches}\n${chain([...ids, "f"])} j -> exit`;
  const file = project.graph(body.replace('f -> exit [condition="outcome!=no"];', ""));
  const result = await project.begin(["run", file, "--logs", "logs"]).ended;
  ran = project.ran("logs", result);
  expect([result.exit, ran.checkpoint.perdure.status]).toEqual([0, "completed"]);
});
afterAll(() => project.remove());

describe("the report of a stage", () => {
  for (const [id, place] of Object.entries(PLACES)) {
    for (const who of ["tool", "agent"]) {
      statement("4.5", `is read from ${place}, where the ${who} wrote it`, () => {
        expect(outcome(`${who}_${id}`)).toBe("fail");
      });
    }
  }
  statement("C", "does not stay in the directory of the work", () => {
    expect(project.exists("status.json")).toBe(false);
  });
  for (const [at, [written, means]] of WORDS.entries()) {
    statement("C", `with the outcome ${JSON.stringify(written)} means ${means}`, () => {
      expect(outcome(`word_${at}`)).toBe(means);
    });
  }
  statement("C", "that is no JSON is a failure", () => {
    expect(outcome("broken")).toBe("fail");
  });
  decided("C", "`auto_status`", "a tool that exits with 7 and has auto_status fails", () => {
    expect(outcome("synthetic")).toBe("fail");
  });
});

describe("the run directory", () => {
  statement("4.5", "prompt.md is exactly what the agent got", () => {
    const [, prompt] = project.prompts().find(([node]) => node === "speaks") ?? [];
    expect(project.read("logs", "speaks", "prompt.md")).toBe(prompt);
  });
  statement("4.5", "response.md is the whole answer", () => {
    expect(project.read("logs", "speaks", "response.md")).toBe(LONG);
  });
  statement("4.5", 'the notes of an agent that completed are "Stage completed: ID"', () => {
    expect(json("speaks", "status.json").notes).toBe("Stage completed: speaks");
  });
  statement("5.6", "every node has a status.json with the fields of the language", () => {
    for (const node of new Set(ran.checkpoint.completed_nodes)) {
      expect(Object.keys(json(node, "status.json"))).toEqual(
        expect.arrayContaining([
          "outcome",
          "preferred_label",
          "suggested_next_ids",
          "context_updates",
          "notes",
        ]),
      );
    }
  });
  statement("5.6", "manifest.json has name, goal and start time", () => {
    expect(json("manifest.json")).toMatchObject({
      name: "g",
      goal: "The goal",
      start_time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    });
  });
  statement("4.10", "tool.output is what the tool printed", () => {
    expect(json("prints", "status.json").context_updates).toMatchObject({
      "tool.output": "one\ntwo",
    });
  });
  statement("5.5", "a value over 100 KB is a file of its own", () => {
    expect(ran.checkpoint.context.large).toEqual({
      artifact: "artifacts/large.json",
      bytes: expect.any(Number),
    });
    expect(JSON.parse(project.read("logs", "artifacts", "large.json"))).toHaveLength(150_000);
  });
  decided("4.10", "`tool.output`", "it is the end of a long output", () => {
    expect(ran.checkpoint.context["tool.output"]).toBe("x".repeat(64 * 1024));
  });
  for (const event of [
    "PipelineStarted",
    "StageStarted",
    "StageCompleted",
    "StageFailed",
    "StageRetrying",
    "CheckpointSaved",
    "ParallelStarted",
    "ParallelBranchStarted",
    "ParallelBranchCompleted",
    "ParallelCompleted",
    "PipelineCompleted",
  ]) {
    statement("9.6", `the events have a line ${event}`, () => {
      const lines = project.read("logs", "progress.ndjson").trim().split("\n");
      const names = lines.map((line) => (JSON.parse(line) as { event: string }).event);
      expect(names).toContain(event);
    });
  }
});

describe("the smoke test", () => {
  statement(
    "11.13",
    "plan, implement, review: artifacts, outcomes, and the exit at the end",
    async () => {
      const fixture = resolve(import.meta.dirname, "../fixtures/dot/smoke.dot");
      copyFileSync(fixture, project.path("smoke.dot"));
      await project.must(["run", "smoke.dot", "--simulate", "--logs", "smoke"]);
      const read = (...path: readonly string[]): unknown =>
        JSON.parse(project.read("smoke", ...path));
      for (const node of ["plan", "implement", "review"]) {
        expect(project.read("smoke", node, "response.md")).toBe(
          `[Simulated] Response for stage: ${node}`,
        );
        expect(read(node, "status.json")).toMatchObject({ outcome: "success" });
      }
      expect(project.read("smoke", "plan", "prompt.md")).toBe("Plan how to achieve: Say hello");
      expect(read("manifest.json")).toMatchObject({ name: "smoke", goal: "Say hello" });
      expect(read("checkpoint.json")).toMatchObject({
        current_node: "done",
        completed_nodes: ["start", "plan", "implement", "review", "done"],
        node_retries: {},
        context: { outcome: "success", last_stage: "review", "graph.goal": "Say hello" },
        perdure: { status: "completed", goal_gates: { implement: "satisfied" } },
      });
    },
  );
});
