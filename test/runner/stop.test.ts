import { describe, expect, test } from "vitest";
import { adoptProcess } from "../../src/runner/process/adopt.ts";
import { readClaim } from "../../src/runner/process/attempt-folder.ts";
import { mayBeAlive } from "../../src/runner/process/process-tree.ts";
import { startProcess } from "../../src/runner/process/start.ts";
import { findMarked, sweep } from "../../src/runner/process/sweep.ts";
import { PATIENCE_MS } from "../rig/patience.ts";
import { Attempt, isGone, LIMITS, release, waitFor } from "./rig.ts";

const IGNORES_TERM = `trap "" TERM; echo $$ >ready; while :; do sleep 1; done`;

/** Leaves its session, group and parent, and writes its pid to a file. */
const ESCAPES = `(setsid sh -c 'trap "" TERM; echo $$ >escaped; exec sleep 600' &) &\n`;

describe("a stop", () => {
  test("gives every process the whole grace period, not only the shell (runner/S1)", async () => {
    const attempt = new Attempt();
    // The shell in front dies of SIGTERM at once; the agent under it still has work to do.
    const agent = `trap 'sleep 0.3; echo saved >saved; exit 0' TERM; echo $$ >ready
      while :; do sleep 0.05; done`;
    const step = startProcess(
      attempt.launch(`sh -c "$AGENT"; echo after`, {
        env: { ...attempt.launch("").env, AGENT: agent },
      }),
      LIMITS,
    );
    await attempt.line("ready");
    step.stop("gently");
    expect(await step.ended).toEqual({ how: "stopped", message: "it was stopped" });
    expect(attempt.text("saved")).toBe("saved\n");
    expect(attempt.text("output.log")).not.toContain("after");
    expect(findMarked(attempt.marker)).toEqual([]);
  });

  test("kills a process that ignores SIGTERM after the grace period", async () => {
    const attempt = new Attempt();
    const step = startProcess(attempt.launch(IGNORES_TERM), { ...LIMITS, graceMs: 150 });
    const pid = await attempt.pid("ready");
    const start = performance.now();
    step.stop("gently");
    expect((await step.ended).how).toBe("stopped");
    expect(performance.now() - start).toBeGreaterThan(140);
    expect(isGone(pid)).toBe(true);
  });

  test.each([
    ["a stop at once", ["at-once"]],
    ["a second gentle stop", ["gently", "gently"]],
    ["a stop at once after a gentle one", ["gently", "at-once"]],
  ] as const)("does not wait for the grace period: %s", async (_name, stops) => {
    const attempt = new Attempt();
    const step = startProcess(attempt.launch(IGNORES_TERM), { ...LIMITS, graceMs: 600_000 });
    const pid = await attempt.pid("ready");
    for (const how of stops) step.stop(how);
    expect((await step.ended).how).toBe("stopped");
    expect(isGone(pid)).toBe(true);
  });

  test("reaches a process that left the session, the group and its parent", async () => {
    const attempt = new Attempt();
    const step = startProcess(attempt.launch(`${ESCAPES}${IGNORES_TERM}`), {
      ...LIMITS,
      graceMs: 50,
    });
    const [ready, escaped] = [await attempt.pid("ready"), await attempt.pid("escaped")];
    step.stop("gently");
    expect((await step.ended).how).toBe("stopped");
    expect([isGone(ready), isGone(escaped)]).toEqual([true, true]);
  });

  test("reaches a member of the group that dropped the marker", async () => {
    const attempt = new Attempt();
    const script = `env -i sh -c 'trap "" TERM; echo $$ >bare; while :; do /bin/sleep 1; done' &
      ${IGNORES_TERM}`;
    const step = startProcess(attempt.launch(script), { ...LIMITS, graceMs: 50 });
    const [bare] = [await attempt.pid("bare"), await attempt.pid("ready")];
    step.stop("gently");
    await step.ended;
    expect(isGone(bare)).toBe(true);
  });

  test("changes nothing after the exit status is complete (runner/V2)", async () => {
    const attempt = new Attempt();
    const gate = attempt.fifo("gate");
    const step = startProcess(attempt.launch(`read x <gate; exit 5`), LIMITS);
    await release(gate);
    // Busy waiting keeps the exit event from being delivered before the stop.
    const deadline = performance.now() + PATIENCE_MS;
    const exited = (): boolean => {
      try {
        return attempt.text("pid").startsWith("5 -\n");
      } catch (error) {
        if (error instanceof Error) return false;
        throw error;
      }
    };
    while (!exited() && performance.now() < deadline);
    step.stop("at-once");
    expect(await step.ended).toEqual({ how: "exited", exit: 5 });
  });

  test("counts as the end of a step that exits by itself after the signal", async () => {
    const attempt = new Attempt();
    const script = `trap 'exit 0' TERM; echo $$ >ready; while :; do sleep 0.05; done`;
    const step = startProcess(attempt.launch(script), LIMITS);
    await attempt.line("ready");
    step.stop("gently");
    expect((await step.ended).how).toBe("stopped");
  });
});

describe("a limit", () => {
  test("ends a step at its timeout", async () => {
    const attempt = new Attempt();
    const step = startProcess(attempt.launch(`${ESCAPES}sleep 600`), {
      ...LIMITS,
      timeoutMs: 200,
      graceMs: 50,
    });
    expect(await step.ended).toEqual({
      how: "timed-out",
      limit: "timeout",
      message: "it ran longer than its timeout of 200ms",
    });
    expect(findMarked(attempt.marker)).toEqual([]);
  });

  test("ends a step that writes nothing for its idle timeout", async () => {
    const attempt = new Attempt();
    const script = `for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done; exec sleep 600`;
    const start = performance.now();
    const step = startProcess(attempt.launch(script), { ...LIMITS, idleTimeoutMs: 1_500 });
    expect(await step.ended).toMatchObject({ how: "timed-out", limit: "idle" });
    expect(attempt.text("output.log")).toContain("1\n2\n3\n4\n5\n6\n7\n8\n");
    expect(performance.now() - start).toBeGreaterThan(2_900);
  });

  test("ends a step with too much output", async () => {
    const attempt = new Attempt();
    const step = startProcess(attempt.launch("yes"), { ...LIMITS, outputBytesMax: 1_000 });
    expect(await step.ended).toMatchObject({ how: "timed-out", limit: "output-limit" });
  });

  test("may be longer than Node's longest timer", async () => {
    const step = startProcess(new Attempt().launch("sleep 0.2"), {
      ...LIMITS,
      timeoutMs: 2 ** 33,
      idleTimeoutMs: 2 ** 33,
    });
    expect(await step.ended).toEqual({ how: "exited", exit: 0 });
  });
});

const waitForFile = (file: string): string => `until [ -s ${file} ]; do sleep 0.01; done\n`;

describe("a process that a step leaves running when it exits (runner/V3)", () => {
  test.each([
    ["a member of its group", `sh -c 'echo $$ >left; exec sleep 600' &\n`],
    ["one that left session, group and parent", ESCAPES.replace("escaped", "left")],
    ["one that dropped the marker", `env -i sh -c 'echo $$ >left; exec /bin/sleep 600' &\n`],
  ])("is ended and named: %s", async (_name, server) => {
    for (const exit of [0, 3]) {
      const attempt = new Attempt();
      const step = startProcess(
        attempt.launch(`${server}${waitForFile("left")}exit ${exit}`),
        LIMITS,
      );
      const ending = await step.ended;
      const pid = await attempt.pid("left");
      expect(isGone(pid)).toBe(true);
      expect(ending).toEqual({
        ...{ how: "exited", exit },
        left: [{ pid, command: expect.stringMatching(/sleep 600$/) }],
      });
    }
  });

  test("is also ended when the runner of the step is dead", async () => {
    const attempt = new Attempt();
    const script = `${ESCAPES}${waitForFile("escaped")}echo started >started`;
    const runner = await attempt.loneRunner(script);
    await runner.kill();
    const ending = await adoptProcess(attempt.dir, attempt.marker, LIMITS).ended;
    const pid = await attempt.pid("escaped");
    expect(ending).toMatchObject({ how: "exited", exit: 0, left: [{ pid }] });
    expect(isGone(pid)).toBe(true);
  });

  test("is not named if it ends by itself soon", async () => {
    const attempt = new Attempt();
    const step = startProcess(attempt.launch("(sleep 0.05; echo said >last) &"), LIMITS);
    expect(await step.ended).toEqual({ how: "exited", exit: 0 });
    expect(attempt.text("last")).toBe("said\n");
  });

  test("keeps running if the step may leave it running and has succeeded", async () => {
    for (const exit of [0, 1]) {
      const attempt = new Attempt();
      const script = `${ESCAPES}${waitForFile("escaped")}exit ${exit}`;
      const step = startProcess(attempt.launch(script), { ...LIMITS, leavesRunning: true });
      const ending = await step.ended;
      const pid = await attempt.pid("escaped");
      expect([exit, isGone(pid), "left" in ending]).toEqual([exit, exit === 1, exit === 1]);
    }
  });

  test("is ruled out for a young wrapper without a search of /proc (runner/L7)", async () => {
    // Other programs may start many processes meanwhile, so one success of several attempts is
    // enough.
    let answers: readonly boolean[] = [];
    const deadline = performance.now() + PATIENCE_MS;
    while (answers.at(1) !== false && performance.now() < deadline) {
      const attempt = new Attempt();
      const gate = attempt.fifo("gate");
      const step = startProcess(attempt.launch("read x <gate"), LIMITS);
      const claim = await waitFor("the claim", () => {
        const found = readClaim(attempt.dir);
        return found.by === "process" && findMarked(attempt.marker).length === 2 && found;
      });
      const tree = { marker: attempt.marker, leader: claim.identity };
      const during = mayBeAlive(tree, 1);
      await release(gate);
      await step.ended;
      answers = [during, mayBeAlive(tree, 1), mayBeAlive(tree, Number.POSITIVE_INFINITY)];
    }
    expect(answers).toEqual([true, false, true]);
  });
});

describe("a sweep", () => {
  test("ends a server that a step was allowed to leave running", async () => {
    const attempt = new Attempt();
    const step = startProcess(attempt.launch(ESCAPES), { ...LIMITS, leavesRunning: true });
    expect(await step.ended).toEqual({ how: "exited", exit: 0 });
    const escaped = await attempt.pid("escaped");
    await waitFor("the server", () => findMarked(attempt.marker).length === 1);
    expect(findMarked(attempt.marker)).toEqual([escaped]);
    expect(findMarked(attempt.marker.slice(0, -1))).toEqual([]);
    expect(await sweep(attempt.marker)).toBe(1);
    expect(isGone(escaped)).toBe(true);
  });
});
