/** Leaves a run to a process of its own that no terminal can take along. */
import { spawn } from "node:child_process";
import { mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { livenessOf, type Project } from "../app/project.ts";
import { command, Refusal } from "../app/refusal.ts";
import { runDirOf } from "../engine/state-dir.ts";
import { EXIT, type ExitCode } from "../view/exit-code.ts";
import { print } from "./print.ts";

/** How often we look whether the new process has taken the run. */
const LOOK_MS = 20;

/** How people are reached, as the process in the background has to be told. */
export function peopleOptions(options: {
  readonly stay?: boolean;
  readonly autoApprove?: boolean;
}): readonly string[] {
  return [
    ...(options.stay === true ? ["--stay"] : []),
    ...(options.autoApprove === true ? ["--auto-approve"] : []),
  ];
}

/** Starts `perdure resume` in the background and returns once it owns the run. */
export async function detach(
  project: Project,
  runId: string,
  shortId: string,
  options: readonly string[] = [],
): Promise<ExitCode> {
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
  const before = project.journal.leaseOf(runId)?.epoch ?? 0;
  let ended = false;
  child.on("exit", () => {
    ended = true;
  });
  child.unref();
  while ((project.journal.leaseOf(runId)?.epoch ?? 0) === before && !ended) await sleep(LOOK_MS);
  const lease = project.journal.leaseOf(runId);
  if ((lease?.epoch ?? 0) === before) {
    throw new Refusal(
      "not-started",
      `the run could not be started; see ${log}`,
      command("resume", shortId),
    );
  }
  const state =
    livenessOf(lease) === "owned" ? `runs in the background as process ${child.pid}` : "has ended";
  print(`Run ${runId} ${state}`);
  print(`See it: perdure attach ${shortId}`);
  return EXIT.done;
}
