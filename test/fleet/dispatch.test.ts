/** The queues of a fleet on a real PostgreSQL, and how often a run may fail to be driven. */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { DEATHS_MAX, Dispatch, FAILURES_MAX } from "../../src/app/fleet/dispatch.ts";
import type { FleetJournal } from "../../src/journal/journal.ts";
import { openPostgresJournal } from "../../src/journal/postgres/postgres.ts";
import { newDatabase } from "../rig/postgres.ts";

let journal: FleetJournal;
let dispatch: Dispatch;
beforeAll(async () => {
  journal = await openPostgresJournal(await newDatabase(), { mode: "create" });
  dispatch = await Dispatch.open(journal, "client");
});
afterAll(async () => {
  await dispatch.close();
  await journal.close();
});

async function added(runId: string): Promise<string> {
  await journal.transaction((transaction) =>
    dispatch.add(transaction, runId, { requires: [], priority: 0 }),
  );
  return runId;
}

/** Begins to drive a run this often; returns why the last one must not be driven. */
async function begun(
  runId: string,
  times: number,
  how: "take" | "adopt" = "adopt",
): Promise<string | undefined> {
  let why: string | undefined;
  for (let time = 0; time < times; time++) {
    why = (await dispatch.begin(journal, runId, how)).refusal;
  }
  return why;
}

test("a run is still driven after more deaths of its workers than a run may have failures", async () => {
  const runId = await added("killed");
  expect(await begun(runId, 2 * FAILURES_MAX)).toBeUndefined();
  // A failure that a worker records is the run's own; the deaths before it are forgotten.
  expect(await dispatch.fail(journal, runId, "why")).toBe("again");
  expect(await begun(runId, DEATHS_MAX)).toBeUndefined();
  // Machines that are lost are no reason to give a run up.
  expect(await begun(runId, 2 * DEATHS_MAX, "take")).toBeUndefined();
});

test("a run becomes a dead letter when its workers die again and again while they drive it", async () => {
  const runId = await added("deadly");
  expect(await begun(runId, DEATHS_MAX)).toBeUndefined();
  const why = await begun(runId, 1);
  expect(why).toContain(`died ${DEATHS_MAX} times`);
  expect(await dispatch.fail(journal, runId, why ?? "")).toBe("dead");
  await dispatch.sendAgain(journal, runId, 1);
  expect(await begun(runId, 1)).toBeUndefined();
});

test("a run becomes a dead letter after a few crashes of its workers by a bug", async () => {
  const runId = await added("buggy");
  for (let time = 0; time < FAILURES_MAX; time++) {
    expect(await begun(runId, 1)).toBeUndefined();
    await dispatch.blame(journal, runId, "a bug");
  }
  const why = await begun(runId, 1);
  expect(why).toContain("a bug");
  expect(await dispatch.fail(journal, runId, why ?? "")).toBe("dead");
});

test("a run that was resumed is driven although its workers die", async () => {
  const runId = await added("resumed");
  expect((await dispatch.begin(journal, runId, "adopt")).resumeAt).toBeUndefined();
  await dispatch.sendAgain(journal, runId, 7);
  for (const _ of ["taken", "taken again"]) {
    expect((await dispatch.begin(journal, runId, "adopt")).resumeAt).toBe(7);
  }
});

test("a run waits by the clock of the store, even when the client's clock is fast", async () => {
  const label = "fast-clock";
  const add = (runId: string) =>
    journal.transaction((transaction) =>
      dispatch.add(transaction, runId, { requires: [label], priority: 0 }),
    );
  const taken = () => dispatch.take(journal, new Set([label]));
  // Runs of the tests before need no label.
  while ((await taken()) !== undefined);
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 3_600_000 });
  try {
    await add("submitted");
    expect([await taken(), await taken()]).toEqual(["submitted", undefined]);
    await dispatch.want(journal, "submitted", { afterMs: 0 });
    expect(await taken()).toBe("submitted");
    // A pause counts, too, until somebody wants the run at once.
    await dispatch.want(journal, "submitted", { afterMs: 600_000 });
    expect(await taken()).toBeUndefined();
    await dispatch.want(journal, "submitted", "now");
    expect(await taken()).toBe("submitted");
  } finally {
    vi.useRealTimers();
  }
});

/** Enough that several of them find no tables. */
const WORKERS = 8;

test("workers that start together on a new store make its queues once, and all work", async () => {
  const url = await newDatabase();
  const journals = await Promise.all(
    Array.from({ length: WORKERS }, () => openPostgresJournal(url, { mode: "create" })),
  );
  try {
    const opened = await Promise.all(journals.map((journal) => Dispatch.open(journal, "worker")));
    const queues = await Promise.all(opened.map((one) => one.queues()));
    expect(queues).toEqual(opened.map(() => queues[0]));
    for (const one of opened) await one.close();
  } finally {
    for (const journal of journals) await journal.close();
  }
});
