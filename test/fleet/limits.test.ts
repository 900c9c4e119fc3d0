/**
 * Limits and schedules of a fleet, on a real PostgreSQL with real workers: groups whose runs are limited
 * on all workers together, and pipelines that start at certain times.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Dispatch } from "../../src/app/fleet/dispatch.ts";
import { runSql } from "../rig/postgres.ts";
import { Fleet, storeSays } from "./worker-rig.ts";

let fleet: Fleet;
beforeAll(async () => {
  fleet = await Fleet.open();
});
afterAll(() => fleet.end());

interface GroupDocument {
  readonly group: string;
  readonly running: number;
  readonly waiting: number;
}

/** How many runs of a group are under way, and how many wait. */
async function standing(group: string): Promise<readonly [number, number]> {
  const groups = (await fleet.document("workers")).groups as readonly GroupDocument[];
  const found = groups.find((one) => one.group === group);
  return [found?.running ?? 0, found?.waiting ?? 0];
}

/** Resolves when so many runs of a group wait. */
async function waits(group: string, count: number): Promise<void> {
  const text = `select count(*)::int as n from perdure_queue.group_runs
    where group_name = '${group}' and parked_at is not null`;
  await storeSays(
    () => `${count} runs of ${group} wait`,
    async () => {
      const [row] = await runSql(fleet.url, text);
      return Number(row?.n) === count;
    },
  );
}

/** Another worker looks for free slots; this happens after it has read who holds them. */
async function looksForSlotsDuring(happens: () => Promise<void>): Promise<void> {
  const { journal } = fleet;
  const search: typeof journal.log.search = async (query) => {
    await happens();
    return journal.log.search(query);
  };
  const dispatch = await Dispatch.open({ ...journal, log: { ...journal.log, search } }, "client");
  await dispatch.admitWaiting();
  await dispatch.close();
}

/** The first and the last time of a run's events. */
async function span(runId: string): Promise<readonly [number, number]> {
  const { events } = await fleet.journal.log.load(runId);
  return [events[1]?.time ?? 0, events.at(-1)?.time ?? 0];
}

describe.concurrent("a concurrency group", () => {
  test("G1, G2: limits all workers together; the death of a machine neither frees nor loses a slot", async () => {
    const hold = fleet.hold("dead");
    const flow = (name: string, run: string): string => `
requires: [dead]
concurrency: {group: dead}
steps:
  - id: only
    run: ${fleet.effect(`dead-${name}`)}; ${run}
`;
    const lost = await fleet.worker("dead-1", "--labels", "dead");
    const first = await fleet.submitted(flow("first", hold.command));
    await hold.arrived();
    const low = await fleet.submitted(flow("low", "echo low"));
    const high = await fleet.submitted(flow("high", "echo high"), "--priority", "5");
    await fleet.worker("dead-2", "--labels", "dead");
    await waits("dead", 2);
    await fleet.loseMachine(lost, first);
    // The slot stays with the run that continues elsewhere.
    await fleet.happened("dead-first", 2);
    expect(await standing("dead")).toEqual([1, 2]);
    await hold.release();
    for (const runId of [first, low, high]) await fleet.reached(runId, "run.completed");
    expect(fleet.effectsOf("dead")).toEqual({ first: 2, high: 1, low: 1 });
    const spans = await Promise.all([first, high, low].map(span));
    const times = spans.flat();
    expect(times).toEqual(times.toSorted((one, other) => one - other));
    expect(await standing("dead")).toEqual([0, 0]);
  });

  test("keeps the slot of a run that waits for a person or is handed over", async () => {
    const hold = fleet.hold("kept");
    const flow = (name: string, step: string): string => `
requires: [kept]
concurrency: {group: kept, max: 1}
steps:
  - id: only
    ${step}
  - id: then
    run: ${fleet.effect(`kept-${name}`)}
`;
    const drained = await fleet.worker("kept-1", "--labels", "kept");
    const first = await fleet.submitted(flow("first", "gate: Continue?"));
    await fleet.reached(first, "step.asked");
    const second = await fleet.submitted(flow("second", `run: ${hold.command}`));
    await waits("kept", 1);
    const answer = { choice: "A", from: "command", by: "ann", given: Date.now() } as const;
    await fleet.journal.inbox.answer(first, { attempt: "only@1.1", answer });
    await fleet.reached(first, "run.completed");
    await hold.arrived();
    const third = await fleet.submitted(flow("third", "run: echo third"));
    await waits("kept", 1);
    await looksForSlotsDuring(async () => {
      expect((await drained.supervisor.kill("SIGTERM")).stdout).toContain("handed over");
    });
    expect(await standing("kept")).toEqual([1, 1]);
    await fleet.worker("kept-2", "--labels", "kept");
    await hold.arrived();
    expect(fleet.effectsOf("kept")).toEqual({ first: 1 });
    await hold.release();
    for (const runId of [second, third]) await fleet.reached(runId, "run.completed");
    expect(Object.keys(fleet.effectsOf("kept"))).toEqual(["first", "second", "third"]);
  });

  test("gives the slot of a failed run to the next run; a resume of the failed one waits for a slot", async () => {
    const hold = fleet.hold("failed");
    const flow = (name: string, run: string): string => `
requires: [failed]
concurrency: {group: failed}
steps:
  - id: only
    run: ${fleet.effect(`failed-${name}`)}; ${run}
`;
    await fleet.worker("failed", "--labels", "failed");
    const broken = await fleet.submitted(flow("broken", `test -e '${fleet.path("mended")}'`));
    await fleet.reached(broken, "run.failed");
    const next = await fleet.submitted(flow("next", hold.command));
    await hold.arrived();
    fleet.write("mended", "");
    await fleet.must(["resume", broken]);
    await waits("failed", 1);
    await hold.release();
    for (const runId of [next, broken]) await fleet.reached(runId, "run.completed");
    expect(fleet.effectsOf("failed")).toEqual({ broken: 2, next: 1 });
  });

  test("gives the slot of a run that was pulled out of the fleet to the next run", async () => {
    await fleet.worker("pulled", "--labels", "pulled");
    const flow = (name: string): string => `
requires: [pulled]
concurrency: {group: pulled}
workspace: {kind: directory}
steps:
  - id: ask
    gate: Continue?
  - id: only
    run: ${fleet.effect(`pulled-${name}`)}
`;
    const first = await fleet.submitted(flow("first"));
    await fleet.reached(first, "step.asked");
    const second = await fleet.submitted(flow("second"));
    await waits("pulled", 1);
    await fleet.must(["pull", first]);
    await fleet.reached(second, "step.asked");
    expect(await standing("pulled")).toEqual([1, 0]);
    // Back in the fleet, it waits for the slot that it gave away.
    await fleet.must(["answer", first, "ask", "approve"]);
    await fleet.must(["push", first]);
    await waits("pulled", 1);
    await fleet.must(["answer", second, "ask", "approve"]);
    for (const runId of [first, second]) await fleet.reached(runId, "run.completed");
    expect(fleet.effectsOf("pulled")).toEqual({ second: 1, first: 1 });
  });
});

describe("a schedule", () => {
  /** A time of each day, half an hour ago, as cron writes it. */
  function halfAnHourAgo(): string {
    const time = new Date(Date.now() - 30 * 60_000);
    return `${time.getUTCMinutes()} ${time.getUTCHours()} * * *`;
  }

  test("S3: starts one run for each time, with any number of workers, until it is removed", async () => {
    for (const name of ["a", "b", "c"]) await fleet.worker(`timed-${name}`, "--labels", "timed");
    const cron = halfAnHourAgo();
    const flow = `
name: timed
requires: [timed]
on: {schedule: "${cron}"}
workspace: {kind: copy}
steps:
  - id: only
    run: cat given.txt && ${fleet.effect("timed-only")}
`;
    fleet.write("given.txt", "given\n");
    fleet.write("timed.yaml", flow);
    expect(await fleet.document("submit", "timed.yaml", "--schedule")).toEqual({
      ...{ schema_version: 1, name: "timed", schedule: cron },
    });
    // What was due before the schedule was there is not made up for; an hour passes.
    expect(fleet.effectsOf("timed")).toEqual({});
    await runSql(fleet.url, "update perdure.schedules set since = since - interval '1 hour'");
    await fleet.happened("timed-only", 1);
    const [row] = (await fleet.document("schedules")).schedules as { last_run: string }[];
    const runId = row?.last_run ?? "";
    await fleet.reached(runId, "run.completed");
    // The same pipeline again: the same times, so nothing is due.
    await fleet.must(["submit", "timed.yaml", "--schedule"]);
    const removed = await fleet.document("schedules", "--remove", "timed");
    expect(removed).toMatchObject({ schedules: [] });
    expect((await fleet.run(["schedules", "--remove", "timed"])).exit).toBe(2);
    expect(fleet.effectsOf("timed")).toEqual({ only: 1 });
    const listed = await fleet.journal.log.list({});
    expect(listed.filter(({ pipeline }) => pipeline === "timed")).toHaveLength(1);
    fleet.write("never.yaml", "steps: [{id: a, run: echo a}]");
    expect((await fleet.run(["submit", "never.yaml", "--schedule"])).exit).toBe(2);
  });
});
