import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import {
  ageMs,
  identityOf,
  isAlive,
  ownIdentity,
  parseIdentity,
  psStats,
  statOf,
  systemText,
  viewOf,
} from "../../src/runner/process/identity.ts";
import { systemClock } from "../../src/util/clock.ts";
import { Attempt, waitFor } from "./rig.ts";

/** The system counts in ticks, and Node counts from a moment after its start. */
const CLOCK_TICKS_MS = 1_000;

test("this process is alive and has its true age", () => {
  const own = ownIdentity();
  expect(own.pid).toBe(process.pid);
  expect(isAlive(own)).toBe(true);
  expect(isAlive({ ...own, start: `${own.start}0` })).toBe(false);
  expect(isAlive({ ...own, boot: "another" })).toBe(false);
  expect(isAlive({ ...own, namespace: "pid:[1]" })).toBe(false);
  // The age is asked for between two looks at the clock, so that a busy machine changes nothing.
  const youngest = process.uptime() * 1_000 - CLOCK_TICKS_MS;
  const age = ageMs(own);
  expect(age).toBeGreaterThan(youngest);
  expect(age).toBeLessThan(process.uptime() * 1_000 + CLOCK_TICKS_MS);
});

test("a process name may contain spaces and parentheses", async () => {
  const attempt = new Attempt();
  const program = join(attempt.cwd, "a) R (b 1");
  copyFileSync("/bin/sleep", program);
  const child = spawn(program, ["600"], { stdio: "ignore" });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child, "spawn");
  const pid = child.pid ?? 0;
  expect(statOf(pid)).toMatchObject({ pid, parent: process.pid, zombie: false });
  const [same] = psStats(["-p", String(pid)]);
  expect(same).toMatchObject({ pid, parent: process.pid, group: statOf(pid)?.group });
});

test("a zombie is dead (I2)", async () => {
  // The shell becomes a sleep that never asks for its child's exit status.
  const child = spawn("sh", ["-c", "sh -c 'echo $$' & exec sleep 600"]);
  onTestFinished(() => void child.kill("SIGKILL"));
  const [said] = await once(child.stdout, "data");
  const pid = Number(String(said));
  await waitFor("the zombie", () => statOf(pid)?.zombie);
  const identity = identityOf(pid);
  expect(identity !== undefined && isAlive(identity)).toBe(false);
});

test("a missing process has no identity", () => {
  expect(identityOf(2 ** 22 + 1)).toBeUndefined();
});

test("the clock starts at the wall time and ignores changes of the system's clock", () => {
  const clock = systemClock();
  expect(Math.abs(clock.now() - Date.now())).toBeLessThan(1_000);
  const real = Date.now;
  onTestFinished(() => {
    Date.now = real;
  });
  const before = clock.now();
  Date.now = () => 0;
  expect(clock.now()).toBeGreaterThanOrEqual(before);
});

test("a process of another system is dead only if that is proven (runner/I4)", () => {
  const ours = { boot: "b", namespace: "n", machine: "m" };
  const views: readonly [Partial<typeof ours>, ReturnType<typeof viewOf>][] = [
    [{}, "here"],
    [{ namespace: "other" }, "unknown"],
    [{ boot: "other" }, "dead"],
    [{ boot: "other", namespace: "other" }, "dead"],
    [{ boot: "other", machine: "other" }, "unknown"],
  ];
  for (const [change, view] of views) expect(viewOf({ ...ours, ...change }, ours)).toBe(view);
  expect(viewOf({ boot: "other", namespace: "n" }, ours)).toBe("unknown");
  expect(viewOf({ boot: "other", namespace: "n" }, { boot: "b", namespace: "n" })).toBe("unknown");
  expect(viewOf({ boot: "b" }, ours), "an older record").toBe("here");
  expect(viewOf({ boot: "other" }, ours), "an older record").toBe("dead");
});

test("a line of an older wrapper is read", () => {
  const stat = readFileSync("/proc/self/stat", "utf8").trim();
  const old = parseIdentity(`boot-of-old ${stat}`);
  expect(old).toMatchObject({ pid: process.pid, boot: "boot-of-old" });
  expect(old).not.toHaveProperty("namespace");
  const { start, boot, namespace, machine } = ownIdentity();
  expect(parseIdentity(`${systemText()} ${stat}`)).toEqual({
    ...{ pid: process.pid, start, boot },
    ...(namespace === undefined ? {} : { namespace }),
    ...(machine === undefined ? {} : { machine }),
  });
});
