import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { adoptProcess, lookAt } from "../../src/runner/process/adopt.ts";
import { readClaim } from "../../src/runner/process/attempt-folder.ts";
import { bootId, identityOf, ownIdentity } from "../../src/runner/process/identity.ts";
import { startProcess } from "../../src/runner/process/start.ts";
import { findMarked } from "../../src/runner/process/sweep.ts";
import { wrapperArguments } from "../../src/runner/process/wrapper.ts";
import { Attempt, isGone, LIMITS, release, waitFor } from "./rig.ts";

const STARTED = "echo $$ >started\n";
const PLAIN = { prefix: [], leash: undefined, leavesRunning: false };

const adopt = (attempt: Attempt, limits = LIMITS) =>
  adoptProcess(attempt.dir, attempt.marker, limits);

function wrapperPid(attempt: Attempt): number {
  const claim = readClaim(attempt.dir);
  if (claim.by !== "process") throw new Error(`claimed by ${claim.by}`);
  return claim.identity.pid;
}

/** The line of a claim, with another start time or boot if given. */
function claimLine(pid: number, start = ownIdentity().start, boot = bootId()): string {
  const fields = ["S", "1", pid, pid, ...Array(15).fill("0"), start, "0"];
  return `${boot} ${pid} (a) b (c) ${fields.join(" ")}\n`;
}

describe("adopting a step whose runner was killed", () => {
  test("follows a running step to its end", async () => {
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

  test("takes the result of a step that ended meanwhile", async () => {
    const attempt = new Attempt();
    const gate = attempt.fifo("gate");
    const runner = await attempt.loneRunner(`${STARTED}read x <gate; exit 7`);
    const wrapper = wrapperPid(attempt);
    await runner.kill();
    await release(gate);
    await waitFor("the wrapper's end", () => isGone(wrapper));
    expect(await adopt(attempt).ended).toEqual({ how: "exited", exit: 7 });
  });

  test("loses a step whose wrapper was killed too, and ends its orphans (runner/D1)", async () => {
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

  test("loses a step whose wrapper is killed while it is followed", async () => {
    const attempt = new Attempt();
    const runner = await attempt.loneRunner(`${STARTED}exec sleep 600`);
    await runner.kill();
    const step = adopt(attempt);
    process.kill(wrapperPid(attempt), "SIGKILL");
    expect((await step.ended).how).toBe("lost");
    expect(isGone(await attempt.pid("started"))).toBe(true);
  });

  test("can be followed by a stop at once, before the step is found", async () => {
    const attempt = new Attempt();
    const runner = await attempt.loneRunner(`${STARTED}exec sleep 600`);
    await runner.kill();
    const step = adopt(attempt);
    step.stop("gently");
    expect((await step.ended).how).toBe("stopped");
    expect(findMarked(attempt.marker)).toEqual([]);
  });

  test("counts the timeout from the start of the process (runner/D2)", async () => {
    const attempt = new Attempt();
    const runner = await attempt.loneRunner(`${STARTED}sleep 1; echo >later; exec sleep 600`);
    await runner.kill();
    await attempt.line("later");
    // A timeout that counts from now is up no earlier than this timer, however busy the machine is.
    const fromNow = sleep(1_000, "counted from the adoption");
    const { ended } = adopt(attempt, { ...LIMITS, timeoutMs: 1_000 });
    expect(await Promise.race([ended, fromNow])).toMatchObject({ how: "timed-out" });
  });

  test("measures idle time correctly when a file has a time in the future", async () => {
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

  test("does not take the exit status of a stop for that of the work (runner/A3)", async () => {
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

describe("adopting a step whose runner died around the spawn", () => {
  test("reports that the step has not started, and prevents its start", async () => {
    const attempt = new Attempt();
    await attempt.runnerThatDiesAt(1, "touch ran");
    expect(await adopt(attempt).ended).toEqual({
      how: "lost",
      started: false,
      message: "it had not started",
    });
    expect(attempt.has("ran")).toBe(false);
  });

  test("fences the step, or finds that it runs once", async () => {
    for (let round = 0; round < 5; round++) {
      const attempt = new Attempt();
      await attempt.runnerThatDiesAt(2, "echo ran >>ran; exit 7");
      const ending = await adopt(attempt).ended;
      if (ending.how === "lost") expect(attempt.has("ran")).toBe(false);
      else expect([ending, attempt.text("ran")]).toEqual([{ how: "exited", exit: 7 }, "ran\n"]);
    }
  });
});

describe("the evidence in an attempt's folder", () => {
  test("never lets a step start that was adopted before its start", async () => {
    const attempt = new Attempt();
    const lost = { how: "lost", started: false, message: "it had not started" };
    expect([lookAt(attempt.dir), readClaim(attempt.dir).by]).toEqual(["dead", "nobody"]);
    expect(await adopt(attempt).ended).toEqual(lost);
    const late = spawnSync("/bin/sh", wrapperArguments(attempt.dir, PLAIN), {
      cwd: attempt.cwd,
      env: { PERDURE_SCRIPT: "touch ran" },
    });
    expect([late.status, attempt.has("ran")]).toEqual([97, false]);
    expect(await adopt(attempt).ended).toEqual(lost);
  });

  test("lets either the fence or the wrapper claim the folder, never both", async () => {
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
  ])(
    "loses a step whose pid was reused (%s), and does not touch the other process",
    async (_name, line) => {
      const stranger = spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
      onTestFinished(() => void stranger.kill("SIGKILL"));
      await once(stranger, "spawn");
      for (const pid of [stranger.pid ?? 0, process.pid]) {
        const attempt = new Attempt();
        writeFileSync(join(attempt.dir, "pid"), line(pid));
        expect((await adopt(attempt).ended).how).toBe("lost");
        expect(isGone(pid)).toBe(false);
      }
    },
  );

  test("loses a step with an incomplete claim that no process can complete", async () => {
    const attempt = new Attempt();
    writeFileSync(join(attempt.dir, "pid"), `${bootId()} 12`);
    expect(await adopt(attempt).ended).toEqual({
      how: "lost",
      started: true,
      message: "it died while it was starting",
    });
  });

  test("waits for an incomplete claim while its process lives", async () => {
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

  test("follows a step of an earlier version to its exit status", async () => {
    const attempt = new Attempt();
    const gate = attempt.fifo("gate");
    // Version 0.1 wrote the claim alone, the status into another file, and then a line to `pid`.
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

  test("ignores an incomplete exit status (runner/A1)", async () => {
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

  test("ignores an exit status of an earlier version without its newline (runner/A1)", async () => {
    const attempt = new Attempt();
    writeFileSync(join(attempt.dir, "pid"), claimLine(process.pid, "1"));
    writeFileSync(join(attempt.dir, "exit"), "0 -");
    expect((await adopt(attempt).ended).how).toBe("lost");
  });

  test.each([
    [143, "lost"],
    [1, "exited"],
    [0, "exited"],
  ])(
    "takes exit status %i of a step that ended when the machine went down as: %s",
    async (exit, how) => {
      const attempt = new Attempt();
      writeFileSync(join(attempt.dir, "pid"), claimLine(1, "1", "other-boot"));
      writeFileSync(join(attempt.dir, "exit"), `${exit} -\n`);
      expect((await adopt(attempt).ended).how).toBe(how);
    },
  );

  test("ends a step whose folder was removed", async () => {
    const attempt = new Attempt();
    const runner = await attempt.loneRunner(`${STARTED}exec sleep 600`);
    await runner.kill();
    rmSync(attempt.dir, { recursive: true });
    expect((await adopt(attempt).ended).how).toBe("lost");
    expect(isGone(await attempt.pid("started"))).toBe(true);
  });
});

describe("a wrapper that is killed while its runner lives", () => {
  test("is lost, and its work is ended", async () => {
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
