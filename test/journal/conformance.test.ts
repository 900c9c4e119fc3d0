/** The contract of the port (journal.ts), held against every implementation. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Journal, JournalError } from "../../src/journal/journal.ts";
import { memoryJournal } from "../../src/journal/memory.ts";
import { openSqliteJournal } from "../../src/journal/sqlite.ts";
import { sha256 } from "../../src/util/json.ts";
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

/** The code with which an operation is refused. */
function codeOf(operation: () => unknown): string {
  try {
    operation();
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
afterEach(() => {
  journal.close();
  rmSync(directory, { recursive: true });
});

const implementations: Record<string, () => Journal> = {
  sqlite: () => openSqliteJournal(join(directory, "state.db"), { mode: "create" }),
  memory: () => memoryJournal(),
};

describe.each(Object.entries(implementations))("%s", (_name, make) => {
  beforeEach(() => {
    journal = make();
  });

  test("J4: a created run has its plan, its first event and its pending steps", () => {
    journal.create(newRun(1));
    const loaded = journal.load(runIdOf(1));
    expect(loaded.planText).toBe(newRun(1).planText);
    expect(loaded.events).toEqual([
      { seq: 1, time: TIME + 1, version: 1, event: newRun(1).created },
    ]);
    expect(journal.stepsOf(runIdOf(1))).toEqual(newRun(1).summary.steps);
    expect(journal.leaseOf(runIdOf(1))).toBeUndefined();
  });

  test("a fork is created with its past, in one go, and names the run that it comes from", () => {
    const from = { run: runIdOf(1), seq: 3 };
    const made = newRun(2);
    const past = [...batch(0), { type: "run.forked", from } as const].map((event, index) => ({
      seq: index + 2,
      time: TIME + index,
      version: 1,
      event,
    }));
    const created = { ...made.created, from };
    journal.create({ ...made, created, past });
    const { events } = journal.load(runIdOf(2));
    expect(events.map(({ event }) => event)).toEqual([created, ...past.map(({ event }) => event)]);
    expect(events.slice(1)).toEqual(past);
    expect(journal.list({})).toMatchObject([{ runId: runIdOf(2), forkedFrom: runIdOf(1) }]);
    const acquired = journal.acquire(runIdOf(2), OWNER, () => true);
    expect(acquired).toEqual({ ok: true, epoch: 1 });
    const write = { ...writeOf(1, 0), epoch: 1, afterSeq: past.length + 1 };
    journal.append(runIdOf(2), write);
    expect(journal.load(runIdOf(2)).events).toHaveLength(past.length + 1 + write.events.length);
  });

  test("the turns behind an append are kept with its first event, as they are", () => {
    fill(journal, 0, 2);
    const { events } = journal.load(runIdOf(0));
    const kept = [undefined, undefined, factsOf(0), undefined, factsOf(1), undefined];
    expect(events.map(({ facts }) => facts)).toEqual(kept);
    expect(journal.eventsAfter(runIdOf(0), 4)).toEqual(events.slice(4));
  });

  test("a run cannot be created twice", () => {
    journal.create(newRun(0));
    expect(codeOf(() => journal.create(newRun(0)))).toBe("stale-writer");
  });

  test("a run cannot be created with the fingerprint of another plan", () => {
    expect(() => journal.create({ ...newRun(0), planText: "{}" })).toThrow("J4");
  });

  test("a run from another journal is received whole, once, and owned by nobody", () => {
    const other = memoryJournal();
    const epoch = fill(other, 1, 3);
    const { planText, events } = other.load(runIdOf(1));
    const last = events.at(-1)?.seq ?? 0;
    const moved = { type: "run.moved", from: "/project", to: "/elsewhere" } as const;
    const all = [...events, { seq: last + 1, time: TIME + 9_000, version: 1, event: moved }];
    const summary = summarise(planText, all);
    const answer = { choice: "A", by: "ann@laptop", from: "command", given: 5 } as const;
    const answers = { "ask@1.1": answer };
    const run = { runId: runIdOf(1), planTexts: [planText], events: all, answers, summary };
    journal.receive(run);
    expect(journal.answerTo(runIdOf(1), "ask@1.1")).toEqual(answer);
    expect(journal.load(runIdOf(1))).toEqual({ runId: runIdOf(1), planText, events: all });
    expect(journal.leaseOf(runIdOf(1))).toEqual({ epoch });
    const [listed] = journal.list({ file: "/elsewhere/pipeline-0.yaml" });
    expect(listed).toMatchObject({ runId: runIdOf(1), updatedAt: TIME + 9_000 });
    expect(codeOf(() => journal.receive(run))).toBe("stale-writer");
    expect(journal.acquire(runIdOf(1), OWNER, () => true)).toEqual({ ok: true, epoch: epoch + 1 });
  });

  test("the file of a run whose project was moved lies in the new place", () => {
    const epoch = fill(journal, 0, 1);
    const { planText, events } = journal.load(runIdOf(0));
    const moved = { type: "run.moved", from: "/project", to: "/elsewhere" } as const;
    const afterSeq = events.length;
    const summary = summarise(planText, events);
    journal.append(runIdOf(0), { epoch, afterSeq, time: TIME + 9_000, events: [moved], summary });
    expect(journal.list({ file: "/elsewhere/pipeline-0.yaml" })).toHaveLength(1);
  });

  test("while nobody owns a run, the outputs of runs with files can be asked for", () => {
    const first = fill(journal, 0, 2);
    const second = fill(journal, 2, 1);
    const asked: ReadonlySet<string>[] = [];
    const ask = (alive: boolean): boolean =>
      journal.whileUnowned(
        () => alive,
        (outputs) => asked.push(outputs),
      );
    expect(ask(true)).toBe(false);
    expect(asked).toEqual([]);
    journal.release(runIdOf(0), first);
    journal.release(runIdOf(2), second);
    expect(ask(true)).toBe(true);
    expect(asked.pop()).toEqual(new Set(["0", "1"].map(sha256)));
    journal.markCleaned(runIdOf(0), TIME);
    expect(ask(false)).toBe(true);
    expect(asked.pop()).toEqual(new Set([sha256("0")]));
  });

  test("what was appended is loaded, in order and equal", () => {
    fill(journal, 1, 7);
    const { events } = journal.load(runIdOf(1));
    expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: 16 }, (_, n) => n + 1));
    const expected = [0, 1, 2, 3, 4, 5, 6].flatMap(batch);
    expect(events.slice(2).map(({ event }) => event)).toEqual(expected);
    expect(events[15]?.time).toBe(TIME + 1_006);
  });

  test("events after a sequence number", () => {
    fill(journal, 0, 3);
    fill(journal, 1, 1);
    const { events } = journal.load(runIdOf(0));
    for (const seq of [0, 1, 5, 7, 8, 9, 100]) {
      expect(journal.eventsAfter(runIdOf(0), seq)).toEqual(events.slice(seq));
    }
  });

  test("J2: an append needs the lease, its epoch and the last sequence number", () => {
    journal.create(newRun(0));
    const append = (epoch: number, afterSeq: number) =>
      codeOf(() => journal.append(runIdOf(0), { ...writeOf(0, epoch), afterSeq }));
    expect(append(0, 1)).toBe("stale-writer");
    expect(append(1, 1)).toBe("stale-writer");
    journal.acquire(runIdOf(0), OWNER, () => false);
    expect(append(2, 1)).toBe("stale-writer");
    expect(append(1, 0)).toBe("stale-writer");
    expect(append(1, 2)).toBe("stale-writer");
    expect(append(1, 1)).toBe("none");
    expect(append(1, 1)).toBe("stale-writer");
    journal.release(runIdOf(0), 1);
    expect(append(1, 3)).toBe("stale-writer");
    expect(journal.load(runIdOf(0)).events).toHaveLength(3);
  });

  test("a lease is refused while its owner lives, and taken over when it is dead", () => {
    journal.create(newRun(0));
    const second = { ...OWNER, pid: 2 };
    expect(journal.acquire(runIdOf(0), OWNER, () => true)).toEqual({ ok: true, epoch: 1 });
    expect(journal.acquire(runIdOf(0), second, () => true)).toEqual({ ok: false, owner: OWNER });
    expect(journal.leaseOf(runIdOf(0))).toEqual({ epoch: 1, owner: OWNER });
    const asked: number[] = [];
    const isAlive = ({ pid }: { pid: number }): boolean => asked.push(pid) < 0;
    expect(journal.acquire(runIdOf(0), second, isAlive)).toEqual({ ok: true, epoch: 2 });
    expect(asked).toEqual([OWNER.pid]);
    journal.release(runIdOf(0), 1);
    expect(journal.leaseOf(runIdOf(0))).toEqual({ epoch: 2, owner: second });
    journal.release(runIdOf(0), 2);
    expect(journal.leaseOf(runIdOf(0))).toEqual({ epoch: 2 });
    expect(journal.acquire(runIdOf(0), OWNER, () => true)).toEqual({ ok: true, epoch: 3 });
  });

  test("evidence that cannot be had leaves the lease as it is", () => {
    journal.create(newRun(0));
    journal.acquire(runIdOf(0), OWNER, () => true);
    const isAlive = (): boolean => {
      throw new Error("no evidence");
    };
    expect(() => journal.acquire(runIdOf(0), OWNER, isAlive)).toThrow("no evidence");
    expect(journal.leaseOf(runIdOf(0))).toEqual({ epoch: 1, owner: OWNER });
    journal.append(runIdOf(0), { ...writeOf(0, 1), afterSeq: 1 });
  });

  test("requests are read by run, after an id", () => {
    journal.create(newRun(0));
    journal.create(newRun(1));
    journal.request(runIdOf(0), { type: "stop", mode: "now", by: "me" });
    journal.request(runIdOf(1), { type: "stop", mode: "now", by: "other" });
    const message = { id: "m1", text: "hello", by: "me@here", given: 1 };
    journal.request(runIdOf(0), { type: "say", scope: "", step: "work", message });
    const requests = journal.requestsAfter(runIdOf(0), 0);
    expect(requests.map(({ type }) => type)).toEqual(["stop", "say"]);
    expect(requests[1]).toMatchObject({ scope: "", step: "work", message });
    expect(requests[0]).toMatchObject({ type: "stop", by: "me" });
    expect(journal.requestsAfter(runIdOf(0), requests[0]?.id ?? 0)).toEqual([requests[1]]);
    expect(journal.requestsAfter(runIdOf(0), requests[1]?.id ?? 0)).toEqual([]);
  });

  test("H1: the first answer to an attempt counts, whoever gives the others", () => {
    journal.create(newRun(0));
    journal.create(newRun(1));
    const answer = { choice: "A", by: "ann@laptop", from: "command", given: 5 } as const;
    const other = { ...answer, choice: "R", from: "timeout", given: 4 } as const;
    expect(journal.answerTo(runIdOf(0), "ask@1.1")).toBeUndefined();
    expect(journal.answer(runIdOf(0), "ask@1.1", answer)).toEqual({ first: true, answer });
    expect(journal.answer(runIdOf(0), "ask@1.1", other)).toEqual({ first: false, answer });
    const otherwise = { by: "ann@laptop", from: "timeout", given: 4 } as const;
    const late = journal.answer(runIdOf(0), "ask@2.1", answer, { at: 4, otherwise });
    expect(late).toEqual({ first: false, answer: otherwise });
    expect(journal.answerTo(runIdOf(0), "ask@2.1")).toEqual(otherwise);
    const inTime = journal.answer(runIdOf(0), "ask@3.1", answer, { at: 5, otherwise });
    expect(inTime).toEqual({ first: true, answer });
    expect(journal.answerTo(runIdOf(0), "ask@1.1")).toEqual(answer);
    expect(journal.answer(runIdOf(0), "ask@1.2", other)).toEqual({ first: true, answer: other });
    expect(journal.answer(runIdOf(1), "ask@1.1", other)).toEqual({ first: true, answer: other });
    expect(codeOf(() => journal.answer(runIdOf(7), "ask@1.1", answer))).toBe("unknown-run");
    expect(journal.answersOf(runIdOf(0))).toEqual(
      new Map<string, unknown>([
        ["ask@1.1", answer],
        ["ask@2.1", otherwise],
        ["ask@3.1", answer],
        ["ask@1.2", other],
      ]),
    );
    expect(journal.answersOf(runIdOf(1))).toEqual(new Map([["ask@1.1", other]]));
    journal.create(newRun(2));
    expect(journal.answersOf(runIdOf(2))).toEqual(new Map());
    expect(codeOf(() => journal.answersOf(runIdOf(7)))).toBe("unknown-run");
  });

  test("the list is newest first, with its filters", () => {
    for (const n of [0, 1, 2, 3]) fill(journal, n, n);
    journal.create(newRun(4));
    const ids = (filter: Parameters<Journal["list"]>[0]) =>
      journal.list(filter).map(({ runId }) => [0, 1, 2, 3, 4].find((n) => runIdOf(n) === runId));
    expect(ids({})).toEqual([4, 3, 2, 1, 0]);
    expect(ids({ limit: 2 })).toEqual([4, 3]);
    expect(ids({ status: ["queued"] })).toEqual([4]);
    expect(ids({ status: ["queued", "running"], limit: 3 })).toEqual([4, 3, 2]);
    expect(ids({ status: [] })).toEqual([]);
    expect(ids({ pipeline: "pipeline-1" })).toEqual([3, 2]);
    expect(ids({ file: "/project/pipeline-0.yaml" })).toEqual([1, 0]);
    expect(ids({ before: TIME + 2 })).toEqual([1, 0]);
    expect(journal.list({ limit: 1, pipeline: "pipeline-0" })).toEqual([
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
        lease: { epoch: 1, owner: OWNER },
      },
    ]);
  });

  test("steps keep the order in which they were first named", () => {
    fill(journal, 0, 2);
    const steps = journal.stepsOf(runIdOf(0));
    expect(steps.map(({ stepId }) => stepId)).toEqual(STEPS);
    expect(steps.map(({ state }) => state)).toEqual(["completed", "completed", "pending"]);
    expect(steps[0]).toEqual({
      stepId: "plan",
      state: "completed",
      retryCount: 0,
      startedAt: TIME,
    });
  });

  test("J5: a summary can be rebuilt, and what only it knows stays", () => {
    fill(journal, 0, 3);
    journal.markCleaned(runIdOf(0), TIME + 9_000);
    const { planText, events, cleanedAt } = journal.load(runIdOf(0));
    expect(cleanedAt).toBe(TIME + 9_000);
    journal.rebuildSummary(runIdOf(0), summarise(planText, events.slice(0, 4)), TIME + 10_000);
    expect(journal.list({})[0]).toMatchObject({
      stepsCompleted: 1,
      updatedAt: TIME + 10_000,
      createdAt: TIME,
      cleanedAt: TIME + 9_000,
    });
    const states = journal.stepsOf(runIdOf(0)).map(({ state }) => state);
    expect(states).toEqual(["completed", "pending", "pending"]);
  });

  test("J4: an update brings its plan along, and its steps' rows replace the others", () => {
    const epoch = fill(journal, 0, 1);
    journal.append(runIdOf(0), updateOf(epoch, 4));
    const loaded = journal.load(runIdOf(0));
    expect(loaded.planText).toBe(NEW_PLAN);
    expect(loaded.events.at(-1)?.event).toEqual(updateOf(epoch, 4).events[0]);
    expect(journal.plan(newRun(0).created.fingerprint)).toBe(newRun(0).planText);
    expect(journal.stepsOf(runIdOf(0)).map(({ stepId }) => stepId)).toEqual(["other"]);
    const { planText: _, ...without } = updateOf(epoch, 5);
    expect(() => journal.append(runIdOf(0), without)).toThrow("J4");
    expect(() => journal.append(runIdOf(0), { ...writeOf(1, epoch), planText: "{}" })).toThrow(
      "J4",
    );
    expect(codeOf(() => journal.plan("nobody's"))).toBe("broken");
  });

  test("J4: an update that is refused leaves no plan behind that a run goes by", () => {
    const epoch = fill(journal, 0, 1);
    expect(codeOf(() => journal.append(runIdOf(0), updateOf(epoch, 3)))).toBe("stale-writer");
    expect(codeOf(() => journal.plan(sha256(NEW_PLAN)))).toBe("broken");
    expect(journal.load(runIdOf(0)).planText).toBe(newRun(0).planText);
  });

  test("ids are resolved by their prefix, at most two", () => {
    for (let n = 0; n < 20; n++) journal.create(newRun(n));
    expect(journal.resolve(runIdOf(7).slice(0, 8))).toEqual([runIdOf(7)]);
    expect(journal.resolve(runIdOf(7))).toEqual([runIdOf(7)]);
    expect(journal.resolve("")).toHaveLength(2);
    expect(journal.resolve("zz")).toEqual([]);
    expect(journal.resolve("%")).toEqual([]);
  });

  test("an unknown run is said to be unknown", () => {
    journal.create(newRun(0));
    const id = runIdOf(1);
    expect(codeOf(() => journal.load(id))).toBe("unknown-run");
    expect(codeOf(() => journal.append(id, writeOf(0, 1)))).toBe("unknown-run");
    expect(codeOf(() => journal.acquire(id, OWNER, () => true))).toBe("unknown-run");
    expect(codeOf(() => journal.release(id, 1))).toBe("unknown-run");
    expect(codeOf(() => journal.leaseOf(id))).toBe("unknown-run");
    expect(codeOf(() => journal.eventsAfter(id, 0))).toBe("unknown-run");
    expect(codeOf(() => journal.stepsOf(id))).toBe("unknown-run");
    expect(codeOf(() => journal.markCleaned(id, 1))).toBe("unknown-run");
    expect(codeOf(() => journal.request(id, { type: "stop", mode: "now", by: "" }))).toBe(
      "unknown-run",
    );
  });
});

test("the memory journal fails when its hook does, and nothing was written", () => {
  let broken = false;
  journal = memoryJournal({
    beforeAppend: () => {
      if (broken) throw new JournalError("disk-full", "full");
    },
  });
  const epoch = fill(journal, 0, 1);
  broken = true;
  expect(codeOf(() => journal.append(runIdOf(0), writeOf(1, epoch)))).toBe("disk-full");
  broken = false;
  journal.append(runIdOf(0), writeOf(1, epoch));
  expect(journal.load(runIdOf(0)).events).toHaveLength(6);
});
