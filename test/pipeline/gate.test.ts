/** Gates and waits in files: what each spelling stands for, and what is said about mistakes in them. */
import { describe, expect, it } from "vitest";
import { loadPipeline } from "../../src/pipeline/load.ts";
import { buildPlan, envNamesOf } from "../../src/plan/build.ts";
import type { Step } from "../../src/plan/plan.ts";

function step(text: string): Step {
  const { pipeline, diagnostics } = loadPipeline("p.yaml", text);
  expect(diagnostics).toEqual([]);
  if (pipeline === undefined) throw new Error("no pipeline");
  return buildPlan(pipeline).graph.steps[0] as Step;
}

function brief(text: string): string[] {
  return loadPipeline("p.yaml", text).diagnostics.map(
    ({ line, column, rule, message }) => `${line}:${column} ${rule} ${message}`,
  );
}

const SHIP = "  - {id: ship, run: ls}\n  - {id: fix, run: ls, goto: ship, needs: []}\n";

function gate(body: string): string {
  return `steps:\n  - id: ask\n${body.replaceAll(/^/gm, "    ")}\n${SHIP}`;
}

describe("a gate", () => {
  it("is a question, to approve or to reject", () => {
    expect(step(gate('gate: "Ship it?"'))).toMatchObject({
      work: {
        kind: "gate",
        ask: "Ship it?",
        choices: [
          { key: "A", label: "approve" },
          { key: "R", label: "reject", fails: true },
        ],
        text: "optional",
      },
      split: "all",
      retry: { attempts: 1 },
    });
  });

  it("says what may be answered, for how long, and what counts then", () => {
    const text = gate(`gate:
  ask: Ship it?
  choices: [ship, "[X] stop here", {label: ship later, key: l}, {label: reject, fails: false}, sell]
  text: required
  timeout: 2h
  default: Stop here`);
    expect(step(text).work).toEqual({
      kind: "gate",
      ask: "Ship it?",
      choices: [
        { key: "S", label: "ship" },
        { key: "X", label: "[X] stop here" },
        { key: "L", label: "ship later" },
        { key: "R", label: "reject" },
        { key: "SELL", label: "sell" },
      ],
      text: "required",
      timeoutMs: 7_200_000,
      default: "X",
    });
  });

  it("takes the labels of its edges, and leads by them", () => {
    const edges = "edges:\n  - {to: ship, label: '[S] Ship'}\n  - {to: fix, label: reject}";
    expect(step(gate(`gate: And now?\n${edges}`))).toMatchObject({
      work: {
        choices: [
          { key: "S", label: "[S] Ship", next: "ship" },
          { key: "R", label: "reject", next: "fix" },
        ],
      },
      split: "one",
    });
  });

  it("takes no settings of processes, not even from defaults", () => {
    const text = `defaults: {retry: 3, timeout: 5m}\n${gate('gate: "Ship it?"')}`;
    const { timeoutMs, retry } = step(text);
    expect([timeoutMs, retry.attempts]).toEqual([undefined, 1]);
  });

  it.each([
    ["gate: {ask: a, default: approve}", "gate-default `default` needs a `timeout`"],
    ["gate: {ask: a, timeout: 1m, default: aprove}", "unknown-choice there is no choice `apr"],
    ["gate: {ask: a, choices: [x, X]}", "duplicate-choice there are two choices `X`"],
    ["gate: {ask: a, choices: ['[K] x', 'K) y']}", "duplicate-choice the key `K` stands for two"],
    ["gate: a\ntimeout: 5m", "gate-setting `timeout` has no effect on a gate: it runs nothing"],
    ["gate: a\nretry: 2", "gate-setting `retry` has no effect on a gate"],
    ["gate: a\nrun: ls", "step-work step `ask` has both `gate` and `run`"],
    ["gate: a\nwait: 1m", "step-work step `ask` has both `gate` and `wait`"],
    ["gate: ' '", "empty-text"],
    ["gate: {ask: a, texts: none}", "unknown-key unknown key `texts`"],
    ["gate: {ask: a, text: maybe}", "bad-value `text` cannot be `maybe`"],
    ["gate: {ask: a, choices: [{label: x, key: a b}]}", "bad-choice-key"],
    [
      "gate: Is ${{ env.HOME }} good?",
      "no-env-here values that the journal keeps cannot use `env`",
    ],
    ["gate: Is ${{ results.ship.status }} good?", "not-before step `ship` may not have finished"],
    [
      "gate: {ask: a, choices: [x]}\nedges: [{to: ship, label: x}, {to: fix, label: y}]",
      "unknown-choice the gate has no choice `y`",
    ],
    [
      "gate: {ask: a, choices: [x, y]}\nedges: [{to: ship, label: x}]",
      "gate-edge no edge has the label of the choice `y`",
    ],
    [
      "gate: a\nedges: [{to: ship, label: x, when: input.n}, {to: fix}]",
      "gate-edge a person chooses this edge",
    ],
  ])("refuses %s", (body, message) => {
    const found = brief(gate(body));
    expect(found.some((one) => one.includes(message.replace(/^(\d+:\d+) /, "")))).toBe(true);
    expect(found).toHaveLength(1);
  });

  it("tells the place", () => {
    expect(brief(gate("gate: {ask: a, default: approve}"))[0]).toMatch(/^3:20 gate-default /);
    const edges = "edges: [{to: ship, label: x}, {to: fix, label: y}]";
    const text = gate(`gate: {ask: a, choices: [x]}\n${edges}`);
    expect(brief(text)[0]).toMatch(/^4:52 unknown-choice /);
  });
});

describe("a wait", () => {
  it.each([
    ["10m", { kind: "wait", forMs: 600_000 }],
    ["{for: 90s}", { kind: "wait", forMs: 90_000 }],
    ["{until: '2026-12-01T08:00:00Z'}", { kind: "wait", until: "2026-12-01T08:00:00Z" }],
    ["{until: '${{ input.at }}'}", { kind: "wait", until: "${{ input.at }}" }],
  ])("%s", (body, work) => expect(step(gate(`wait: ${body}`)).work).toEqual(work));

  it.each([
    ["wait: 10", "wrong-type"],
    ["wait: soon", "bad-duration"],
    ["wait: {until: tomorrow}", "bad-moment `tomorrow` is not a point in time"],
    ["wait: {until: '2026-12-01T08:00:00'}", "bad-moment"],
    ["wait: 10m\ncwd: x", "gate-setting `cwd` has no effect on a wait"],
  ])("refuses %s", (body, message) => {
    const found = brief(gate(body));
    expect(
      found.some((one) => one.includes(message)),
      found.join("\n"),
    ).toBe(true);
  });
});

it("what a question names of the run is known before it begins", () => {
  const { pipeline } = loadPipeline("p.yaml", gate('gate: "Ship ${{ input.v }}?"'));
  if (pipeline === undefined) throw new Error("no pipeline");
  expect(envNamesOf(buildPlan(pipeline))).toEqual([]);
});
