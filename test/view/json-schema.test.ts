/** The published schemas of all printed JSON, and the printed form of every event. */
import { expect, it } from "vitest";
import { EVENTS, type Recorded } from "../../src/core/event.ts";
import { publishedSchemas } from "../../src/view/json/json-schema.ts";
import { eventJson } from "../../src/view/json/part-json.ts";
import { faultsOf, readSchemas } from "../rig/printed-json.ts";
import { RUN_ID, simulate } from "../sim/simulate.ts";

it("the published schemas are up to date (if not: npm run schema)", () => {
  const made = publishedSchemas();
  expect([...readSchemas().keys()].sort()).toEqual([...made.keys()].sort());
  for (const [name, schema] of readSchemas()) expect(schema, name).toEqual(made.get(name));
});

/** Within so many seeds the simulator meets every event but that of forks. */
const SEEDS_MAX = 1_000;
const EVENTS_PER_TYPE = 20;
/** Only the program itself forks runs (test/cli/json.test.ts). */
const NOT_SIMULATED = ["run.forked"];

it("every event of the simulator fits its schema (view/E1)", async () => {
  const checked = new Map<string, number>();
  const types = Object.keys(EVENTS).length - NOT_SIMULATED.length;
  for (let seed = 1; seed <= SEEDS_MAX && checked.size < types; seed++) {
    for (const recorded of (await simulate(seed)).recorded) {
      const count = (checked.get(recorded.event.type) ?? 0) + 1;
      if (count > EVENTS_PER_TYPE) continue;
      checked.set(recorded.event.type, count);
      const printed = JSON.parse(JSON.stringify(eventJson(RUN_ID, recorded))) as unknown;
      expect(faultsOf("event", printed), JSON.stringify(printed)).toEqual([]);
    }
  }
  expect([...checked.keys(), ...NOT_SIMULATED].sort()).toEqual(Object.keys(EVENTS).sort());
});

function recorded(event: Recorded["event"]): Recorded {
  return { seq: 7, time: Date.UTC(2026, 1, 1, 10), version: 1, event };
}

it("a printed event has public names, the path of its step, and times in ISO 8601", () => {
  const scope = "each@1.1[2]/";
  const retry = { at: Date.UTC(2026, 1, 1, 11), delayMs: 500 };
  const at = { scope, step: "fix", visit: 2, attempt: 3 };
  const spent = { inputTokens: 1, cachedTokens: 2, outputTokens: 3, turns: 4, costUsd: 0.5 };
  const lost = recorded({ type: "step.lost", ...at, message: "gone", retry, spent });
  expect(eventJson("run-1", lost)).toEqual({
    schema_version: 1,
    run_id: "run-1",
    sequence: 7,
    time: "2026-02-01T10:00:00.000Z",
    type: "step.lost",
    step: "each@1.1[2]/fix",
    visit: 2,
    attempt: 3,
    message: "gone",
    retry: { at: "2026-02-01T11:00:00.000Z", delay_ms: 500 },
    spent: { input_tokens: 1, cached_tokens: 2, output_tokens: 3, turns: 4, cost_usd: 0.5 },
  });
});

it("a printed event keeps the author's values and leaves out private fields", () => {
  const created = recorded({
    ...{ type: "run.created", pipeline: "p", file: "/p.yaml", fileSha256: "ab" },
    ...{ fingerprint: "cd", input: { camelCase: { innerKey: 1 } }, args: [], cwd: "/" },
    ...{ envNames: ["aB"], variables: { aB: "x" } },
    ...{ secrets: { salt: "s", marks: {} }, prices: { aModel: {} } },
  });
  const printed = eventJson("run-1", created);
  expect(printed).toMatchObject({
    file_sha256: "ab",
    env_names: ["aB"],
    variables: { aB: "x" },
    input: { camelCase: { innerKey: 1 } },
  });
  expect(Object.keys(printed)).not.toContain("secrets");
  expect(Object.keys(printed)).not.toContain("prices");
  // A field of a newer program has no public name.
  const later: object = { ...created.event, laterField: 1 };
  expect(eventJson("run-1", recorded(later as Recorded["event"]))).toEqual(printed);
});
