/** Each planted fault of a fleet is found. */
import { describe, expect, it } from "vitest";
import type { RunEvent } from "../../src/core/event.ts";
import { type FleetRunEnd, fleetViolations, shortestGap } from "./fleet/fleet-checkers.ts";
import { parseFleetLog } from "./fleet/fleet-pipeline.ts";

/** A step whose first machine was lost, and whose second attempt completed. */
const GOOD = [
  "START r s0 1 /a 10.00 k0",
  "TICK r s0 1 /a 10.25 k0",
  "START r s0 2 /b 24.50 k0",
  "END r s0 2 /b 25.00 k0",
  "FILE r 1 s0 2",
];

function run(status = "completed", last: RunEvent["type"] = "step.completed"): FleetRunEnd {
  const events = (["step.started", "step.lost", "step.started", last] as const).map(
    (type, index) => ({
      ...{ seq: index + 1, time: 0, version: 1 },
      event: { type, step: "s0", attempt: index < 2 ? 1 : 2 } as RunEvent,
    }),
  );
  return { runId: "r", steps: [{ id: "s0", kind: "shared" }], status, events };
}

function kindsOf(lines: readonly string[], ended = run()): readonly string[] {
  return fleetViolations([ended], parseFleetLog(lines.join("\n"))).map(({ kind }) => kind);
}

describe("the checkers of a fleet", () => {
  it("accept a takeover, and measure it", () => {
    expect(kindsOf(GOOD)).toEqual([]);
    expect(shortestGap(parseFleetLog(GOOD.join("\n")).lines)).toBe(14.25);
  });

  it("find an attempt that still works beside the next one", () => {
    const lines = [...GOOD.slice(0, 3), "TICK r s0 1 /a 24.75 k0", ...GOOD.slice(3)];
    expect(kindsOf(lines)).toEqual(["repeated"]);
    expect(shortestGap(parseFleetLog(lines.join("\n")).lines)).toBeLessThan(0);
  });

  it("find a step that runs again after its completion", () => {
    expect(kindsOf([...GOOD, "START r s0 3 /c 30.00 k0"])).toEqual(["repeated"]);
  });

  it("find lost work, lost files and a run that does not end", () => {
    expect(kindsOf(GOOD.filter((line) => !line.startsWith("END")))).toEqual(["lost"]);
    expect(kindsOf([...GOOD.slice(0, 4), "FILE r 1 s0 1"])).toEqual(["lost"]);
    expect(kindsOf(GOOD, run("running"))).toEqual(["stuck"]);
  });

  it("find an idempotency key that changes or is shared", () => {
    const lines = GOOD.map((line) => line.replace("25.00 k0", "25.00 k1"));
    expect(kindsOf(lines)).toEqual(["repeated"]);
  });
});
