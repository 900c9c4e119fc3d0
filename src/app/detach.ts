/** Leaves a run to a process in the background that does not end with the terminal. */
import { spawn } from "node:child_process";
import { mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { runDirOf } from "../engine/state-dir.ts";
import type { Lease } from "../journal/leases.ts";
import { livenessOf, type Project } from "./project.ts";
import { command, Refusal } from "./refusal.ts";

/** The process that a run was left to. */
export interface BackgroundRun {
  readonly pid: number | undefined;
  /** False when the run has come to its end already. */
  readonly isAlive: boolean;
}

/** Starts `perdure resume` in the background and returns once it owns the run. */
export async function resumeInBackground(
  project: Project,
  runId: string,
  shortId: string,
  options: readonly string[] = [],
): Promise<BackgroundRun> {
  const { root } = runDirOf(project.dir, runId);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  const log = join(root, "runner.log");
  const output = openSync(log, "a", 0o600);
  const program = process.argv[1] ?? "perdure";
  const args = [program, "resume", runId, "--output", "text", ...options];
  const child = spawn(process.execPath, args, {
    detached: true,
    stdio: ["ignore", output, output],
  });
  const before = (await project.journal.leases.of(runId))?.epoch ?? 0;
  const subscription = project.journal.log.subscribe(runId);
  child.on("exit", () => subscription.close());
  child.unref();
  let lease: Lease | undefined;
  do {
    lease = await project.journal.leases.of(runId);
  } while ((lease?.epoch ?? 0) === before && (await subscription.changed()));
  subscription.close();
  lease = await project.journal.leases.of(runId);
  if ((lease?.epoch ?? 0) === before) {
    throw new Refusal(
      "not-started",
      `the run could not be started; see ${log}`,
      command("resume", shortId),
    );
  }
  return { pid: child.pid, isAlive: livenessOf(lease) === "owned" };
}
