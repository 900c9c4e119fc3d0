/** The journal in PostgreSQL when connections are lost and servers restart: nothing is guessed. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { FleetJournal } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/journal-error.ts";
import { openPostgresJournal } from "../../src/journal/postgres/postgres.ts";
import { type LossyProxy, startProxy } from "../rig/lossy-proxy.ts";
import { emptyStore, type PostgresServer, runSql, startPostgres } from "../rig/postgres.ts";
import { batch, fill, newRun, OWNER, runIdOf, writeOf } from "./sample-run.ts";

const RUN = runIdOf(0);
let journal: FleetJournal;
afterEach(async () => {
  await journal.close();
});

describe.each(["message", "answer"] as const)(
  "when the %s is lost with its connection,",
  (lost) => {
    let proxy: LossyProxy;
    let url: string;
    beforeEach(async () => {
      url = await emptyStore((at) => openPostgresJournal(at, { mode: "create" }));
      const { port } = new URL(url);
      proxy = await startProxy(Number(port));
      journal = await openPostgresJournal(url.replace(`:${port}/`, `:${proxy.port}/`));
    });
    afterEach(async () => {
      await proxy.close();
    });

    test("an append stores its events once, and its writer continues", async () => {
      const epoch = await fill(journal, 0, 1);
      const broken = proxy.breakAt("append", lost);
      await journal.log.append(RUN, writeOf(1, epoch));
      await broken;
      await journal.log.append(RUN, writeOf(2, epoch));
      const { events } = await journal.log.load(RUN);
      expect(events.slice(2).map(({ event }) => event)).toEqual([0, 1, 2].flatMap(batch));
    });

    test("an append of an owner that was replaced meanwhile fails", async () => {
      const epoch = await fill(journal, 0, 1);
      const broken = proxy.breakAt("append", lost);
      const appended = journal.log.append(RUN, writeOf(1, epoch)).catch((error: unknown) => error);
      await broken;
      await runSql(url, "UPDATE perdure.pipeline_state SET epoch = 7");
      const error = await appended;
      const { length } = (await journal.log.load(RUN)).events;
      if (error === undefined) expect(length).toBe(6);
      else expect((error as JournalError).code).toBe("stale-writer");
      expect([4, 6]).toContain(length);
    });

    test("a transaction looks up the outcome of its commit", async () => {
      const broken = proxy.breakAt("COMMIT", lost);
      const committed = journal
        .transaction(async ({ log, executeSql }) => {
          await log.create(newRun(0));
          await executeSql("SELECT 1");
          return "done";
        })
        .catch((error: unknown) => (error as JournalError).code);
      await broken;
      const isThere = lost === "answer";
      expect(await committed).toBe(isThere ? "done" : "unreachable");
      expect(await journal.log.list({})).toHaveLength(isThere ? 1 : 0);
    });

    test("a run, a lease, a request and an answer are stored once", async () => {
      let broken = proxy.breakAt("COMMIT", lost);
      await journal.log.create(newRun(0));
      await broken;
      broken = proxy.breakAt("advisory_xact_lock_shared", lost);
      const acquired = await journal.leases.acquire(RUN, { owner: OWNER, judged: undefined });
      expect(acquired).toMatchObject({ ok: true, epoch: 1 });
      await broken;
      broken = proxy.breakAt("INSERT INTO perdure.requests", lost);
      const request = { type: "skip", key: "k1", by: "me", step: "plan" } as const;
      await journal.inbox.send(RUN, request);
      await broken;
      broken = proxy.breakAt("INSERT INTO perdure.requests", lost);
      const answer = { choice: "A", by: "ann@laptop", from: "command", given: 5 } as const;
      expect(await journal.inbox.answer(RUN, { attempt: "ask@1.1", answer })).toEqual({
        first: true,
        answer,
      });
      await broken;
      expect(await journal.inbox.after(RUN, 0)).toHaveLength(2);
      broken = proxy.breakAt("held_until", lost);
      expect(await journal.leases.renew(RUN, 1)).toMatchObject({ heldMs: 12_000 });
      await broken;
      broken = proxy.breakAt("owner = NULL", lost);
      await journal.leases.release(RUN, 1);
      await broken;
      expect(await journal.leases.of(RUN)).toEqual({ epoch: 1 });
    });

    test("a follower is woken and reads what happened meanwhile", async () => {
      const epoch = await fill(journal, 0, 0);
      const other = await openPostgresJournal(url);
      const broken = proxy.breakAt("LISTEN", lost);
      const subscription = journal.log.subscribe(RUN);
      await broken;
      await other.log.append(RUN, writeOf(0, epoch));
      while ((await journal.log.eventsAfter(RUN, 2)).length < 2) await subscription.changed();
      await other.close();
    });
  },
);

test("a transaction whose process falls silent releases its lock on the run", async () => {
  const url = await emptyStore((at) => openPostgresJournal(at, { mode: "create" }));
  journal = await openPostgresJournal(url);
  const other = await openPostgresJournal(url);
  const epoch = await fill(journal, 0, 1);
  const { promise: silence, resolve: speak } = Promise.withResolvers<void>();
  const { promise: locked, resolve: lock } = Promise.withResolvers<void>();
  const silent = journal.transaction(async ({ leases }) => {
    await leases.release(RUN, epoch);
    lock();
    await silence;
  });
  const failed = silent.catch((error: unknown) => error);
  await locked;
  expect(await other.leases.renew(RUN, epoch)).toMatchObject({ heldMs: 12_000 });
  speak();
  expect(await failed).toMatchObject({ code: "unreachable" });
  await other.close();
});

describe("a server", () => {
  let server: PostgresServer;
  let url: string;
  beforeAll(async () => {
    server = await startPostgres();
    url = await server.newDatabase();
  });
  afterAll(async () => {
    await server.close();
  });

  test.each(["fast", "immediate", "kill"] as const)(
    "that restarts (%s) loses nothing that it confirmed, and its clients continue",
    async (how) => {
      journal = await openPostgresJournal(url, { mode: "create" });
      const follower = await openPostgresJournal(url);
      const n = ["fast", "immediate", "kill"].indexOf(how);
      const runId = runIdOf(n);
      const epoch = await fill(journal, n, 1);
      const subscription = follower.log.subscribe(runId);
      const seen: number[] = [];
      const followed = (async () => {
        while (await subscription.changed()) {
          const last = seen.at(-1) ?? 0;
          seen.push(...(await follower.log.eventsAfter(runId, last)).map(({ seq }) => seq));
          if ((seen.at(-1) ?? 0) >= 42) return;
        }
      })();
      const listener = follower.listen("anything");
      for (let index = 1; index < 20; index++) {
        const restarted = index === 5 ? server.stop(how).then(() => server.start()) : undefined;
        await journal.log.append(runId, writeOf(index, epoch));
        await restarted;
      }
      await followed;
      expect(seen).toEqual(Array.from({ length: 42 }, (_, at) => at + 1));
      const { events } = await follower.log.load(runId);
      const expected = Array.from({ length: 20 }, (_, index) => batch(index));
      expect(events.slice(2).map(({ event }) => event)).toEqual(expected.flat());
      await runSql(url, "SELECT pg_notify('anything', '')");
      expect(await listener.changed()).toBe(true);
      await follower.close();
    },
  );

  test("that cannot be reached causes an error that says so, and a renewal of many leases does not wait", async () => {
    journal = await openPostgresJournal(url);
    await fill(journal, 5, 0);
    await server.stop();
    const renewed = journal.renewAll(new Map([[runIdOf(5), 1]]));
    await expect(renewed).rejects.toMatchObject({ code: "unreachable" });
    await expect(openPostgresJournal(url)).rejects.toThrow(JournalError);
    await server.start();
    expect(await journal.renewAll(new Map([[runIdOf(5), 1]]))).toMatchObject({ lost: [] });
  });
});

test("renewAll renews many leases with one statement, and names those of other owners", async () => {
  const url = await emptyStore((at) => openPostgresJournal(at, { mode: "create" }));
  journal = await openPostgresJournal(url);
  for (const n of [0, 1, 2]) await fill(journal, n, 0);
  await journal.leases.release(runIdOf(2), 1);
  const epochs = new Map([0, 1, 2, 3].map((n) => [runIdOf(n), n === 1 ? 9 : 1]));
  const { now, heldMs, lost } = await journal.renewAll(epochs);
  expect(lost.toSorted()).toEqual([1, 2, 3].map(runIdOf).toSorted());
  expect(heldMs).toBe(12_000);
  expect(await journal.renewAll(new Map())).toMatchObject({ lost: [] });
  expect((await journal.renewAll(new Map())).now).toBeGreaterThanOrEqual(now);
});

test("unattended returns a run whose lease has run out, or that has a new request and no owner", async () => {
  const url = await emptyStore((at) => openPostgresJournal(at, { mode: "create" }));
  journal = await openPostgresJournal(url);
  for (const n of [0, 1, 2, 3]) await fill(journal, n, 0);
  await journal.log.create(newRun(4));
  const ask = (n: number, type: "skip" | "stop") =>
    journal.inbox.send(
      runIdOf(n),
      type === "stop"
        ? { type, mode: "now", by: "me" }
        : { type, key: `k${n}`, by: "me", step: "plan" },
    );
  const within = (ms: number) => journal.unattended(10, ms);
  const found = async () => (await within(0)).map(({ runId }) => runId).toSorted();
  expect(await found()).toEqual([]);
  await ask(0, "skip");
  await journal.leases.release(runIdOf(0), 1);
  await ask(1, "stop");
  await journal.leases.release(runIdOf(1), 1);
  const text = "UPDATE perdure.pipeline_state SET held_until = now() - interval '1 s'";
  await runSql(url, `${text} WHERE pipeline_id = '${runIdOf(2)}'`);
  expect(await found()).toEqual([0, 2].map(runIdOf).toSorted());
  await journal.leases.acquire(runIdOf(0), { owner: OWNER, judged: { epoch: 1 } });
  await journal.leases.release(runIdOf(0), 2);
  expect(await found()).toEqual([runIdOf(2)]);
  // The lease that runs out next is named with the time until then, and the others are not.
  const [gone, next, ...more] = await within(60_000);
  expect([gone, more]).toEqual([{ runId: runIdOf(2), inMs: 0 }, []]);
  expect(next).toEqual({ runId: runIdOf(3), inMs: expect.any(Number) });
  expect(next?.inMs).toBeGreaterThan(0);
});
