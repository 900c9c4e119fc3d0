/** The paths of the files in `.perdure/`. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AttemptRef } from "../core/event.ts";
import { attemptText } from "../core/step-path.ts";

export const STATE_DIR = ".perdure";

/** The paths of a project's state. */
export interface StateDir {
  readonly root: string;
  readonly database: string;
}

/** The paths of one run's files. */
export interface RunDir {
  readonly root: string;
  /** The content of outputs, shared by all runs of the project. */
  readonly artifacts: string;
  readonly plan: string;
  /** All plans of an updated run, by fingerprint. */
  readonly plans: string;
  readonly events: string;
  readonly checkpoint: string;
  readonly receipts: string;
  readonly handoffs: string;
}

/** The state of the project in this directory; creates nothing. */
export function stateDirOf(project: string): StateDir {
  const root = join(project, STATE_DIR);
  return { root, database: join(root, "state.db") };
}

/** Creates the state directory: private, and invisible to git. */
export function createStateDir(dir: StateDir): void {
  mkdirSync(join(dir.root, "runs"), { recursive: true, mode: 0o700 });
  writeFileSync(join(dir.root, ".gitignore"), "*\n", { mode: 0o600 });
}

/** The files of a run. */
export function runDirOf(dir: StateDir, runId: string): RunDir {
  const root = join(dir.root, "runs", runId);
  return {
    root,
    artifacts: join(dir.root, "artifacts"),
    plan: join(root, "plan.json"),
    plans: join(root, "plans"),
    events: join(root, "events.jsonl"),
    checkpoint: join(root, "checkpoint.json"),
    receipts: join(root, "receipts"),
    handoffs: join(root, "handoffs"),
  };
}

/** The directory of a workspace that belongs to one step or instance. */
export function ownPathOf(run: RunDir, workspace: string): string {
  return join(run.root, "own", workspace.replace(/\/$/, "").replaceAll("/", "~"));
}

/** The file with the prompt of an agent, in the folder of its attempt. */
export const PROMPT_FILE = "prompt.md";

/** The folder of one attempt; a nested scope becomes part of its name. */
export function attemptDirOf(run: RunDir, at: AttemptRef): string {
  return join(run.root, "attempts", attemptText(at).replaceAll("/", "~"));
}
