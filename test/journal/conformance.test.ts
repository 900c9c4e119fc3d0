/** The conformance suite of the ports (journal.ts), for every implementation. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Owner, RunEvent } from "../../src/core/event.ts";
import type { RunStatus, StepState } from "../../src/core/summary.ts";
import { keyOf, type LastingRequest, pendingAmong } from "../../src/journal/inbox.ts";
import type { Journal } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/journal-error.ts";
import { type Lease, takeLease } from "../../src/journal/leases.ts";
import { memoryJournal } from "../../src/journal/memory.ts";
import { openPostgresJournal } from "../../src/journal/postgres/postgres.ts";
import type { RunFilter, RunSearch } from "../../src/journal/run-log.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import { sha256 } from "../../src/util/json.ts";
import { emptyStore, runSql } from "../rig/postgres.ts";
import {
  batch,
  factsOf,
  fill,
  NEW_PLAN,
  newRun,
  OWNER,
  runIdOf,
  STEPS,
  summarise,
  TIME,
  updateOf,
  writeOf,
} from "./sample-run.ts";

/** A claim that judges every holder to be dead. */
const DEAD = { owner: OWNER, isAlive: () => false };

/** The error code of a refused operation. */
async function codeOf(operation: () => Promise<unknown>): Promise<string> {
  try {
    await operation();
  } catch (error) {
    if (error instanceof JournalError) return error.code;
    throw error;
  }
  return "none";
}

let directory: string;
let journal: Journal;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "perdure-journal-"));
});
afterEach(async () => {
  await journal.close();
  rmSync(directory, { recursive: true });
});

const newStore = (): Promise<string> =>
  emptyStore((url) => openPostgresJournal(url, { mode: "create" }));

const implementations: Record<string, () => Promise<Journal>> = {
  sqlite: async () => await openSqliteJournal(join(directory, "state.db"), { mode: "create" }),
  memory: async () => memoryJournal(),
  postgres: async () => await openPostgresJournal(await newStore()),
};

describe.each(Object.entries(implementations))("%s", (_name, make) => {
  beforeEach(async () => {
    journal = await make();
  });

  test("J4: a created run has its plan, its first event and its pending steps", async () => {
    await journal.log.create(newRun(1));
    const loaded = await journal.log.load(runIdOf(1));
    expect(loaded.planText).toBe(newRun(1).planText);
    expect(loaded.events).toEqual([
      { seq: 1, time: TIME + 1, version: 1, event: newRun(1).created },
    ]);
    expect(await journal.log.stepsOf(runIdOf(1))).toEqual(newRun(1).summary.steps);
    expect(await journal.leases.of(runIdOf(1))).toBeUndefined();
  });

  test("a fork is created with its past in one transaction, and names its origin", async () => {
    const from = { run: runIdOf(1), seq: 3 };
    const made = newRun(2);
    const past = [...batch(0), { type: "run.forked", from } as const].map((event, index) => ({
      seq: index + 2,
      time: TIME + index,
      version: 1,
      event,
    }));
    const created = { ...made.created, from };
    await journal.log.create({ ...made, created, past });
    const { events } = await journal.log.load(runIdOf(2));
    expect(events.map(({ event }) => event)).toEqual([created, ...past.map(({ event }) => event)]);
    expect(events.slice(1)).toEqual(past);
    expect(await journal.log.list({})).toMatchObject([
      { runId: runIdOf(2), forkedFrom: runIdOf(1) },
    ]);
    const acquired = await takeLease(journal.leases, runIdOf(2), {
      owner: OWNER,
      isAlive: () => true,
    });
    expect(acquired).toMatchObject({ ok: true, epoch: 1 });
    const write = { ...writeOf(1, 0), epoch: 1, afterSeq: past.length + 1 };
    await journal.log.append(runIdOf(2), write);
    expect((await journal.log.load(runIdOf(2))).events).toHaveLength(
      past.length + 1 + write.events.length,
    );
  });

  test("an append stores its turns unchanged with its first event", async () => {
    await fill(journal, 0, 2);
    const { events } = await journal.log.load(runIdOf(0));
    const kept = [undefined, undefined, factsOf(0), undefined, factsOf(1), undefined];
    expect(events.map(({ facts }) => facts)).toEqual(kept);
    expect(await journal.log.eventsAfter(runIdOf(0), 4)).toEqual(events.slice(4));
  });

  test("a run cannot be created twice", async () => {
    await journal.log.create(newRun(0));
    expect(await codeOf(() => journal.log.create(newRun(0)))).toBe("stale-writer");
  });

  test("a run cannot be created with the fingerprint of another plan", async () => {
    await expect(journal.log.create({ ...newRun(0), planText: "{}" })).rejects.toThrow("J4");
  });

  test("receive stores a run from another journal whole, once, and without an owner", async () => {
    const other = memoryJournal();
    const epoch = await fill(other, 1, 3);
    const { planText, events } = await other.log.load(runIdOf(1));
    const last = events.at(-1)?.seq ?? 0;
    const moved = { type: "run.moved", from: "/project", to: "/elsewhere" } as const;
    const all = [...events, { seq: last + 1, time: TIME + 9_000, version: 1, event: moved }];
    const summary = summarise(planText, all);
    const answer = { choice: "A", by: "ann@laptop", from: "command", given: 5 } as const;
    const answers = { "ask@1.1": answer };
    const run = { runId: runIdOf(1), planTexts: [planText], events: all, answers, summary };
    await journal.log.receive(run);
    expect((await journal.inbox.answers(runIdOf(1))).get("ask@1.1")).toEqual(answer);
    expect(await journal.inbox.after(runIdOf(1), 0)).toMatchObject([
      { attempt: "ask@1.1", answer },
    ]);
    expect(await journal.log.load(runIdOf(1))).toEqual({
      runId: runIdOf(1),
      planText,
      plans: new Map([[sha256(planText), planText]]),
      events: all,
    });
    expect(await journal.leases.of(runIdOf(1))).toEqual({ epoch });
    const [listed] = await journal.log.list({ file: "/elsewhere/pipeline-0.yaml" });
    expect(listed).toMatchObject({ runId: runIdOf(1), updatedAt: TIME + 9_000 });
    expect(await codeOf(() => journal.log.receive(run))).toBe("stale-writer");
    expect(
      await takeLease(journal.leases, runIdOf(1), { owner: OWNER, isAlive: () => true }),
    ).toMatchObject({ ok: true, epoch: epoch + 1 });
  });

  test("a run of a moved project has the new path of its file", async () => {
    const epoch = await fill(journal, 0, 1);
    const { planText, events } = await journal.log.load(runIdOf(0));
    const moved = { type: "run.moved", from: "/project", to: "/elsewhere" } as const;
    const afterSeq = events.length;
    const summary = summarise(planText, events);
    await journal.log.append(runIdOf(0), {
      epoch,
      afterSeq,
      time: TIME + 9_000,
      events: [moved],
      summary,
    });
    expect(await journal.log.list({ file: "/elsewhere/pipeline-0.yaml" })).toHaveLength(1);
  });

  test("outputs lists the hashes of the outputs of runs whose files exist", async () => {
    await fill(journal, 0, 2);
    await fill(journal, 2, 1);
    expect(await journal.log.outputs()).toEqual(new Set(["0", "1"].map(sha256)));
    await journal.log.markCleaned(runIdOf(0), TIME);
    expect(await journal.log.outputs()).toEqual(new Set([sha256("0")]));
  });

  test("results are found by their key, the newest first, in runs whose files exist", async () => {
    const { results } = journal;
    // A fleet shares no results.
    if (results === undefined) return;
    const add = async (run: number, key: string, time: number): Promise<void> => {
      await fill(journal, run, 1);
      const { epoch = 0 } = (await journal.leases.of(runIdOf(run))) ?? {};
      const afterSeq = (await journal.log.load(runIdOf(run))).events.length;
      const [, completed] = batch(1);
      if (completed?.type !== "step.completed") throw new Error("no completed step");
      const events = [{ ...completed, reusable: { key, base: "b", after: "a" } }];
      const summary = writeOf(run, 0).summary;
      await journal.log.append(runIdOf(run), { epoch, afterSeq, time, events, summary });
    };
    await add(0, "one", TIME + 100);
    await add(1, "one", TIME + 200);
    await add(2, "two", TIME + 300);
    const found = async (key: string, limits: object = {}): Promise<readonly string[]> => {
      const all = { since: 0, limit: 5, but: runIdOf(9), ...limits };
      return (await results.withKey(key, all)).map(({ runId }) => runId);
    };
    expect(await found("one")).toEqual([runIdOf(1), runIdOf(0)]);
    expect(await found("one", { limit: 1 })).toEqual([runIdOf(1)]);
    expect(await found("one", { but: runIdOf(1) })).toEqual([runIdOf(0)]);
    expect(await found("one", { since: TIME + 150 })).toEqual([runIdOf(1)]);
    expect(await found("none")).toEqual([]);
    await journal.log.markCleaned(runIdOf(1), TIME);
    expect(await found("one")).toEqual([runIdOf(0)]);
  });

  test("leases are blocked only when every holder was judged dead", async () => {
    await fill(journal, 0, 0);
    await fill(journal, 2, 0);
    await journal.leases.release(runIdOf(2), 1);
    const held = await journal.leases.held();
    expect(held).toEqual([{ runId: runIdOf(0), epoch: 1, owner: OWNER }]);
    expect(await journal.leases.block([])).toBeUndefined();
    expect(await journal.leases.block([{ runId: runIdOf(0), epoch: 2, owner: OWNER }])).toBe(
      undefined,
    );
    const block = await journal.leases.block(held);
    expect(await journal.log.outputs()).toEqual(new Set());
    await block?.lift();
    expect(await takeLease(journal.leases, runIdOf(2), DEAD)).toMatchObject({ ok: true, epoch: 2 });
  });

  test("load returns the appended events, equal and in order", async () => {
    await fill(journal, 1, 7);
    const { events } = await journal.log.load(runIdOf(1));
    expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: 16 }, (_, n) => n + 1));
    const expected = [0, 1, 2, 3, 4, 5, 6].flatMap(batch);
    expect(events.slice(2).map(({ event }) => event)).toEqual(expected);
    expect(events[15]?.time).toBe(TIME + 1_006);
  });

  test("eventsAfter returns the events after a sequence number", async () => {
    await fill(journal, 0, 3);
    await fill(journal, 1, 1);
    const { events } = await journal.log.load(runIdOf(0));
    for (const seq of [0, 1, 5, 7, 8, 9, 100]) {
      expect(await journal.log.eventsAfter(runIdOf(0), seq)).toEqual(events.slice(seq));
    }
  });

  test("J2: an append needs the lease, its epoch and the last sequence number", async () => {
    await journal.log.create(newRun(0));
    const append = (epoch: number, afterSeq: number) =>
      codeOf(() => journal.log.append(runIdOf(0), { ...writeOf(0, epoch), afterSeq }));
    expect(await append(0, 1)).toBe("stale-writer");
    expect(await append(1, 1)).toBe("stale-writer");
    await takeLease(journal.leases, runIdOf(0), { owner: OWNER, isAlive: () => false });
    expect(await append(2, 1)).toBe("stale-writer");
    expect(await append(1, 0)).toBe("stale-writer");
    expect(await append(1, 2)).toBe("stale-writer");
    expect(await append(1, 1)).toBe("none");
    expect(await append(1, 1)).toBe("stale-writer");
    await journal.leases.release(runIdOf(0), 1);
    expect(await append(1, 3)).toBe("stale-writer");
    expect((await journal.log.load(runIdOf(0))).events).toHaveLength(3);
  });

  test("a lease is refused while its owner lives, and acquired when the owner is dead", async () => {
    const runId = runIdOf(0);
    const { leases } = journal;
    await journal.log.create(newRun(0));
    const second = { ...OWNER, pid: 2 };
    const take = (owner: Owner, isAlive: (owner: Owner) => boolean) =>
      takeLease(leases, runId, { owner, isAlive });
    expect(await take(OWNER, () => true)).toMatchObject({ ok: true, epoch: 1 });
    expect(await take(second, () => true)).toEqual({ ok: false, owner: OWNER });
    expect(await leases.of(runId)).toEqual({ epoch: 1, owner: OWNER });
    const asked: number[] = [];
    expect(await take(second, ({ pid }) => asked.push(pid) < 0)).toMatchObject({
      ok: true,
      epoch: 2,
    });
    expect(asked).toEqual([OWNER.pid]);
    await leases.release(runId, 1);
    expect(await leases.of(runId)).toEqual({ epoch: 2, owner: second });
    await leases.release(runId, 2);
    expect(await leases.of(runId)).toEqual({ epoch: 2 });
    expect(await take(OWNER, () => true)).toMatchObject({ ok: true, epoch: 3 });
  });

  test("J2: a lease is acquired only against the lease that was judged", async () => {
    const runId = runIdOf(0);
    const { leases } = journal;
    await journal.log.create(newRun(0));
    const acquire = (judged: Lease | undefined) => leases.acquire(runId, { owner: OWNER, judged });
    expect(await acquire({ epoch: 1 })).toEqual({ ok: false });
    expect(await acquire(undefined)).toMatchObject({ ok: true, epoch: 1 });
    expect(await acquire(undefined)).toEqual({ ok: false });
    expect(await leases.of(runId)).toEqual({ epoch: 1, owner: OWNER });
    expect(await acquire({ epoch: 1, owner: OWNER })).toMatchObject({ ok: true, epoch: 2 });
    expect(await acquire({ epoch: 1, owner: OWNER })).toEqual({ ok: false });
  });

  test("J2: only the current owner renews its lease", async () => {
    await fill(journal, 0, 0);
    const renew = (epoch: number) => codeOf(() => journal.leases.renew(runIdOf(0), epoch));
    expect(await renew(1)).toBe("none");
    await takeLease(journal.leases, runIdOf(0), DEAD);
    expect(await renew(1)).toBe("stale-writer");
    expect(await renew(2)).toBe("none");
    await journal.leases.release(runIdOf(0), 2);
    expect(await renew(2)).toBe("stale-writer");
  });

  test("events and leases wake a follower, which misses nothing", async () => {
    const epoch = await fill(journal, 0, 0);
    const subscription = journal.log.subscribe(runIdOf(0));
    await journal.log.append(runIdOf(0), writeOf(0, epoch));
    expect(await subscription.changed()).toBe(true);
    expect(await journal.log.eventsAfter(runIdOf(0), 2)).toHaveLength(2);
    const changed = subscription.changed();
    await journal.leases.release(runIdOf(0), epoch);
    expect(await changed).toBe(true);
    const last = subscription.changed();
    subscription.close();
    await last;
    expect(await subscription.changed()).toBe(false);
  });

  test("requests wake an owner, and nothing outlives the closed journal", async () => {
    await fill(journal, 0, 0);
    const subscription = journal.inbox.subscribe(runIdOf(0));
    const changed = subscription.changed();
    await journal.inbox.send(runIdOf(0), { type: "stop", mode: "now", by: "me" });
    expect(await changed).toBe(true);
    await journal.close();
    while (await subscription.changed());
  });

  test("after returns the requests of a run after an id", async () => {
    await journal.log.create(newRun(0));
    await journal.log.create(newRun(1));
    await journal.inbox.send(runIdOf(0), { type: "stop", mode: "now", by: "me" });
    await journal.inbox.send(runIdOf(1), { type: "stop", mode: "now", by: "other" });
    const message = { id: "m1", text: "hello", by: "me@here", given: 1 };
    await journal.inbox.send(runIdOf(0), { type: "message", scope: "", step: "work", message });
    const requests = await journal.inbox.after(runIdOf(0), 0);
    expect(requests.map(({ type }) => type)).toEqual(["stop", "message"]);
    expect(requests[1]).toMatchObject({ scope: "", step: "work", message });
    expect(requests[0]).toMatchObject({ type: "stop", by: "me" });
    expect(await journal.inbox.after(runIdOf(0), requests[0]?.id ?? 0)).toEqual([requests[1]]);
    expect(await journal.inbox.after(runIdOf(0), requests[1]?.id ?? 0)).toEqual([]);
  });

  const lasting: readonly LastingRequest[] = [
    {
      type: "message",
      scope: "",
      step: "work",
      message: { id: "m1", text: "hello", by: "me@here", given: 1 },
    },
    { type: "add-budget", key: "k1", by: "me@here", added: { usd: 5, timeMs: 1_000 } },
    { type: "retry", key: "k2", by: "me@here", step: "work", attempt: "work@1.2", files: "keep" },
    { type: "retry", key: "k3", by: "me@here", step: "work", failed: true, turns: 3, repeat: true },
    { type: "rewind", verb: "rewind", key: "k4", by: "me@here", step: "work@2", files: "restore" },
    { type: "rewind", verb: "invalidate", key: "k5", by: "me@here", step: "work", repeat: true },
    { type: "skip", key: "k8", by: "me@here", step: "pay", attempt: "pay@1.1" },
    { type: "retry", key: "k9", by: "me@here", step: "map", items: [3, 7] },
    { type: "settle", key: "k6", by: "me@here", step: "pay", attempt: "pay@1.1", as: "redo" },
    { type: "settle", key: "k7", by: "me@here", step: "pay", as: "done", identity: "tag 1" },
  ];

  test("every kind of lasting request is read as it was sent, in order", async () => {
    await journal.log.create(newRun(0));
    for (const request of lasting) await journal.inbox.send(runIdOf(0), request);
    const requests = await journal.inbox.after(runIdOf(0), 0);
    const ids = requests.map(({ id }) => id);
    expect(requests).toEqual(lasting.map((request, index) => ({ ...request, id: ids[index] })));
    expect(ids).toEqual(ids.toSorted((one, other) => one - other));
  });

  test("H2: a lasting request is pending until its run has handled it; a stop never is", async () => {
    await journal.log.create(newRun(0));
    await journal.inbox.send(runIdOf(0), { type: "stop", mode: "now", by: "me" });
    for (const request of lasting) await journal.inbox.send(runIdOf(0), request);
    // An older journal may hold a request without a key; it has expired.
    await journal.inbox.send(runIdOf(0), { type: "add-budget", added: { usd: 1 } });
    const pending = async (...handled: readonly string[]): Promise<unknown> => {
      const requests = await journal.inbox.after(runIdOf(0), 0);
      return pendingAmong(requests, { handled: new Set(handled) }).map(keyOf);
    };
    expect(await pending()).toEqual(["m1", "k1", "k2", "k3", "k4", "k5", "k8", "k9", "k6", "k7"]);
    expect(await pending("k5", "m1", "k1", "k7")).toEqual(["k2", "k3", "k4", "k8", "k9", "k6"]);
  });

  test("H1: the first answer to an attempt counts", async () => {
    await journal.log.create(newRun(0));
    await journal.log.create(newRun(1));
    const answer = { choice: "A", by: "ann@laptop", from: "command", given: 5 } as const;
    const other = { ...answer, choice: "R", from: "timeout", given: 4 } as const;
    expect((await journal.inbox.answers(runIdOf(0))).get("ask@1.1")).toBeUndefined();
    expect(await journal.inbox.answer(runIdOf(0), { attempt: "ask@1.1", answer })).toEqual({
      first: true,
      answer,
    });
    expect(await journal.inbox.answer(runIdOf(0), { attempt: "ask@1.1", answer: other })).toEqual({
      first: false,
      answer,
    });
    const otherwise = { by: "ann@laptop", from: "timeout", given: 4 } as const;
    const late = await journal.inbox.answer(runIdOf(0), {
      attempt: "ask@2.1",
      answer,
      deadline: { at: 4, otherwise },
    });
    expect(late).toEqual({ first: false, answer: otherwise });
    expect((await journal.inbox.answers(runIdOf(0))).get("ask@2.1")).toEqual(otherwise);
    const inTime = await journal.inbox.answer(runIdOf(0), {
      attempt: "ask@3.1",
      answer,
      deadline: { at: 5, otherwise },
    });
    expect(inTime).toEqual({ first: true, answer });
    expect((await journal.inbox.answers(runIdOf(0))).get("ask@1.1")).toEqual(answer);
    expect(await journal.inbox.answer(runIdOf(0), { attempt: "ask@1.2", answer: other })).toEqual({
      first: true,
      answer: other,
    });
    expect(await journal.inbox.answer(runIdOf(1), { attempt: "ask@1.1", answer: other })).toEqual({
      first: true,
      answer: other,
    });
    expect(
      await codeOf(() => journal.inbox.answer(runIdOf(7), { attempt: "ask@1.1", answer })),
    ).toBe("unknown-run");
    expect(await journal.inbox.answers(runIdOf(0))).toEqual(
      new Map<string, unknown>([
        ["ask@1.1", answer],
        ["ask@2.1", otherwise],
        ["ask@3.1", answer],
        ["ask@1.2", other],
      ]),
    );
    expect(await journal.inbox.answers(runIdOf(1))).toEqual(new Map([["ask@1.1", other]]));
    await journal.log.create(newRun(2));
    expect(await journal.inbox.answers(runIdOf(2))).toEqual(new Map());
    expect(await codeOf(() => journal.inbox.answers(runIdOf(7)))).toBe("unknown-run");
  });

  test("list returns runs newest first and applies each filter", async () => {
    for (const n of [0, 1, 2, 3]) await fill(journal, n, n);
    await journal.log.create(newRun(4));
    const ids = async (filter: RunFilter) =>
      (await journal.log.list(filter)).map(({ runId }) =>
        [0, 1, 2, 3, 4].find((n) => runIdOf(n) === runId),
      );
    expect(await ids({})).toEqual([4, 3, 2, 1, 0]);
    expect(await ids({ limit: 2 })).toEqual([4, 3]);
    expect(await ids({ status: ["queued"] })).toEqual([4]);
    expect(await ids({ status: ["queued", "running"], limit: 3 })).toEqual([4, 3, 2]);
    expect(await ids({ status: [] })).toEqual([]);
    expect(await ids({ pipeline: "pipeline-1" })).toEqual([3, 2]);
    expect(await ids({ file: "/project/pipeline-0.yaml" })).toEqual([1, 0]);
    expect(await ids({ before: TIME + 2 })).toEqual([1, 0]);
    expect(await journal.log.list({ limit: 1, pipeline: "pipeline-0" })).toEqual([
      {
        runId: runIdOf(1),
        pipeline: "pipeline-0",
        file: "/project/pipeline-0.yaml",
        status: "running",
        createdAt: TIME + 1,
        updatedAt: TIME + 1_000,
        input: newRun(1).created.input,
        stepsCompleted: 1,
        stepsTotal: 3,
        lastSeq: 4,
        lease: { epoch: 1, owner: OWNER },
      },
    ]);
  });

  test("search returns a page of runs and counts by status; a run without a living owner is interrupted", async () => {
    for (const n of [0, 1, 2, 3]) await fill(journal, n, n);
    await journal.log.create(newRun(4));
    const found = async (search: Partial<RunSearch>) => {
      const owned = [2, 4].map(runIdOf);
      const { runs, byStatus } = await journal.log.search({ owned, limit: 10, ...search });
      const ids = runs.map(({ runId }) => [0, 1, 2, 3, 4].find((n) => runIdOf(n) === runId));
      return [ids, byStatus];
    };
    const all = { queued: 1, running: 1, interrupted: 3 };
    expect(await found({})).toEqual([[4, 3, 2, 1, 0], all]);
    expect(await found({ status: ["interrupted"] })).toEqual([[3, 1, 0], all]);
    expect(await found({ status: ["interrupted", "queued"], limit: 2 })).toEqual([[4, 3], all]);
    const after = { createdAt: TIME + 3, runId: runIdOf(3) };
    expect(await found({ after, limit: 2 })).toEqual([[2, 1], all]);
    expect(await found({ pipeline: "pipeline-1" })).toEqual([
      [3, 2],
      { running: 1, interrupted: 1 },
    ]);
    expect(await found({ text: "LOGIN" })).toEqual([
      [4, 2, 0],
      { queued: 1, running: 1, interrupted: 1 },
    ]);
    expect(await found({ text: runIdOf(3).slice(0, 8) })).toEqual([[3], { interrupted: 1 }]);
    expect(await found({ text: "line-2" })).toEqual([[4], { queued: 1 }]);
    expect((await found({ text: "implem" }))[0]).toEqual([4, 3, 2, 1, 0]);
    expect(await found({ runIds: [runIdOf(0)] })).toEqual([[0], { interrupted: 1 }]);
    expect((await found({ changedAfter: TIME + 1_001 }))[0]).toEqual([3, 2]);
    expect((await found({ asking: true }))[0]).toEqual([]);
    const { pipelines } = await journal.log.search({ owned: [], limit: 0 });
    expect(pipelines).toEqual(["pipeline-0", "pipeline-1", "pipeline-2"]);
  });

  test("search names the step that runs, else one that waits, else one that has failed", async () => {
    const epoch = await fill(journal, 0, 0);
    const current = async (states: Readonly<Record<string, StepState>>, status: RunStatus) => {
      const { lastSeq = 0 } = (await journal.log.list({}))[0] ?? {};
      const rows = Object.entries(states).map(([stepId, state], index) => {
        return { stepId, state, retryCount: 0, startedAt: TIME + index };
      });
      const summary = { status, stepsCompleted: 0, stepsTotal: 3, steps: rows };
      const events = batch(0).slice(0, 1);
      const write = { epoch, afterSeq: lastSeq, time: TIME, events, summary };
      await journal.log.append(runIdOf(0), write);
      const { runs } = await journal.log.search({ owned: [], limit: 1 });
      const asking = await journal.log.search({ owned: [], limit: 1, asking: true });
      expect(asking.runs).toHaveLength(Object.values(states).includes("waiting") ? 1 : 0);
      return runs[0]?.currentStep;
    };
    expect(await current({ plan: "failed" }, "running")).toBe("plan");
    expect(await current({ implement: "waiting", test: "retrying" }, "waiting")).toBe("test");
    expect(await current({ implement: "running" }, "running")).toBe("implement");
    expect(await current({ implement: "completed" }, "completed")).toBeUndefined();
  });

  test("changedSince names the runs with new events, and spendingAfter returns only spending", async () => {
    const { mark } = await journal.log.changedSince(0);
    const epoch = await fill(journal, 0, 0);
    await fill(journal, 1, 1);
    const first = await journal.log.changedSince(mark);
    expect(new Set(first.runIds)).toEqual(new Set([runIdOf(0), runIdOf(1)]));
    const spent = { inputTokens: 5, cachedTokens: 0, outputTokens: 2, turns: 1, costUsd: 0.25 };
    const [started, ended] = batch(0);
    const events = [started, { ...ended, spent }] as RunEvent[];
    await journal.log.append(runIdOf(0), { ...writeOf(0, epoch), events });
    const second = await journal.log.changedSince(first.mark);
    expect(second.runIds).toEqual([runIdOf(0)]);
    expect(await journal.log.changedSince(second.mark)).toMatchObject({ runIds: [] });
    const seen = (await journal.log.spendingAfter(runIdOf(0), 0)).map(({ seq }) => seq);
    expect(seen).toEqual([4]);
    expect(await journal.log.spendingAfter(runIdOf(0), 4)).toEqual([]);
  });

  test("steps keep the order in which they were first named", async () => {
    await fill(journal, 0, 2);
    const steps = await journal.log.stepsOf(runIdOf(0));
    expect(steps.map(({ stepId }) => stepId)).toEqual(STEPS);
    expect(steps.map(({ state }) => state)).toEqual(["completed", "completed", "pending"]);
    expect(steps[0]).toEqual({
      stepId: "plan",
      state: "completed",
      retryCount: 0,
      startedAt: TIME,
    });
  });

  test("markCleaned records that the files of a run were removed", async () => {
    await fill(journal, 0, 3);
    await journal.log.markCleaned(runIdOf(0), TIME + 9_000);
    expect((await journal.log.load(runIdOf(0))).cleanedAt).toBe(TIME + 9_000);
    const [listed] = await journal.log.list({});
    expect(listed).toMatchObject({ stepsCompleted: 3, cleanedAt: TIME + 9_000 });
  });

  test("J4: an update stores its plan, and the rows of its steps replace the others", async () => {
    const epoch = await fill(journal, 0, 1);
    await journal.log.append(runIdOf(0), updateOf(epoch, 4));
    const loaded = await journal.log.load(runIdOf(0));
    expect(loaded.planText).toBe(NEW_PLAN);
    expect(loaded.events.at(-1)?.event).toEqual(updateOf(epoch, 4).events[0]);
    expect(await journal.log.plan(newRun(0).created.fingerprint)).toBe(newRun(0).planText);
    expect((await journal.log.stepsOf(runIdOf(0))).map(({ stepId }) => stepId)).toEqual(["other"]);
    const { planText: _, ...without } = updateOf(epoch, 5);
    await expect(journal.log.append(runIdOf(0), without)).rejects.toThrow("J4");
    await expect(
      journal.log.append(runIdOf(0), { ...writeOf(1, epoch), planText: "{}" }),
    ).rejects.toThrow("J4");
    expect(await codeOf(() => journal.log.plan("nobody's"))).toBe("broken");
  });

  test("J4: a refused update changes the plan of no run", async () => {
    const epoch = await fill(journal, 0, 1);
    expect(await codeOf(() => journal.log.append(runIdOf(0), updateOf(epoch, 3)))).toBe(
      "stale-writer",
    );
    expect(await codeOf(() => journal.log.plan(sha256(NEW_PLAN)))).toBe("broken");
    expect((await journal.log.load(runIdOf(0))).planText).toBe(newRun(0).planText);
  });

  test("resolve returns at most two ids with a prefix", async () => {
    for (let n = 0; n < 20; n++) await journal.log.create(newRun(n));
    expect(await journal.log.resolve(runIdOf(7).slice(0, 8))).toEqual([runIdOf(7)]);
    expect(await journal.log.resolve(runIdOf(7))).toEqual([runIdOf(7)]);
    expect(await journal.log.resolve("")).toHaveLength(2);
    expect(await journal.log.resolve("zz")).toEqual([]);
    expect(await journal.log.resolve("%")).toEqual([]);
  });

  test("an unknown run is an unknown-run error", async () => {
    await journal.log.create(newRun(0));
    const id = runIdOf(1);
    expect(await codeOf(() => journal.log.load(id))).toBe("unknown-run");
    expect(await codeOf(() => journal.log.append(id, writeOf(0, 1)))).toBe("unknown-run");
    expect(
      await codeOf(() => takeLease(journal.leases, id, { owner: OWNER, isAlive: () => true })),
    ).toBe("unknown-run");
    expect(await codeOf(() => journal.leases.release(id, 1))).toBe("unknown-run");
    expect(await codeOf(() => journal.leases.of(id))).toBe("unknown-run");
    expect(await codeOf(() => journal.log.eventsAfter(id, 0))).toBe("unknown-run");
    expect(await codeOf(() => journal.log.stepsOf(id))).toBe("unknown-run");
    expect(await codeOf(() => journal.log.markCleaned(id, 1))).toBe("unknown-run");
    expect(await codeOf(() => journal.inbox.send(id, { type: "stop", mode: "now", by: "" }))).toBe(
      "unknown-run",
    );
  });
});

/** Journals whose leases run out, and a way to let that time pass. */
interface Expiring {
  readonly journal: Journal;
  readonly expire: () => Promise<void>;
}

const expiring: Record<string, () => Promise<Expiring>> = {
  memory: async () => {
    let now = TIME;
    const made = memoryJournal({ leaseTime: () => ({ now, heldMs: 12_000 }) });
    const expire = async (): Promise<void> => {
      now += 12_000;
    };
    return { journal: made, expire };
  },
  postgres: async () => {
    const url = await newStore();
    const expire = async (): Promise<void> => {
      const text = "held_until = held_until - interval '12 seconds'";
      await runSql(url, `UPDATE perdure.pipeline_state SET ${text}`);
    };
    return { journal: await openPostgresJournal(url), expire };
  },
};

describe.each(Object.entries(expiring))("a lease of %s that runs out", (_name, make) => {
  let expire: Expiring["expire"];
  beforeEach(async () => {
    ({ journal, expire } = await make());
    await journal.log.create(newRun(0));
  });
  const runId = runIdOf(0);
  const worker = { ...OWNER, worker: "w1" };
  const other = { ...OWNER, pid: 2, worker: "w2" };
  const take = (owner: Owner, isAlive: boolean) =>
    takeLease(journal.leases, runId, { owner, isAlive: () => isAlive });

  test("is held until it expires, whatever is known of its process, and then anyone may acquire it", async () => {
    const taken = await take(worker, true);
    const { time } = taken as { time?: { now: number; heldMs: number } };
    expect(taken).toMatchObject({ ok: true, epoch: 1, time: { heldMs: 12_000 } });
    expect(await take(other, false)).toEqual({ ok: false, owner: worker });
    expect(await journal.leases.renew(runId, 1)).toMatchObject({ heldMs: 12_000 });
    expect(await journal.leases.of(runId)).toEqual({ epoch: 1, owner: worker });
    await expire();
    const expired = { epoch: 1, owner: worker, hasExpired: true };
    expect(await journal.leases.of(runId)).toEqual(expired);
    expect(await journal.leases.held()).toEqual([{ runId, ...expired }]);
    expect(await journal.log.list({})).toMatchObject([{ lease: expired }]);
    expect(await journal.log.search({ owned: [], limit: 1 })).toMatchObject({
      runs: [{ lease: expired }],
    });
    expect(await take(other, true)).toMatchObject({ ok: true, epoch: 2 });
    const later = await journal.leases.renew(runId, 2);
    expect(later?.now).toBeGreaterThanOrEqual(time?.now ?? Number.NaN);
    expect(await codeOf(() => journal.leases.renew(runId, 1))).toBe("stale-writer");
  });

  test("may be acquired at once by the next process of its worker, and by anyone after its release", async () => {
    await take(worker, true);
    expect(await take({ ...worker, pid: 9 }, true)).toEqual({ ok: false, owner: worker });
    expect(await take({ ...worker, pid: 9 }, false)).toMatchObject({ ok: true, epoch: 2 });
    await journal.leases.release(runId, 2);
    expect(await journal.leases.of(runId)).toEqual({ epoch: 2 });
    await expire();
    expect(await journal.leases.of(runId)).toEqual({ epoch: 2 });
    expect(await take(other, true)).toMatchObject({ ok: true, epoch: 3 });
  });

  test("J9: is not acquired when it was renewed after it was judged, and counts until it is acquired", async () => {
    await take(worker, true);
    await expire();
    const judged = await journal.leases.of(runId);
    const write = { ...writeOf(0, 1), afterSeq: 1 };
    await journal.log.append(runId, write);
    await journal.leases.renew(runId, 1);
    expect(await journal.leases.acquire(runId, { owner: other, judged })).toEqual({ ok: false });
    await expire();
    expect(await journal.leases.acquire(runId, { owner: other, judged })).toMatchObject({
      ok: true,
      epoch: 2,
    });
    const next = { ...writeOf(1, 1), afterSeq: 3 };
    expect(await codeOf(() => journal.log.append(runId, next))).toBe("stale-writer");
  });
});

test("an append to the memory journal throws the error of its hook and writes nothing", async () => {
  let broken = false;
  journal = memoryJournal({
    beforeAppend: () => {
      if (broken) throw new JournalError("disk-full", "full");
    },
  });
  const epoch = await fill(journal, 0, 1);
  broken = true;
  expect(await codeOf(() => journal.log.append(runIdOf(0), writeOf(1, epoch)))).toBe("disk-full");
  broken = false;
  await journal.log.append(runIdOf(0), writeOf(1, epoch));
  expect((await journal.log.load(runIdOf(0))).events).toHaveLength(6);
});
