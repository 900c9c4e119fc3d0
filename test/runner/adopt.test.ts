import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { adoptProcess, lookAt } from "../../src/runner/process/adopt.ts";
import { readClaim } from "../../src/runner/process/attempt-folder.ts";
import { bootId, identityOf, isAlive, ownIdentity } from "../../src/runner/process/identity.ts";
import { startProcess } from "../../src/runner/process/start.ts";
import { findMarked } from "../../src/runner/process/sweep.ts";
import { wrapperArguments } from "../../src/runner/process/wrapper.ts";
import { Attempt, LIMITS, release, waitFor } from "./rig.ts";

const STARTED = "echo $$ >started\n";

const adopt = (attempt: Attempt, limits = LIMITS) =>
  adoptProcess(attempt.dir, attempt.marker, limits);

function wrapperPid(attempt: Attempt): number {
  const claim = readClaim(attempt.dir);
  if (claim.by !== "process") throw new Error(`claimed by ${claim.by}`);
  return claim.identity.pid;
}

function isGone(pid: number): boolean {
  const identity = identityOf(pid);
  return identity === undefined || !isAlive(identity);
}

/** The raw stat line of a process, with another start time if asked. */
function claimLine(pid: number, start = ownIdentity().start, boot = bootId()): string {
  const fields = ["S", "1", pid, pid, ...Array(15).fill("0"), start, "0"];
  return `${boot} ${pid} (a) b (c) ${fields.join(" ")}\n`;
}

describe("the runner is killed, the step is not", () => {
  test("still running: followed to its end, and soon", async () => {
    const attempt = new Attempt();
    const gate = attempt.fifo("gate");
    const runner = await attempt.loneRunner(`${STARTED}read x <gate; echo done; exit 7`);
    await runner.kill();
    expect(lookAt(attempt.dir)).toBe("alive");
    const step = adopt(attempt);
    await release(gate);
    expect(await step.ended).toEqual({ how: "exited", exit: 7 });
    expect(lookAt(attempt.dir)).toBe("exited");
    expect(attempt.text("output.log")).toBe("done\n");
  });

  test("ended meanwhile: its result is taken", async () => {
    const attempt = new Attempt();
    const gate = attempt.fifo("gate");
    const runner = await attempt.loneRunner(`${STARTED}read x <gate; exit 7`);
    const wrapper = wrapperPid(attempt);
    await runner.kill();
    await release(gate);
    await waitFor("the wrapper's end", () => isGone(wrapper));
    expect(await adopt(attempt).ended).toEqual({ how: "exited", exit: 7 });
  });

  test("the wrapper is killed too: lost, and its orphans are dead (runner/D1)", async () => {
    const attempt = new Attempt();
    const orphan = `setsid sh -c 'echo $$ >orphan; exec sleep 600' &\n`;
    const runner = await attempt.loneRunner(`${orphan}${STARTED}exec sleep 600`);
    const pids = [await attempt.pid("orphan"), await attempt.pid("started")];
    await runner.kill();
    process.kill(wrapperPid(attempt), "SIGKILL");
    await waitFor("the wrapper's end", () => isGone(wrapperPid(attempt)));
    expect(pids.map(isGone)).toEqual([false, false]);
    expect(await adopt(attempt).ended).toEqual({
      how: "lost",
      started: true,
      message: "its process is gone and left no exit status",
    });
    expect(pids.map(isGone)).toEqual([true, true]);
  });

  test("the wrapper is killed while it is followed", async () => {
    const attempt = new Attempt();
    const runner = await attempt.loneRunner(`${STARTED}exec sleep 600`);
    await runner.kill();
    const step = adopt(attempt);
    process.kill(wrapperPid(attempt), "SIGKILL");
    expect((await step.ended).how).toBe("lost");
    expect(isGone(await attempt.pid("started"))).toBe(true);
  });

  test("an adopted step can be stopped, even before it is found", async () => {
    const attempt = new Attempt();
    const runner = await attempt.loneRunner(`${STARTED}exec sleep 600`);
    await runner.kill();
    const step = adopt(attempt);
    step.stop("gently");
    expect((await step.ended).how).toBe("stopped");
    expect(findMarked(attempt.marker)).toEqual([]);
  });

  test("the timeout counts from the process's own start (runner/D2)", async () => {
    const attempt = new Attempt();
    const runner = await attempt.loneRunner(`${STARTED}sleep 1; echo >later; exec sleep 600`);
    await runner.kill();
    await attempt.line("later");
    // A timeout that counts from now is up no earlier than this timer, however busy the machine is.
    const fromNow = sleep(1_000, "counted from the adoption");
    const { ended } = adopt(attempt, { ...LIMITS, timeoutMs: 1_000 });
    expect(await Promise.race([ended, fromNow])).toMatchObject({ how: "timed-out" });
  });

  test("a file time in the future neither ends it early nor never", async () => {
    const attempt = new Attempt();
    const runner = await attempt.loneRunner(`${STARTED}exec sleep 600`);
    await runner.kill();
    const tomorrow = Date.now() / 1_000 + 86_400;
    utimesSync(join(attempt.dir, "output.log"), tomorrow, tomorrow);
    const start = performance.now();
    const ending = await adopt(attempt, { ...LIMITS, idleTimeoutMs: 500 }).ended;
    expect(ending).toMatchObject({ how: "timed-out", limit: "idle" });
    expect(performance.now() - start).toBeGreaterThan(450);
  });

  test("killed while stopping it: the signal's exit status is not the work's (runner/A3)", async () => {
    const attempt = new Attempt();
    const gate = attempt.fifo("gate");
    const script = `trap 'read x <gate; exit 0' TERM; ${STARTED}while :; do sleep 0.05; done`;
    const step = startProcess(attempt.launch(script), LIMITS);
    await attempt.line("started");
    step.stop("gently");
    const other = adopt(attempt);
    await release(gate);
    const lost = {
      how: "lost",
      started: true,
      message: "it was being stopped when its runner died",
    };
    expect(await other.ended).toEqual(lost);
    await step.ended;
    expect(await adopt(attempt).ended).toEqual(lost);
  });
});

describe("the runner dies around the spawn", () => {
  test("before it: the step had not started, and never will", async () => {
    const attempt = new Attempt();
    await attempt.runnerThatDiesAt(1, "touch ran");
    expect(await adopt(attempt).ended).toEqual({
      how: "lost",
      started: false,
      message: "it had not started",
    });
    expect(attempt.has("ran")).toBe(false);
  });

  test("right after it: the step runs once, or is fenced and never runs", async () => {
    for (let round = 0; round < 5; round++) {
      const attempt = new Attempt();
      await attempt.runnerThatDiesAt(2, "echo ran >>ran; exit 7");
      const ending = await adopt(attempt).ended;
      if (ending.how === "lost") expect(attempt.has("ran")).toBe(false);
      else expect([ending, attempt.text("ran")]).toEqual([{ how: "exited", exit: 7 }, "ran\n"]);
    }
  });
});

describe("evidence", () => {
  test("the fence: adopted before it started, it never starts", async () => {
    const attempt = new Attempt();
    const lost = { how: "lost", started: false, message: "it had not started" };
    expect([lookAt(attempt.dir), readClaim(attempt.dir).by]).toEqual(["dead", "nobody"]);
    expect(await adopt(attempt).ended).toEqual(lost);
    const late = spawnSync(
      "/bin/sh",
      wrapperArguments({ dir: attempt.dir, name: "late", prefix: [], isLeftRunning: false }),
      {
        cwd: attempt.cwd,
        env: { PERDURE_SCRIPT: "touch ran" },
      },
    );
    expect([late.status, attempt.has("ran")]).toEqual([97, false]);
    expect(await adopt(attempt).ended).toEqual(lost);
  });

  test("the race between the fence and the wrapper has one winner", async () => {
    for (let round = 0; round < 20; round++) {
      const attempt = new Attempt();
      const step = startProcess(attempt.launch("touch ran"), LIMITS);
      if (round % 2 === 1) await new Promise(setImmediate);
      const [own, other] = await Promise.all([step.ended, adopt(attempt).ended]);
      expect([own.how, other.how, attempt.has("ran")]).toSatisfy(
        ([mine, theirs, ran]) =>
          (theirs === "exited" && mine === "exited" && ran) ||
          (theirs === "lost" && mine !== "exited" && !ran),
      );
    }
  });

  test.each([
    ["another start time", (pid: number) => claimLine(pid, "1")],
    ["another boot", (pid: number) => claimLine(pid, identityOf(pid)?.start, "other-boot")],
  ])("a reused pid, %s: lost, and the stranger is not touched", async (_name, line) => {
    const stranger = spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
    onTestFinished(() => void stranger.kill("SIGKILL"));
    await once(stranger, "spawn");
    for (const pid of [stranger.pid ?? 0, process.pid]) {
      const attempt = new Attempt();
      writeFileSync(join(attempt.dir, "pid"), line(pid));
      expect((await adopt(attempt).ended).how).toBe("lost");
      expect(isGone(pid)).toBe(false);
    }
  });

  test("an incomplete claim: lost when nobody is left to complete it", async () => {
    const attempt = new Attempt();
    writeFileSync(join(attempt.dir, "pid"), `${bootId()} 12`);
    expect(await adopt(attempt).ended).toEqual({
      how: "lost",
      started: true,
      message: "it died while it was starting",
    });
  });

  test("an incomplete claim: waited for while its process lives", async () => {
    const attempt = new Attempt();
    const gate = attempt.fifo("gate");
    const started = startProcess(attempt.launch(`${STARTED}read x <gate; exit 3`), LIMITS);
    await attempt.line("started");
    const whole = attempt.text("pid");
    writeFileSync(join(attempt.dir, "pid"), whole.trimEnd());
    const step = adopt(attempt);
    await new Promise(setImmediate);
    writeFileSync(join(attempt.dir, "pid"), whole);
    await release(gate);
    expect(await step.ended).toEqual({ how: "exited", exit: 3 });
    await started.ended;
  });

  test("a step that an earlier version started is followed to its exit status", async () => {
    const attempt = new Attempt();
    const gate = attempt.fifo("gate");
    // The files as version 0.1 wrote them: the claim alone, the status beside it, then the bell.
    const wrapper = `read -r stat </proc/$$/stat; echo "$1 $stat" >"$2/pid"; read x <gate
      echo "4 -" >"$2/exit"; echo >>"$2/pid"`;
    const old = spawn("/bin/sh", ["-c", wrapper, "sh", bootId(), attempt.dir], {
      cwd: attempt.cwd,
      env: attempt.launch("").env,
      detached: true,
      stdio: "ignore",
    });
    await waitFor("its claim", () => readClaim(attempt.dir).by === "process");
    expect(lookAt(attempt.dir)).toBe("alive");
    const step = adopt(attempt);
    await release(gate);
    expect(await step.ended).toEqual({ how: "exited", exit: 4 });
    expect(old.pid).toBeGreaterThan(0);
  });

  test("an exit status that is not whole does not count (runner/A1)", async () => {
    for (const status of ["0 -...........", "0 ............", "12............."]) {
      const attempt = new Attempt();
      const line = claimLine(process.pid, "1");
      writeFileSync(join(attempt.dir, "pid"), `${status.padEnd(15, ".")}\n${line}`);
      expect((await adopt(attempt).ended).how, status).toBe("lost");
    }
    const whole = new Attempt();
    const line = claimLine(process.pid, "1");
    writeFileSync(join(whole.dir, "pid"), `0 -\n...........\n${line}`);
    expect(await adopt(whole).ended).toEqual({ how: "exited", exit: 0 });
  });

  test("an exit status of an earlier version without its newline does not count (runner/A1)", async () => {
    const attempt = new Attempt();
    writeFileSync(join(attempt.dir, "pid"), claimLine(process.pid, "1"));
    writeFileSync(join(attempt.dir, "exit"), "0 -");
    expect((await adopt(attempt).ended).how).toBe("lost");
  });

  test.each([
    [143, "lost"],
    [1, "exited"],
    [0, "exited"],
  ])("exit %i written when the machine went down: %s", async (exit, how) => {
    const attempt = new Attempt();
    writeFileSync(join(attempt.dir, "pid"), claimLine(1, "1", "other-boot"));
    writeFileSync(join(attempt.dir, "exit"), `${exit} -\n`);
    expect((await adopt(attempt).ended).how).toBe(how);
  });

  test("its folder was removed: what still runs is ended, nothing runs twice", async () => {
    const attempt = new Attempt();
    const runner = await attempt.loneRunner(`${STARTED}exec sleep 600`);
    await runner.kill();
    rmSync(attempt.dir, { recursive: true });
    expect((await adopt(attempt).ended).how).toBe("lost");
    expect(isGone(await attempt.pid("started"))).toBe(true);
  });
});

describe("a wrapper that is killed under its runner", () => {
  test("is lost, and what it ran is dead", async () => {
    const attempt = new Attempt();
    const step = startProcess(attempt.launch(`${STARTED}exec sleep 600`), LIMITS);
    const work = await attempt.pid("started");
    process.kill(wrapperPid(attempt), "SIGKILL");
    expect(await step.ended).toEqual({
      how: "lost",
      started: true,
      message: "its process ended (SIGKILL) without an exit status",
    });
    expect(isGone(work)).toBe(true);
  });
});
