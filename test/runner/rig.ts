/** Shared by the tests of the runner: real folders, real processes, waiting without sleeps. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { identityOf, isAlive } from "../../src/runner/process/identity.ts";
import type { Launch, Limits } from "../../src/runner/process/step-process.ts";
import { attemptMarker, sweep } from "../../src/runner/process/sweep.ts";
import { eventually } from "../rig/project.ts";

const LONE_RUNNER = fileURLToPath(new URL("lone-runner.ts", import.meta.url));

/** Generous limits; a test overrides the one it is about. */
export const LIMITS: Limits = { outputBytesMax: 10_000_000, graceMs: 10_000 };

/** One attempt of a test: its folder, and its own working directory. */
export class Attempt {
  readonly root = mkdtempSync(join(tmpdir(), "perdure-runner-"));
  readonly dir = join(this.root, "attempt");
  readonly cwd = join(this.root, "work");
  readonly marker: string;
  readonly #id = randomUUID();

  constructor() {
    this.marker = attemptMarker(this.#id);
    mkdirSync(this.dir, { mode: 0o700 });
    mkdirSync(this.cwd);
    onTestFinished(async () => {
      await sweep(this.marker);
      rmSync(this.root, { recursive: true, force: true });
    });
  }

  launch(script: string, more: Partial<Launch> = {}): Launch {
    const env = { PATH: process.env.PATH ?? "/usr/bin:/bin", PERDURE_ATTEMPT_ID: this.#id };
    return { dir: this.dir, cwd: this.cwd, env, script, separateStderr: false, ...more };
  }

  /** A pipe on which a step waits until the test releases it. */
  fifo(name: string): string {
    const path = join(this.cwd, name);
    execFileSync("mkfifo", [path]);
    return path;
  }

  /** The text of a file in the attempt's folder, or in the work folder. */
  text(name: string): string {
    const file = join(this.dir, name);
    return readFileSync(existsSync(file) ? file : join(this.cwd, name), "utf8");
  }

  has(name: string): boolean {
    return existsSync(join(this.cwd, name));
  }

  /** The content of a file that a step writes, once it ends with a newline. */
  line(name: string): Promise<string> {
    return waitFor(name, () => {
      const text = this.has(name) ? this.text(name) : "";
      return text.endsWith("\n") ? text.trim() : undefined;
    });
  }

  async pid(name: string): Promise<number> {
    return Number(await this.line(name));
  }

  /** A separate runner that kills itself at the n-th failpoint; resolves when it is dead. */
  async runnerThatDiesAt(failpoint: number, script: string): Promise<void> {
    const env = { PERDURE_FAILPOINT: String(failpoint) };
    await once(this.#spawnRunner(this.launch(script), env), "exit");
  }

  #spawnRunner(launch: Launch, env: Record<string, string>): ChildProcess {
    const args = [LONE_RUNNER, JSON.stringify(launch), JSON.stringify(LIMITS)];
    return spawn(process.execPath, args, {
      env: { ...process.env, ...env },
      stdio: ["ignore", "ignore", "inherit"],
    });
  }

  /** A separate runner; resolves when its script has written the file "started". */
  async loneRunner(script: string, more: Partial<Launch> = {}): Promise<LoneRunner> {
    const child = this.#spawnRunner(this.launch(script, more), {});
    await this.line("started");
    const signal: LoneRunner["signal"] = async (name) => {
      const ended = once(child, "exit");
      child.kill(name);
      if (name === "SIGKILL") await ended;
    };
    return { signal, kill: () => signal("SIGKILL") };
  }
}

interface LoneRunner {
  kill(): Promise<void>;
  /** Sends a signal; waits for the end after SIGKILL. */
  signal(name: "SIGKILL" | "SIGSTOP"): Promise<void>;
}

/** True when no living process has this pid. */
export function isGone(pid: number): boolean {
  const identity = identityOf(pid);
  return identity === undefined || !isAlive(identity);
}

/** Waits until the probe returns something. */
export async function waitFor<T>(what: string, probe: () => T | undefined | false): Promise<T> {
  let found: T | undefined | false;
  await eventually(what, () => {
    found = probe();
    return found !== undefined && found !== false;
  });
  return found as T;
}

/** Releases a step that reads this pipe. */
export async function release(fifo: string): Promise<void> {
  const handle = await open(fifo, "w");
  await handle.write("go\n");
  await handle.close();
}
