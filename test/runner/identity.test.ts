import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import {
  ageMs,
  identityOf,
  isAlive,
  ownIdentity,
  psStats,
  statOf,
} from "../../src/runner/identity.ts";
import { systemClock } from "../../src/util/clock.ts";
import { Attempt, waitFor } from "./rig.ts";

test("this process is alive, and no older or younger than it is", () => {
  const own = ownIdentity();
  expect(own.pid).toBe(process.pid);
  expect(isAlive(own)).toBe(true);
  expect(isAlive({ ...own, start: `${own.start}0` })).toBe(false);
  expect(isAlive({ ...own, boot: "another" })).toBe(false);
  expect(Math.abs(ageMs(own) - process.uptime() * 1_000)).toBeLessThan(1_000);
});

test("a name with spaces and parentheses does not confuse it", async () => {
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

test("there is no identity of what does not run", () => {
  expect(identityOf(2 ** 22 + 1)).toBeUndefined();
});

test("the clock goes on from the wall time, whatever the system's clock does", () => {
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
