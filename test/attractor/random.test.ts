/**
 * Random pipelines in DOT, played through the core. Steps follow edges of the file; where there are no
 * branches, they take the path that the rules of the language give (oracle.ts).
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RunEvent } from "../../src/core/event.ts";
import type { Ending } from "../../src/core/fact.ts";
import { waitsFor } from "../../src/core/graph/visit-state.ts";
import { attemptOf } from "../../src/core/run.ts";
import { attemptText } from "../../src/core/step-path.ts";
import { buildDotPlan } from "../../src/plan/attractor/build.ts";
import type { Plan } from "../../src/plan/plan.ts";
import { sha256 } from "../../src/util/json.ts";
import { bad, ok, Play } from "../core/play.ts";
import { writeDot } from "./dot-writer.ts";
import { type Flow, type FlowNode, flows } from "./flow.ts";
import { type Stages, walkedPath } from "./oracle.ts";

const GRAPHS = Number(process.env.PERDURE_RANDOM_GRAPHS ?? 200);
const TURNS_MAX = 400;
/** Shorter than any path that ends with the turns. */
const PATH_MAX = 100;

function planOfDot(text: string): Plan {
  const { plan, diagnostics } = buildDotPlan(
    { name: "flow.dot", path: "flow.dot", text, other: () => undefined },
    {},
  );
  if (plan === undefined) throw new Error(`${JSON.stringify(diagnostics)}\n${text}`);
  return plan;
}

/** Numbers that depend on nothing but what is asked. */
function dice(seed: number, about: string): (sides: number) => number {
  const digits = sha256(`${seed} ${about}`);
  let at = 0;
  return (sides) => {
    at += 4;
    return Number.parseInt(digits.slice(at - 4, at), 16) % sides;
  };
}

const OUTCOMES = ["success", "success", "fail", "retry", "partial_success", "port"];

function endingFor(seed: number, attempt: string): Ending {
  const roll = dice(seed, attempt);
  const context = roll(3) === 0 ? { color: ["red", "blue"][roll(2)] ?? "", size: "blue" } : {};
  if (roll(6) === 0) return bad;
  const outcome = OUTCOMES[roll(OUTCOMES.length)] ?? "success";
  const label = ["Yes", "No", "again", "BACK"][roll(4)] ?? "Yes";
  const reported = {
    ...(roll(2) === 0 ? { outcome } : {}),
    ...(roll(3) === 0 ? { label } : {}),
    ...(roll(4) === 0 ? { next: [`n${roll(9)}`, `m${roll(9)}`] } : {}),
  };
  return { ...ok(context), ...(Object.keys(reported).length === 0 ? {} : { reported }) };
}

/** Plays a plan to its end, or for as long as is asked; every answer depends on the seed alone. */
function journalOf(plan: Plan, seed: number): readonly RunEvent[] {
  const play = new Play(plan).open();
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const [running] = play.run.running;
    const [asked] = play.run.waiting.person;
    if (running !== undefined) {
      const at = attemptOf(running);
      play.tell({ type: "attempt-ended", at, ending: endingFor(seed, attemptText(at)) });
    } else if (waitsFor(asked?.state, "person")) {
      const at = attemptOf(asked);
      const { choices } = asked.state;
      const choice = choices[dice(seed, attemptText(at))(choices.length)]?.key ?? "";
      const answer = { choice, by: "test", from: "command", given: play.now } as const;
      play.tell({ type: "answered", at, answer });
    } else if (play.turn?.wakeAt !== undefined) {
      play.now = play.turn.wakeAt;
      play.tell();
    } else break;
  }
  return play.events;
}

/** The node of the flow that a step of the run's own graph stands for; undefined inside branches. */
function startedNodes(events: readonly RunEvent[]): readonly string[] {
  return events.flatMap((event) =>
    event.type === "step.started" && event.scope === "" && event.attempt === 1 ? [event.step] : [],
  );
}

/** Every pair of nodes that may follow each other. */
function pairsOf({ nodes }: Flow): ReadonlySet<string> {
  const pairs = new Set<string>();
  const targets = nodes.flatMap(({ retryTarget }) =>
    retryTarget === undefined ? [] : [retryTarget],
  );
  for (const { id, work, edges, retryTarget } of nodes) {
    const from = work.kind === "fork" ? `${id}_join` : id;
    if (work.kind === "fork") pairs.add(`${id} ${from}`);
    const next = [
      ...edges.map(({ to }) => to),
      ...(retryTarget === undefined ? [] : [retryTarget]),
    ];
    // A missed goal leads from the exit to a retry target.
    for (const to of id === "exit" ? targets : next) pairs.add(`${from} ${nodes[to]?.id}`);
  }
  return pairs;
}

function withoutForks(flow: Flow): Flow {
  const alone = (node: FlowNode): FlowNode =>
    node.work.kind === "fork" ? { ...node, work: { kind: "pass" } } : node;
  return { ...flow, nodes: flow.nodes.map(alone) };
}

/** The same endings and answers as in `journalOf`, for the oracle. */
function stagesOf(seed: number): Stages {
  return {
    end: (attempt) => {
      const ending = endingFor(seed, attempt);
      if (ending.how !== "exited") throw new Error("an attempt exits");
      return { ...ending.reported, exit: ending.exit, context: ending.context };
    },
    choose: (attempt, choices) => dice(seed, attempt)(choices),
  };
}

describe("a pipeline in DOT", () => {
  it(`follows its own edges and decides the same again, for ${GRAPHS} random ones`, {
    timeout: 600_000,
  }, () => {
    const seen = new Set<string>();
    const kinds = new Set<string>();
    fc.assert(
      fc.property(flows, fc.nat(), (flow, seed) => {
        const plan = planOfDot(writeDot(flow));
        const events = journalOf(plan, seed);
        expect(journalOf(plan, seed)).toEqual(events);
        const started = startedNodes(events);
        const pairs = pairsOf(flow);
        const followed = started.slice(1).map((to, at) => `${started[at]} ${to}`);
        expect(followed.filter((pair) => !pairs.has(pair))).toEqual([]);
        for (const { type } of events) seen.add(type);
        for (const { work } of flow.nodes) kinds.add(work.kind);
      }),
      { numRuns: GRAPHS },
    );
    // What the random pipelines did at all: without this an empty writer would pass.
    expect([...kinds].sort()).toEqual(["agent", "fork", "gate", "pass", "tool"]);
    const wanted = ["run.completed", "run.failed", "run.restarted", "step.failed", "step.answered"];
    expect(wanted.filter((type) => !seen.has(type))).toEqual([]);
  });

  it(`takes the path that the language defines, for ${GRAPHS} random ones without branches`, {
    timeout: 600_000,
  }, () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(flows.map(withoutForks), fc.nat(), (flow, seed) => {
        const text = writeDot(flow);
        const events = journalOf(planOfDot(text), seed);
        const path = walkedPath(flow, stagesOf(seed), PATH_MAX);
        const over = events.some(
          (event) => event.type === "step.failed" && event.reason === "visits",
        );
        const visited = startedNodes(events).slice(0, over ? -1 : undefined);
        expect(visited.slice(0, PATH_MAX), text).toEqual(path.nodes);
        const ends = events.flatMap(({ type }) =>
          type === "run.completed" || type === "run.failed" ? [type] : [],
        );
        if (path.status !== undefined) expect(ends, text).toEqual([`run.${path.status}`]);
        for (const { type } of events) seen.add(type);
        seen.add(`${path.status}`);
      }),
      { numRuns: GRAPHS },
    );
    const wanted = ["completed", "failed", "run.restarted", "run.returned", "step.answered"];
    expect(wanted.filter((type) => !seen.has(type))).toEqual([]);
  });
});
