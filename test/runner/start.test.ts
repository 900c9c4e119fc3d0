import { chmodSync, existsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readClaim } from "../../src/runner/process/attempt-folder.ts";
import { startProcess } from "../../src/runner/process/start.ts";
import { Attempt, LIMITS } from "./rig.ts";

const run = (attempt: Attempt, script: string, more = {}) =>
  startProcess(attempt.launch(script, more), LIMITS).ended;

describe("a step's exit status", () => {
  test.each([
    ["true", 0],
    ["exit 3", 3],
    ["false\necho not reached", 1],
    ["exit 137", 137],
    ["kill $$", 143],
    ["no-such-command-at-all", 127],
    ["if", 2],
    ["exit 97", 97],
  ])("%s exits with %i", async (script, exit) => {
    const attempt = new Attempt();
    expect(await run(attempt, script)).toEqual({ how: "exited", exit });
    expect(attempt.text("pid").startsWith(`${exit} -\n`)).toBe(true);
    expect(attempt.text("output.log")).not.toContain("not reached");
  });

  test.each(["kill -9 $$", "sh -c 'kill -9 $$'", "timeout -s KILL 0.01 sleep 60"])(
    "%s kills the work, so the attempt is lost",
    async (script) => {
      const attempt = new Attempt();
      const loss = { how: "lost", started: true, message: "it was killed (SIGKILL)" };
      expect(await run(attempt, script)).toEqual(loss);
      expect(attempt.text("pid").startsWith("137 -\n")).toBe(true);
    },
  );

  test("is followed by checks only if it is 0", async () => {
    const good = new Attempt();
    expect(await run(good, "echo work", { checks: [{ script: "echo fine >&2" }] })).toEqual({
      how: "exited",
      exit: 0,
      checkExit: 0,
    });
    expect(good.text("check.log")).toBe("fine\n");
    expect(good.text("output.log")).toBe("work\n");
    expect(await run(new Attempt(), "true", { checks: [{ script: "exit 4" }] })).toEqual({
      how: "exited",
      exit: 0,
      checkExit: 4,
    });
    const bad = new Attempt();
    expect(await run(bad, "exit 2", { checks: [{ script: "touch checked" }] })).toEqual({
      how: "exited",
      exit: 2,
    });
    expect(bad.has("checked")).toBe(false);
  });
});

describe("a step", () => {
  test("runs in its own directory and session, and its stdout and stderr are in order", async () => {
    const attempt = new Attempt();
    const script = `echo a; echo b >&2; echo c; pwd; ps -o sid= -p $$ | tr -d ' '`;
    await run(attempt, script);
    const claim = readClaim(attempt.dir);
    const session = claim.by === "process" ? claim.identity.pid : "unclaimed";
    expect(attempt.text("output.log")).toBe(`a\nb\nc\n${attempt.cwd}\n${session}\n`);
  });

  test("has stderr in a file of its own if required", async () => {
    const attempt = new Attempt();
    await run(attempt, "echo out; echo err >&2", { separateStderr: true });
    expect(attempt.text("output.log")).toBe("out\n");
    expect(attempt.text("stderr.log")).toBe("err\n");
  });

  test("has a file or nothing as stdin", async () => {
    const attempt = new Attempt();
    const stdin = join(attempt.root, "prompt");
    writeFileSync(stdin, "a prompt\n");
    await run(attempt, "cat", { stdin });
    expect(attempt.text("output.log")).toBe("a prompt\n");
    expect(await run(new Attempt(), "cat")).toEqual({ how: "exited", exit: 0 });
  });

  test("has exactly the environment of the launch, and default signals", async () => {
    const attempt = new Attempt();
    const env = { ...attempt.launch("").env, stat: "mine", boot: "mine", check: "mine" };
    await run(attempt, `env; grep -E "^Sig(Ign|Blk)" /proc/self/status`, { env });
    const lines = attempt.text("output.log").trim().split("\n");
    expect(lines).toContain("stat=mine");
    expect(lines.filter((line) => line.startsWith("perdure_"))).toEqual([]);
    expect(lines.filter((line) => /^Sig.*[1-9a-f]/.test(line.slice(6)))).toEqual([]);
  });

  test("has files that nobody else can read (runner/T1)", async () => {
    const attempt = new Attempt();
    const long = `: ${"x".repeat(100_000)}\n`;
    const before = process.umask(0);
    try {
      const launch = { checks: [{ script: `${long}umask` }], separateStderr: true };
      await run(attempt, `${long}umask; touch mine`, launch);
    } finally {
      process.umask(before);
    }
    const names = ["script.sh", "check.sh", "pid", "output.log", "stderr.log", "check.log"];
    for (const name of names) {
      expect([name, statSync(join(attempt.dir, name)).mode & 0o777]).toEqual([name, 0o600]);
    }
    expect([attempt.text("output.log"), attempt.text("check.log")]).toEqual(["0000\n", "0000\n"]);
    expect(statSync(join(attempt.cwd, "mine")).mode & 0o777).toBe(0o666);
  });

  test("does not find its script in a file or in its environment", async () => {
    const attempt = new Attempt();
    await run(attempt, "env; kill $$; echo not reached", { checks: [{ script: "true" }] });
    expect(attempt.text("output.log")).not.toContain("SCRIPT");
    expect(attempt.text("output.log")).not.toContain("not reached");
    expect(existsSync(join(attempt.dir, "script.sh"))).toBe(false);
  });

  test("prints errors with the line number of the script", async () => {
    const attempt = new Attempt();
    const ending = await run(attempt, "# one\ntrue\nno-such-program");
    expect(ending).toEqual({ how: "exited", exit: 127 });
    expect(attempt.text("output.log")).toMatch(
      /attempt: (line )?3: (eval: )?no-such-program: .*not found/,
    );
  });
});

describe("a step that cannot start reports that", () => {
  test("its working directory is missing", async () => {
    const attempt = new Attempt();
    const ending = await run(attempt, "true", { cwd: "/no/such/place" });
    expect(ending).toEqual({
      how: "not-started",
      message: "it could not start: its working directory /no/such/place is not there: create it",
    });
  });

  test("its environment is too large", async () => {
    const attempt = new Attempt();
    const env = { ...attempt.launch("").env, BIG: "x".repeat(200_000) };
    const ending = await run(attempt, "true", { env });
    expect(ending).toMatchObject({ how: "not-started" });
    expect("message" in ending && ending.message).toContain("pass large values through files");
  });

  test("its stdin or its folder is missing", async () => {
    const attempt = new Attempt();
    const noStdin = await run(attempt, "true", { stdin: "/no/such/prompt" });
    expect("message" in noStdin && noStdin.message).toContain("/no/such/prompt, is not there");
    const noFolder = await run(attempt, "true", { dir: "/no/such/attempt" });
    expect("message" in noFolder && noFolder.message).toContain("/no/such/attempt is gone");
  });

  test("its folder is already claimed (runner/A2)", async () => {
    const attempt = new Attempt();
    writeFileSync(join(attempt.dir, "pid"), "fenced\n");
    chmodSync(join(attempt.dir, "pid"), 0o600);
    const ending = await run(attempt, "touch ran");
    expect(ending).toMatchObject({ how: "not-started" });
    expect("message" in ending && ending.message).toContain("it ran nothing");
    expect(attempt.has("ran")).toBe(false);
  });
});
