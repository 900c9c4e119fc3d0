/** The leash of a step of a fleet run, with real processes (leash/K1 to K3). */
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { adoptProcess } from "../../src/runner/process/adopt.ts";
import { leashFile, uptimeSeconds, writeLeash } from "../../src/runner/process/leash.ts";
import { startProcess } from "../../src/runner/process/start.ts";
import { findMarked } from "../../src/runner/process/sweep.ts";
import { wrapperArguments } from "../../src/runner/process/wrapper.ts";
import { Attempt, LIMITS, release, waitFor } from "./rig.ts";

const HOUR_SECONDS = 3_600;
/** A stand-in for docker. */
const RUNTIME = resolve(import.meta.dirname, "../rig/container-runtime.ts");

/**
 * A script that ignores the signals of a stop, with children in its group and in another session.
 */
const STUBBORN = `
trap '' TERM INT HUP
sleep 1000 &
setsid sh -c 'trap "" TERM; echo $$ >far; while :; do sleep 1000; done' &
while [ ! -s far ]; do :; done
echo $$ >started
while :; do sleep 1000; done
`;

/** An attempt whose leash lasts for an hour. */
function leashed(): { readonly attempt: Attempt; readonly leash: string } {
  const attempt = new Attempt();
  const leash = leashFile(attempt.root);
  writeLeash(leash, uptimeSeconds() + HOUR_SECONDS);
  return { attempt, leash };
}

/** Resolves when no process of the attempt is left. */
const allGone = (attempt: Attempt): Promise<unknown> =>
  waitFor("the end of all processes", () => findMarked(attempt.marker).length === 0);

describe("a step on a leash", () => {
  test("ends like any other step before the deadline, and leaves no process running", async () => {
    const { attempt, leash } = leashed();
    const checks = [{ script: "echo fine" }];
    const launch = attempt.launch("echo work", { leash, checks });
    const done = { how: "exited", exit: 0, checkExit: 0 };
    expect(await startProcess(launch, LIMITS).ended).toEqual(done);
    expect(attempt.text("output.log")).toBe("work\n");
    expect(findMarked(attempt.marker)).toEqual([]);
    const stopped = leashed();
    const process = startProcess(
      stopped.attempt.launch("echo yes >started; sleep 1000", { leash: stopped.leash }),
      LIMITS,
    );
    await stopped.attempt.line("started");
    process.stop("gently");
    expect(await process.ended).toMatchObject({ how: "stopped" });
    expect(findMarked(stopped.attempt.marker)).toEqual([]);
  });

  test.each(["passed", "removed"])(
    "is killed with its process tree when its deadline is %s",
    async (how) => {
      const { attempt, leash } = leashed();
      const { ended } = startProcess(attempt.launch(STUBBORN, { leash }), LIMITS);
      await attempt.line("started");
      if (how === "passed") writeLeash(leash, uptimeSeconds());
      else rmSync(leash);
      // No exit status is recorded (leash/K2).
      expect(await ended).toMatchObject({ how: "lost", started: true });
      await allGone(attempt);
    },
  );

  test("is killed in its container, which its watcher finds through the runtime", async () => {
    const { attempt, leash } = leashed();
    const [bin, state] = ["bin", "runtime"].map((name) => join(attempt.root, name)) as [
      string,
      string,
    ];
    for (const folder of [bin, state, join(attempt.root, "attempts")]) mkdirSync(folder);
    // The watcher looks for the folders of attempts where a run has them.
    symlinkSync(attempt.dir, join(attempt.root, "attempts", "it"));
    const docker = `#!/bin/sh\nRUNTIME_STATE='${state}' exec '${process.execPath}' '${RUNTIME}' "$@"\n`;
    writeFileSync(join(bin, "docker"), docker, { mode: 0o755 });
    vi.stubEnv("PATH", `${bin}:${process.env.PATH}`);
    onTestFinished(() => void vi.unstubAllEnvs());
    const mounts = [{ path: attempt.root, mode: "writable" }] as const;
    const sandbox = { image: "alpine", mounts, clientOnly: ["PATH"] };
    const runner = await attempt.loneRunner("echo yes >started; sleep 1000", { leash, sandbox });
    await runner.kill();
    const containers = (): number => readdirSync(join(state, "containers")).length;
    expect(containers()).toBe(1);
    writeLeash(leash, uptimeSeconds());
    await waitFor("the end of the container", () => containers() === 0);
    await allGone(attempt);
  });

  test("never starts after its deadline", async () => {
    const { attempt, leash } = leashed();
    writeLeash(leash, uptimeSeconds());
    const { ended } = startProcess(attempt.launch("touch happened", { leash }), LIMITS);
    expect(await ended).toMatchObject({ how: "lost" });
    expect(attempt.has("happened")).toBe(false);
  });

  test.each(["SIGKILL", "SIGSTOP"] as const)(
    "survives %s of its runner until the deadline",
    async (signal) => {
      const { attempt, leash } = leashed();
      const runner = await attempt.loneRunner(STUBBORN, { leash });
      await runner.signal(signal);
      const alive = findMarked(attempt.marker).length;
      expect(alive).toBeGreaterThan(3);
      writeLeash(leash, uptimeSeconds());
      await allGone(attempt);
      const found = await adoptProcess(attempt.dir, attempt.marker, LIMITS).ended;
      expect(found).toMatchObject({ how: "lost", started: true });
      if (signal === "SIGSTOP") await runner.kill();
    },
  );

  test("continues while the deadline is extended", async () => {
    const { attempt, leash } = leashed();
    const gate = attempt.fifo("gate");
    const first = uptimeSeconds() + 2;
    writeLeash(leash, first);
    const script = `echo yes >started; read -r word <${gate}; echo "$word"`;
    const { ended } = startProcess(attempt.launch(script, { leash }), LIMITS);
    await attempt.line("started");
    await waitFor("the first deadline", () => {
      writeLeash(leash, uptimeSeconds() + HOUR_SECONDS);
      return uptimeSeconds() > first + 2;
    });
    await release(gate);
    expect(await ended).toEqual({ how: "exited", exit: 0 });
  });

  test("leaves background processes on the same leash", async () => {
    const { attempt, leash } = leashed();
    const limits = { ...LIMITS, leavesRunning: true } as const;
    const script = "sleep 1000 & echo $! >server";
    const { ended } = startProcess(attempt.launch(script, { leash }), limits);
    expect(await ended).toEqual({ how: "exited", exit: 0 });
    const server = await attempt.pid("server");
    expect(findMarked(attempt.marker)).toContain(server);
    writeLeash(leash, uptimeSeconds());
    await allGone(attempt);
    // A failed step leaves nothing running, and its watcher is not a leftover.
    const failed = leashed();
    const bad = failed.attempt.launch("exit 3", { leash: failed.leash });
    expect(await startProcess(bad, limits).ended).toEqual({ how: "exited", exit: 3 });
  });
});

describe("a step without a leash", () => {
  test("has no watcher and no further arguments", async () => {
    const options = { prefix: [], leash: undefined, leavesRunning: false };
    const plain = wrapperArguments("/d", options);
    const onLeash = wrapperArguments("/d", { ...options, leash: "/l" });
    expect(plain).toHaveLength(8);
    expect(plain.slice(2)).toEqual(onLeash.slice(2, 8));
    const lines = (text = ""): readonly string[] => text.split("\n");
    const added = lines(onLeash[1]).filter((line) => !lines(plain[1]).includes(line));
    expect(added.join("\n")).toContain("perdure_leash");
    expect(lines(onLeash[1]).filter((line) => !added.includes(line))).toEqual(lines(plain[1]));
    const attempt = new Attempt();
    const gate = attempt.fifo("gate");
    const { ended } = startProcess(attempt.launch(`echo yes >started; read -r x <${gate}`), LIMITS);
    await attempt.line("started");
    expect(findMarked(attempt.marker)).toHaveLength(2);
    expect(readFileSync(join(attempt.dir, "pid"), "utf8")).not.toContain("leash");
    await release(gate);
    expect(await ended).toEqual({ how: "exited", exit: 0 });
  });
});
