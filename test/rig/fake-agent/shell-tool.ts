/**
 * The fake agent's shell: a command in a session of its own, like those of the real agents, so
 * that it outlives a kill of the agent or of its process group. Its output goes to a file, so that
 * a child that it leaves behind holds up nobody.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";

export interface ToolOutcome {
  readonly output: string;
  readonly exit: number;
}

const EXIT_SIGNALLED = 137;

/** The commands that run now, by the id of the process that leads their session. */
const running = new Set<number>();

/** Runs a command to its end. */
export async function runShell(command: string, home: string): Promise<ToolOutcome> {
  const file = join(home, `tool-${randomUUID()}.out`);
  const out = fs.openSync(file, "w");
  try {
    const child = spawn("bash", ["-c", command], { detached: true, stdio: ["ignore", out, out] });
    const { pid } = child;
    if (pid !== undefined) running.add(pid);
    const exit = await new Promise<number>((done, fail) => {
      child.on("error", fail);
      child.on("exit", (code) => done(code ?? EXIT_SIGNALLED));
    });
    if (pid !== undefined) running.delete(pid);
    return { output: fs.readFileSync(file, "utf8").replace(/\n$/, ""), exit };
  } finally {
    fs.closeSync(out);
  }
}

/** Ends the running commands, as Claude Code does on SIGTERM. */
export function endShells(): void {
  for (const pid of running) {
    try {
      process.kill(-pid, "SIGKILL");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}
