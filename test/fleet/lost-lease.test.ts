/** A worker that has lost the lease of a run, and is slow to end what it did under it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { thisOwner } from "../../src/app/drive/owner.ts";
import { Dispatch } from "../../src/app/fleet/dispatch.ts";
import type { WorkerMessage } from "../../src/app/fleet/fleet-overview.ts";
import { Worker } from "../../src/app/fleet/worker.ts";
import type { FleetJournal } from "../../src/journal/journal.ts";
import { openPostgresJournal } from "../../src/journal/postgres/postgres.ts";
import { runSql } from "../rig/postgres.ts";
import { eventually } from "../rig/project.ts";
import { Fleet } from "./worker-rig.ts";

let fleet: Fleet;
beforeAll(async () => {
  fleet = await Fleet.open();
});
afterAll(() => fleet.end());

/** The journal of a worker, with a network that keeps what steps print until it is repaired. */
function withSilentNetwork(journal: FleetJournal): {
  readonly journal: FleetJournal;
  readonly silent: Promise<void>;
  repair(): void;
} {
  const silent = Promise.withResolvers<void>();
  const repaired = Promise.withResolvers<void>();
  const put: FleetJournal["blobs"]["put"] = async (blobs) => {
    const isPrinted = blobs.some(({ bytes }) => bytes.includes("printed by a step"));
    if (isPrinted) {
      silent.resolve();
      await repaired.promise;
    }
    await journal.blobs.put(blobs);
  };
  return {
    journal: { ...journal, blobs: { ...journal.blobs, put } },
    silent: silent.promise,
    repair: repaired.resolve,
  };
}

async function jobsTaken(runId: string): Promise<number> {
  const state = "state = 'completed'";
  const text = `SELECT 1 FROM perdure_queue.job WHERE singleton_key = '${runId}' AND ${state}`;
  return (await runSql(fleet.url, text)).length;
}

test("a run that is queued again before its last worker has given it up is driven", async () => {
  const hold = fleet.hold("late");
  const opened = await openPostgresJournal(fleet.url);
  const { journal, silent, repair } = withSilentNetwork(opened);
  const said: WorkerMessage[] = [];
  const settings = { directory: fleet.path("worker"), concurrency: 2, labels: [] };
  const worker = await Worker.start(journal, settings, (message) => said.push(message));
  const runId = await fleet.submitted(
    `steps: [{ id: work, run: echo printed by a step; ${hold.command} }]`,
  );
  await silent;
  const lease = await fleet.journal.leases.of(runId);
  const other = { ...thisOwner(), worker: "another" };
  const taken = await fleet.journal.leases.acquire(runId, { owner: other, judged: lease });
  expect(taken.ok).toBe(true);
  await eventually("the worker gives the run up", () => said.some(({ type }) => type === "lost"));
  const dispatch = await Dispatch.open(fleet.journal, "client");
  const before = await jobsTaken(runId);
  await fleet.journal.transaction(async (transaction) => {
    await transaction.leases.release(runId, (lease?.epoch ?? 0) + 1);
    await dispatch.want(transaction, runId, "now");
  });
  await expect.poll(() => jobsTaken(runId), { timeout: 60_000 }).toBeGreaterThan(before);
  repair();
  await hold.arrived();
  await hold.release();
  await fleet.reached(runId, "run.completed");
  worker.drain();
  await worker.ended;
  await dispatch.close();
  await opened.close();
});
