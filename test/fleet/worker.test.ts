/**
 * Workers on a real PostgreSQL, with real kills and counted effects. Each test has workers with a label
 * of its own, so that the tests share one server.
 */
import { existsSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { leashMarker, uptimeSeconds, writeLeash } from "../../src/runner/process/leash.ts";
import { attemptMarker, findMarked, runMarker } from "../../src/runner/process/sweep.ts";
import { PATIENCE_MS } from "../rig/patience.ts";
import { runSql } from "../rig/postgres.ts";
import { killProcess } from "../rig/project.ts";
import { Fleet, wrapperAt } from "./worker-rig.ts";

let fleet: Fleet;
beforeAll(async () => {
  fleet = await Fleet.open();
});
afterAll(() => fleet.end());

/**
 * Three steps, of which the second waits for the test; the third needs a file of the first. The first
 * is a program of Node, which must not take over the channel between the worker and its supervisor.
 */
function heldFlow(label: string, hold: string): string {
  return `
requires: [${label}]
workspace: {kind: directory}
steps:
  - id: before
    run: ${fleet.effect(`${label}-before`)}; '${process.execPath}' -e 'console.log("kept")' > kept.txt
  - id: held
    run: ${fleet.effect(`${label}-held`)}; ${hold}
  - id: after
    run: test "$(cat kept.txt)" = kept; ${fleet.effect(`${label}-after`)}
`;
}

/** The file with the deadline of a step's process. */
function leashOf(pid: number): string {
  const environment = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  const entry = environment.find((one) => one.startsWith(leashMarker("")));
  return entry?.slice(leashMarker("").length) ?? "";
}

describe.concurrent("a worker", () => {
  // Alone, because its worker must move the leash on while the others would start theirs.
  test("drives a run; after kill -9 its next process adopts the step at once", {
    concurrent: false,
  }, async () => {
    const hold = fleet.hold("killed");
    const worker = await fleet.worker("killed", "--labels", "killed");
    const runId = await fleet.submitted(heldFlow("killed", hold.command));
    await hold.arrived();
    const wrapper = wrapperAt(worker, runId, "held@1.1");
    await killProcess(worker.pid());
    // The leash lasts for seconds, and a busy machine may take longer to start a worker.
    writeLeash(leashOf(wrapper), uptimeSeconds() + PATIENCE_MS / 1000);
    await worker.supervisor.printed("continues here after a restart");
    expect(findMarked(attemptMarker(`${runId}/held@1.1`))).toContain(wrapper);
    expect(findMarked(attemptMarker(`${runId}/held@1.2`))).toEqual([]);
    await hold.release();
    await fleet.reached(runId, "run.completed");
    expect(fleet.effectsOf("killed")).toEqual({ before: 1, held: 1, after: 1 });
    expect(await fleet.counts(runId)).toMatchObject({ "step.started": 3, "run.moved": 1 });
    // Nothing of it stays in the project of the person who submitted it.
    expect(existsSync(fleet.path(".perdure", "runs", runId))).toBe(false);
    expect((await worker.supervisor.kill("SIGTERM")).exit).toBe(0);
  });

  test("takes over the run of a lost machine with its files, and repeats no completed step", async () => {
    const hold = fleet.hold("lost");
    const lost = await fleet.worker("lost-1", "--labels", "lost");
    const runId = await fleet.submitted(heldFlow("lost", hold.command));
    await hold.arrived();
    await fleet.loseMachine(lost, runId);
    await fleet.worker("lost-2", "--labels", "lost");
    await fleet.recorded(runId, "step.started", 3);
    await hold.release();
    await fleet.reached(runId, "run.completed");
    expect(fleet.effectsOf("lost")).toEqual({ before: 1, held: 2, after: 1 });
    expect(await fleet.counts(runId)).toMatchObject({ "step.completed": 3, "run.moved": 2 });
  });

  test("takes over the run of a machine that is lost while its worker hands it over", async () => {
    const hold = fleet.hold("leaving");
    const leaving = await fleet.worker("leaving-1", "--labels", "leaving");
    // The step outlasts the signal that asks it to end.
    const runId = await fleet.submitted(heldFlow("leaving", `trap '' TERM; ${hold.command}`));
    await hold.arrived();
    const ended = leaving.supervisor.kill("SIGKILL");
    await fleet.recorded(runId, "run.stopping", 1);
    await fleet.loseMachine(leaving, runId);
    await ended;
    await fleet.worker("leaving-2", "--labels", "leaving");
    await fleet.recorded(runId, "step.started", 3);
    await hold.release();
    await fleet.reached(runId, "run.completed");
    expect(fleet.effectsOf("leaving")).toEqual({ before: 1, held: 2, after: 1 });
  });

  test("that is paused loses its steps before another worker takes over, and changes nothing when it wakes", async () => {
    const hold = fleet.hold("paused");
    const paused = await fleet.worker("paused-1", "--labels", "paused");
    const runId = await fleet.submitted(heldFlow("paused", hold.command));
    await hold.arrived();
    const first = wrapperAt(paused, runId, "held@1.1");
    process.kill(paused.pid(), "SIGSTOP");
    const other = await fleet.worker("paused-2", "--labels", "paused");
    await other.supervisor.printed("taken");
    expect(findMarked(runMarker(runId))).not.toContain(first);
    await fleet.happened("paused-held", 2);
    process.kill(paused.pid(), "SIGCONT");
    await paused.supervisor.printed("given up");
    await hold.release();
    await fleet.reached(runId, "run.completed");
    expect(fleet.effectsOf("paused")).toEqual({ before: 1, held: 2, after: 1 });
  });

  test("hands its runs over at once when it drains", async () => {
    const hold = fleet.hold("drained");
    const first = await fleet.worker("drained-1", "--labels", "drained");
    const runId = await fleet.submitted(heldFlow("drained", hold.command));
    await hold.arrived();
    await fleet.worker("drained-2", "--labels", "drained,more");
    const ended = await first.supervisor.kill("SIGTERM");
    expect(ended.exit).toBe(0);
    expect(ended.stdout).toContain("handed over");
    await hold.arrived();
    await hold.release();
    await fleet.reached(runId, "run.completed");
    expect(fleet.effectsOf("drained")).toEqual({ before: 1, held: 2, after: 1 });
  });

  test("leaves a run that waits for a person, a time or a resume, and continues it", async () => {
    const worker = await fleet.worker("waits", "--labels", "waits", "--concurrency", "1");
    const runId = await fleet.submitted(`
requires: [waits]
steps:
  - id: ask
    gate: Continue?
  - id: pause
    wait: 6s
  - id: fail
    run: ${fleet.effect("waits-fail")}; test -e '${fleet.path("waits-fixed")}'
`);
    await fleet.reached(runId, "step.asked");
    const answer = { choice: "A", from: "command", by: "ann", given: Date.now() } as const;
    await fleet.journal.inbox.answer(runId, { attempt: "ask@1.1", answer });
    await fleet.reached(runId, "run.failed");
    expect(worker.supervisor.stdout).toMatch(/waits for a person\n(.*\n)*.*waits for \d/);
    fleet.write("waits-fixed", "");
    const { stdout, exit } = await fleet.run(["resume", runId]);
    expect([exit, stdout]).toEqual([0, expect.stringContaining("queued again")]);
    await fleet.reached(runId, "run.completed");
    expect(fleet.effectsOf("waits")).toEqual({ fail: 2 });
    expect((await fleet.run(["resume", runId])).exit).not.toBe(0);
  });

  test("shares a queue with others: each run is driven once, and higher priorities come first", async () => {
    const flow = (name: string): string => `
requires: [shared, big]
steps:
  - id: only
    run: ${fleet.effect(`shared-${name}`)}
`;
    const low = await fleet.submitted(flow("low"), "--priority", "1");
    const high = await fleet.submitted(flow("high"), "--priority", "2");
    const lacking = await fleet.worker("lacking", "--labels", "shared");
    await fleet.worker("both-1", "--labels", "shared,big", "--concurrency", "1");
    await fleet.reached(low, "run.completed");
    await fleet.worker("both-2", "--labels", "shared,big", "--concurrency", "2");
    const more = await Promise.all(["a", "b", "c", "d"].map((name) => fleet.submitted(flow(name))));
    for (const runId of [high, ...more]) await fleet.reached(runId, "run.completed");
    const order = Object.keys(fleet.effectsOf("shared"));
    expect(order.indexOf("high")).toBeLessThan(order.indexOf("low"));
    expect(fleet.effectsOf("shared")).toEqual({ low: 1, high: 1, a: 1, b: 1, c: 1, d: 1 });
    expect(lacking.supervisor.stdout).not.toContain("taken");
  });

  test("makes a run that cannot be driven a dead letter, until somebody resumes it", async () => {
    const runId = await fleet.submitted(`
requires: [poison]
steps:
  - id: only
    run: ${fleet.effect("poison-only")}
`);
    const blobs = `select unnest(blobs) from perdure.files where path = 'about.json'
      and run = (select run from perdure.pipeline_state where pipeline_id = '${runId}')`;
    await runSql(fleet.url, `update perdure.blobs set hash = 'x' || hash where hash in (${blobs})`);
    const worker = await fleet.worker("poison", "--labels", "poison");
    await worker.supervisor.printed("is a dead letter now");
    expect(await fleet.document("workers")).toMatchObject({
      workers: expect.arrayContaining([
        expect.objectContaining({ labels: ["poison"], state: "working", concurrency: 4 }),
      ]),
      dead_letters: [{ run_id: runId, reason: expect.stringContaining("lacks the piece") }],
    });
    await runSql(fleet.url, "update perdure.blobs set hash = substr(hash, 2) where hash like 'x%'");
    expect((await fleet.run(["resume", runId])).exit).toBe(0);
    await fleet.reached(runId, "run.completed");
    expect(fleet.effectsOf("poison")).toEqual({ only: 1 });
  });
});
