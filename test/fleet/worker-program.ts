/**
 * A worker for tests: takes the lease of one run, makes its directory from the store, drives the run
 * and ships it, as the real worker does, without queues and clocks.
 *
 *   node worker-program.ts STORE HOME RUN        HOME is the directory of this worker
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { driveOwned } from "../../src/app/drive/drive.ts";
import { thisOwner } from "../../src/app/drive/owner.ts";
import { OwnerRequests } from "../../src/app/drive/owner-requests.ts";
import { NO_DISPLAY } from "../../src/app/drive/screen.ts";
import { fetchRun } from "../../src/app/fleet/fetch.ts";
import { openShipper } from "../../src/app/fleet/ship.ts";
import { loadRun } from "../../src/app/loaded-run.ts";
import { fullSummary } from "../../src/core/summary.ts";
import { stateDirOf } from "../../src/engine/state-dir.ts";
import { takeLease } from "../../src/journal/leases.ts";
import { openTestStore } from "./test-store.ts";

const SHIP_EVERY_MS = 100;

const [, , root = "", home = "", runId = ""] = process.argv;
const store = await openTestStore(root);
const owner = thisOwner();
const taken = await takeLease(store.leases, runId, { owner, isAlive: () => false });
if (!taken.ok) throw new Error("the run has an owner");
const { epoch } = taken;
const into = join(home, "runs", runId);
const note = join(home, `${runId}.epoch`);
const usedUnder = existsSync(note) ? Number(readFileSync(note, "utf8")) : undefined;
const previousOwnerIsUs = usedUnder === epoch - 1;
const { directory, moved } = await fetchRun({ store, runId, into, previousOwnerIsUs });
writeFileSync(note, String(epoch));
const project = { dir: stateDirOf(directory), journal: store };
// The journal of this project is in the store.
writeFileSync(project.dir.database, "");
const found = await loadRun(project, runId);
const shipper = await openShipper({ ...{ project, known: found, epoch }, ...store });
const log = shipper.wrap(store.log);
if (moved !== undefined) {
  const { run } = found;
  const write = { epoch, afterSeq: run.seq, time: Date.now(), events: [moved] };
  await log.append(runId, { ...write, summary: fullSummary(run) });
}
const known = moved === undefined ? found : await loadRun(project, runId);
const requests = await OwnerRequests.open(store.inbox, runId);
const timer = setInterval(() => {
  shipper.shipRunning().then(
    () => process.send?.("shipped"),
    (error: unknown) => {
      process.stderr.write(`${String(error)}\n`);
      process.exit(1);
    },
  );
}, SHIP_EVERY_MS);
const run = await driveOwned(
  { ...project, journal: { ...store, log } },
  { known, owner, epoch },
  requests,
  { display: NO_DISPLAY, takeOver: true, beside: true },
);
clearInterval(timer);
await shipper.close();
await store.leases.release(runId, epoch);
await store.close();
process.stdout.write(`${run.state.status}\n`);
process.exit(0);
