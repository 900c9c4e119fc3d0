/**
 * The same walk, written in DOT and in YAML by two writers that know nothing of each other: both front
 * ends must lead the core through the same events, whatever the steps say.
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RunEvent } from "../../src/core/event.ts";
import type { Ending } from "../../src/core/fact.ts";
import { attemptText } from "../../src/core/place.ts";
import { attemptOf } from "../../src/core/run.ts";
import { loadPipeline } from "../../src/pipeline/load.ts";
import { buildPlan } from "../../src/plan/build.ts";
import { convertPlan } from "../../src/plan/convert.ts";
import { buildDotPlan } from "../../src/plan/dot-plan.ts";
import type { Plan } from "../../src/plan/plan.ts";
import { sha256 } from "../../src/util/json.ts";
import { bad, ok, Play } from "../core/play.ts";
import { writeDot } from "./dot-writer.ts";
import { type Flow, flows } from "./flow.ts";
import { writeYaml } from "./yaml-writer.ts";

const GRAPHS = Number(process.env.PERDURE_DIFFERENTIAL ?? 200);
const TURNS_MAX = 400;

function planOfDot(text: string): Plan {
  const { plan, diagnostics } = buildDotPlan(
    { name: "flow.dot", path: "flow.dot", text, other: () => undefined },
    {},
  );
  if (plan === undefined) throw new Error(`${JSON.stringify(diagnostics)}\n${text}`);
  return plan;
}

function planOfYaml(text: string): Plan {
  const { pipeline, diagnostics } = loadPipeline("flow.yaml", text);
  if (pipeline === undefined) throw new Error(`${JSON.stringify(diagnostics)}\n${text}`);
  return buildPlan(pipeline);
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
  const told = {
    ...(roll(2) === 0 ? { outcome } : {}),
    ...(roll(3) === 0 ? { label } : {}),
    ...(roll(4) === 0 ? { next: [`n${roll(9)}`, `m${roll(9)}`] } : {}),
  };
  return { ...ok(context), ...(Object.keys(told).length === 0 ? {} : { told }) };
}

/** Plays a plan to its end, or for as long as is asked; every answer depends on the seed alone. */
function journalOf(plan: Plan, seed: number): readonly RunEvent[] {
  const play = new Play(plan).open();
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const [running] = play.run.running;
    const [asked] = play.run.asked;
    if (running !== undefined) {
      const at = attemptOf(running);
      play.tell({ type: "attempt-ended", at, ending: endingFor(seed, attemptText(at)) });
    } else if (asked?.state.status === "asked") {
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

function expectSame(flow: Flow, seed: number): readonly RunEvent[] {
  const dot = planOfDot(writeDot(flow));
  const yaml = planOfYaml(writeYaml(flow));
  const events = journalOf(dot, seed);
  expect(journalOf(yaml, seed)).toEqual(events);
  return events;
}

describe("a walk in DOT and in YAML", () => {
  it(`is the same run, for ${GRAPHS} random ones`, { timeout: 600_000 }, () => {
    const seen = new Set<string>();
    const kinds = new Set<string>();
    fc.assert(
      fc.property(flows, fc.nat(), (flow, seed) => {
        for (const { type } of expectSame(flow, seed)) seen.add(type);
        for (const { work } of flow.nodes) kinds.add(work.kind);
      }),
      { numRuns: GRAPHS },
    );
    // What the random walks did at all: without this a writer that writes nothing would pass.
    expect([...kinds].sort()).toEqual(["agent", "fork", "gate", "pass", "tool"]);
    const wanted = ["run.completed", "run.failed", "run.restarted", "step.failed", "step.answered"];
    expect(wanted.filter((type) => !seen.has(type))).toEqual([]);
  });

  it("is the same plan after being converted there and back", () => {
    fc.assert(
      fc.property(flows, (flow) => {
        const plan = planOfDot(writeDot(flow));
        const yaml = convertPlan(plan, "yaml", "flow.yaml");
        expect(yaml.differences).toEqual([]);
        const dot = convertPlan(planOfYaml(yaml.text), "dot", "flow.dot");
        expect(dot.differences).toEqual([]);
      }),
      { numRuns: Math.min(GRAPHS, 1_000) },
    );
  });
});
