import { describe, expect, it } from "vitest";
import { simulateFleet } from "./fleet/simulate-fleet.ts";
import { type Bug, simulate } from "./simulate.ts";

/** `npm run check` runs 1,000, and `npm run sim` 20,000. */
const SEEDS = 100;
/** A source of chance that the seed does not choose shows in most of them. */
const SEEDS_TOLD_TWICE = 20;
/** `npm run check` runs 20, and `npm run sim` 600. */
const FLEETS = 8;
/** Within so many, every kind of event is met. */
const SEEDS_FOR_ALL_EVENTS = 1_000;
/** Within so many seeds a planted bug must be found. */
const SEEDS_PER_BUG = 400;

const EVENTS: readonly string[] = [
  "request.handled",
  "run.committed",
  "run.completed",
  "run.created",
  "run.failed",
  "run.finishing",
  "run.funded",
  "run.messaged",
  "run.moved",
  "run.opened",
  "run.placed",
  "run.restarted",
  "run.restored",
  "run.restoring",
  "run.returned",
  "run.rewound",
  "run.skipping",
  "run.stopped",
  "run.stopping",
  "run.updated",
  "scope.based",
  "scope.conflicted",
  "scope.merged",
  "step.adopted",
  "step.answered",
  "step.asked",
  "step.based",
  "step.completed",
  "step.conflicted",
  "step.continued",
  "step.failed",
  "step.granted",
  "step.interrupted",
  "step.iterated",
  "step.lost",
  "step.paused",
  "step.probed",
  "step.recalled",
  "step.relayed",
  "step.saved",
  "step.session",
  "step.settled",
  "step.skipped",
  "step.started",
  "step.submitted",
  "step.uncertain",
];

describe("the simulator", () => {
  it("finds nothing wrong with the loop, and reaches every kind of event", async () => {
    const seen = new Set<string>();
    const isDone = (): boolean => seen.size >= EVENTS.length;
    for (let seed = 1; seed <= SEEDS || (seed <= SEEDS_FOR_ALL_EVENTS && !isDone()); seed++) {
      for (const event of (await simulate(seed)).events) seen.add(event.type);
    }
    expect([...seen].sort()).toEqual(EVENTS);
  });

  it("tells the same story for the same seed", async () => {
    for (let seed = 1; seed <= SEEDS_TOLD_TWICE; seed++) {
      expect(await simulate(seed)).toEqual(await simulate(seed));
    }
  });
});

describe("the simulator of fleets", () => {
  it("finds nothing wrong, tells the same story for the same seed, and sees takeovers", async () => {
    let takeovers = 0;
    for (let seed = 1; seed <= FLEETS; seed++) {
      const fleet = await simulateFleet(seed);
      takeovers += fleet.takeovers;
      if (seed === 1) expect((await simulateFleet(seed)).log).toEqual(fleet.log);
    }
    expect(takeovers).toBeGreaterThan(FLEETS);
  });

  it("finds files that are stored too late", async () => {
    await expect(simulateFleet(2, "ship-after-append")).rejects.toThrow(/not stored/);
  });
});

describe("the checkers find a planted bug:", () => {
  const bugs: readonly Bug[] = [
    "spawn-before-append",
    "spawn-twice",
    "adopt-alive-as-lost",
    "forget-last-event",
    "finish-with-living-process",
    "ignore-room",
    "rerun-completed",
    "exit-code-ignored",
    "lose-context",
    "probe-lies",
    "uncertainty-forgotten",
    "second-answer-counts",
    "answers-itself",
    "merge-whole-tree",
    "restore-reports-early",
    "snapshot-reports-early",
    "executor-outlives-close",
  ];
  it.each(bugs)("%s", async (bug) => {
    const found: string[] = [];
    for (let seed = 1; seed <= SEEDS_PER_BUG && found.length === 0; seed++) {
      try {
        await simulate(seed, bug);
      } catch (error) {
        if (error instanceof Error) found.push(`${error.name}: ${error.message}`);
      }
    }
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(/Violation|AssertionError|JournalError/);
  });

  const conversationsOf: readonly (readonly [Bug, RegExp])[] = [
    ["undying-agents", /two living processes are in the conversation session-\d+/],
    ["one-id-for-all", /is in the conversation of s\d@/],
    ["forget-what-was-asked", /says correct, but relay was to be asked/],
    ["forget-after-failure", /does not continue session-\d+ after a failure/],
    ["forget-messages", /request-\d+ was not sent to s\d+@/],
    ["forget-what-was-spent", /inputTokens: the run has \d+, its events \d+/],
  ];
  it.each(conversationsOf)("%s", async (bug, words) => {
    let found = false;
    for (let seed = 1; seed <= SEEDS_PER_BUG && !found; seed++) {
      found = words.test((await violationOf(seed, bug)) ?? "");
    }
    expect(found).toBe(true);
  });
});

async function violationOf(seed: number, bug: Bug): Promise<string | undefined> {
  try {
    await simulate(seed, bug);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
