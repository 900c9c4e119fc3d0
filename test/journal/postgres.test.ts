/** The journal in PostgreSQL, beyond the conformance suite: setting it up, rights, losses. */
import { afterEach, describe, expect, test } from "vitest";
import { initStore } from "../../src/app/fleet/queue-tables.ts";
import type { FleetJournal } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/journal-error.ts";
import { openPostgresJournal } from "../../src/journal/postgres/postgres.ts";
import { newDatabase, runSql, sharedPostgres } from "../rig/postgres.ts";
import { fill, newRun, OWNER, runIdOf, writeOf } from "./sample-run.ts";

const journals: FleetJournal[] = [];
afterEach(async () => {
  for (const journal of journals.splice(0)) await journal.close();
});

async function open(url: string): Promise<FleetJournal> {
  const journal = await openPostgresJournal(url);
  journals.push(journal);
  return journal;
}

/** The error of a refused operation, as its code and its message. */
async function refusal(operation: () => Promise<unknown>): Promise<string> {
  try {
    await operation();
  } catch (error) {
    if (error instanceof JournalError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return "none";
}

describe("setting up", () => {
  test("M2: many processes may set up the same store at once; before that, opening it is refused", async () => {
    const url = await newDatabase();
    expect(await refusal(() => open(url))).toMatch(/^not-set-up: .* is not a store/);
    const create = () => openPostgresJournal(url, { mode: "create" }).then((one) => one.close());
    await Promise.all([initStore(url), create(), initStore(url), create()]);
    await fill(await open(url), 0, 1);
    await initStore(url);
    expect((await (await open(url)).log.load(runIdOf(0))).events).toHaveLength(4);
  });

  test("M3: a store of a newer version is used if it says that older programs may use it", async () => {
    const url = await newDatabase();
    await initStore(url);
    await runSql(url, "UPDATE perdure.store SET version = 9");
    await fill(await open(url), 0, 1);
    await initStore(url);
    expect(await runSql(url, "SELECT version FROM perdure.store")).toEqual([{ version: 9 }]);
    await runSql(url, "UPDATE perdure.store SET works_from = 9");
    expect(await refusal(() => open(url))).toMatch(/^newer: .*version 9/);
    expect(await refusal(() => initStore(url))).toMatch(/^newer: /);
  });

  test("an invalid address and a missing server are reported at once", async () => {
    const { port } = new URL(await newDatabase());
    await expect(initStore("/tmp/file")).rejects.toThrow("not the address of a store");
    const away = "postgres://me:secret@127.0.0.1:1/db";
    expect(await refusal(() => open(away))).toMatch(/^unreachable: postgres:\/\/127.0.0.1:1\/db: /);
    const unknown = `postgres://me:secret@127.0.0.1:${port}/db`;
    expect(await refusal(() => open(unknown))).toMatch(/^login-refused: .*password/);
    for (const url of [away, unknown, "postgres://me:secret@[/db"]) {
      expect(await refusal(() => open(url))).not.toContain("secret");
    }
  });
});

describe("the role", () => {
  let url: string;
  const as = async (role: string): Promise<FleetJournal> => {
    const server = await sharedPostgres();
    url = await newDatabase();
    await initStore(url);
    const login = `login_${role}`;
    const password = new URL(url).password;
    await runSql(
      url,
      `DROP ROLE IF EXISTS ${login};
       CREATE ROLE ${login} LOGIN PASSWORD '${password}' IN ROLE perdure_${role}`,
    );
    const owner = await open(url);
    await fill(owner, 0, 1);
    return open(server.url(new URL(url).pathname.slice(1), login));
  };
  const files = [{ path: "about.json", mode: 0o600, bytes: 0, blobs: [] }];
  const send = (journal: FleetJournal) =>
    journal.inbox.send(runIdOf(0), { type: "stop", mode: "now", by: "me" });
  const acquire = (journal: FleetJournal) =>
    journal.leases.acquire(runIdOf(0), { owner: OWNER, judged });

  test("of a reader may read and nothing else", async () => {
    const reader = await as("reader");
    expect((await reader.log.load(runIdOf(0))).events).toHaveLength(4);
    expect(await reader.log.list({})).toHaveLength(1);
    expect((await reader.log.search({ owned: [], limit: 5 })).runs).toHaveLength(1);
    expect(await reader.inbox.after(runIdOf(0), 0)).toEqual([]);
    expect((await reader.files.changedSince(runIdOf(0), 0)).files).toEqual([]);
    const forbidden = [
      ...[() => reader.log.create(newRun(2)), () => send(reader), () => acquire(reader)],
      ...[() => reader.leases.renew(runIdOf(0), 1), () => reader.leases.release(runIdOf(0), 1)],
      ...[() => reader.log.append(runIdOf(0), writeOf(1, 1)), () => reader.blobs.put([blob])],
      ...[() => reader.files.put(runIdOf(0), 1, files)],
    ];
    for (const operation of forbidden) {
      expect(await refusal(operation)).toMatch(/^forbidden: /);
    }
    expect((await reader.log.load(runIdOf(0))).events).toHaveLength(4);
  });

  test("of a submitter may read, submit runs and send requests, and never own a run", async () => {
    const submitter = await as("submitter");
    await submitter.blobs.put([blob]);
    expect(await submitter.blobs.missing([blob.hash])).toEqual(new Set());
    await submitter.transaction(async ({ log, files: stored }) => {
      await log.create(newRun(2));
      await stored.put(runIdOf(2), 0, files);
    });
    await send(submitter);
    const answer = { choice: "A", by: "ann", from: "command", given: 5 } as const;
    await submitter.inbox.answer(runIdOf(0), { attempt: "ask@1.1", answer });
    expect((await submitter.inbox.after(runIdOf(0), 0)).map(({ type }) => type)).toEqual([
      "stop",
      "answer",
    ]);
    const forbidden = [
      ...[() => acquire(submitter), () => submitter.leases.renew(runIdOf(0), 1)],
      ...[() => submitter.log.append(runIdOf(0), writeOf(1, 1))],
      ...[() => submitter.log.markCleaned(runIdOf(0), 1), () => submitter.blobs.removeUnused()],
    ];
    for (const operation of forbidden) expect(await refusal(operation)).toMatch(/^forbidden: /);
  });

  test("of a worker may drive runs, and change neither tables nor events", async () => {
    const worker = await as("worker");
    expect(await acquire(worker)).toMatchObject({ ok: true, epoch: 2 });
    await worker.log.append(runIdOf(0), writeOf(1, 2));
    // A worker may start as the first one would; there is nothing for it to make.
    const login = url.replace("//postgres:", "//login_worker:");
    await (await openPostgresJournal(login, { mode: "create" })).close();
    expect(await refusal(() => initStore(login))).toMatch(/^forbidden: /);
    await runSql(url, "UPDATE perdure.store SET version = 0");
    const create = () => openPostgresJournal(login, { mode: "create" });
    expect(await refusal(create)).toMatch(/^not-set-up: /);
    await worker.files.put(runIdOf(0), 2, files);
    await worker.blobs.put([blob]);
    expect(await worker.blobs.removeUnused()).toBe(0);
    await worker.leases.renew(runIdOf(0), 2);
    await worker.leases.release(runIdOf(0), 2);
    await (await worker.leases.block([]))?.lift();
    for (const text of [
      ...["UPDATE perdure.events SET data = ''", "DELETE FROM perdure.events"],
      ...["DELETE FROM perdure.pipeline_state", "UPDATE perdure.plans SET text = ''"],
      ...["UPDATE perdure.store SET version = 1", "CREATE TABLE perdure.other ()"],
    ]) {
      expect(await refusal(() => worker.executeSql(text))).toMatch(/^forbidden: /);
    }
  });
});

describe("many processes", () => {
  test("J2: append and acquire at the same time, and one of them succeeds", async () => {
    const url = await newDatabase();
    await initStore(url);
    const all = await Promise.all([1, 2, 3, 4].map(() => open(url)));
    const [first] = all as [FleetJournal];
    await fill(first, 0, 0);
    for (let index = 0; index < 10; index++) {
      const codes = await Promise.all(
        all.map((one) => refusal(() => one.log.append(runIdOf(0), writeOf(index, 1)))),
      );
      expect(codes.filter((code) => code === "none")).toHaveLength(1);
      expect(codes.filter((code) => code.startsWith("stale-writer"))).toHaveLength(3);
    }
    expect((await first.log.load(runIdOf(0))).events).toHaveLength(22);
    const acquired = await Promise.all(
      all.map((one, n) => {
        return one.leases.acquire(runIdOf(0), { owner: { ...OWNER, pid: n + 1 }, judged });
      }),
    );
    expect(acquired.filter(({ ok }) => ok)).toHaveLength(1);
    expect(await refusal(() => first.log.append(runIdOf(0), writeOf(10, 1)))).toMatch(/^stale/);
  });

  test("send requests at once, and the owner sees them in the order of their ids", async () => {
    const url = await newDatabase();
    await initStore(url);
    const all = await Promise.all([1, 2, 3].map(() => open(url)));
    const [first] = all as [FleetJournal];
    await first.log.create(newRun(0));
    const seen: number[] = [];
    let isOver = false;
    const reader = (async () => {
      while (!isOver || seen.length < 60) {
        seen.push(...(await first.inbox.after(runIdOf(0), seen.at(-1) ?? 0)).map(({ id }) => id));
      }
    })();
    const ask = (one: FleetJournal, key: string) =>
      one.inbox.send(runIdOf(0), { type: "skip", key, by: "me", step: "plan" });
    const keys = Array.from({ length: 60 }, (_, n) => `k${n}`);
    await Promise.all(keys.map((key, n) => ask(all[n % 3] ?? first, key)));
    isOver = true;
    await reader;
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    expect(new Set(seen).size).toBe(60);
  });

  test("change a text that PostgreSQL cannot store only in the summary tables", async () => {
    const url = await newDatabase();
    await initStore(url);
    const journal = await open(url);
    const epoch = await fill(journal, 1, 0);
    const { summary, ...write } = writeOf(0, epoch);
    const errorMessage = "half a letter \ud800 and \0 zero";
    const [step] = summary.steps.map((one) => ({ ...one, errorMessage }));
    await journal.log.append(runIdOf(1), {
      ...write,
      summary: { ...summary, steps: step === undefined ? [] : [step] },
    });
    const [plan] = await journal.log.stepsOf(runIdOf(1));
    expect(plan?.errorMessage).toBe("half a letter \ufffd and \ufffd zero");
    const { events } = await journal.log.load(runIdOf(1));
    expect(events[0]?.event).toEqual(newRun(1).created);
  });
});

const judged = { epoch: 1, owner: OWNER };
const blob = {
  hash: "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
  bytes: Buffer.from("foo"),
};
