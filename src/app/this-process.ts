/** This process: its directory, its variables, its version, and the size of its heap. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { textOf } from "../runner/file-text.ts";
import { advice, Refusal } from "./refusal.ts";

/** Node's own variables for the channel between a process and its parent; `process.env` lacks them. */
const NODE_CHANNEL = /^NODE_CHANNEL_/;

/**
 * The environment as a plain object. Each access to `process.env` asks the system, so that copying it
 * takes quadratic time, minutes for the environment of some CI machines. The channel of a worker is left
 * out: a Node program in a step would take one of its own files for it.
 */
export function plainEnvironment(): NodeJS.ProcessEnv {
  const text = textOf("/proc/self/environ");
  if (text === undefined) return process.env;
  const env: NodeJS.ProcessEnv = {};
  for (const entry of text.split("\0")) {
    const cut = entry.indexOf("=", 1);
    if (cut > 0 && !NODE_CHANNEL.test(entry)) env[entry.slice(0, cut)] ??= entry.slice(cut + 1);
  }
  return env;
}

/** Refuses a system without /proc, where Perdure cannot tell which processes live. */
export function requireProc(): void {
  if (process.platform !== "linux" || existsSync("/proc/self/stat")) return;
  const message = "/proc is not mounted, so perdure cannot tell which processes are alive";
  throw new Refusal("no-proc", message, advice("mount -t proc proc /proc"));
}

/** Changes the directory of this process, for `-C`. */
export function changeDirectory(directory: string): void {
  try {
    process.chdir(directory);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === "ENOENT" ? "there is no such directory" : `it cannot be entered (${code})`;
    throw new Refusal("bad-option", `-C ${directory}: ${why}`);
  }
}

/** Refuses a directory that the system cannot name: it is gone, or its path is too long. */
export function checkDirectory(): void {
  try {
    process.cwd();
  } catch (error) {
    const gone = (error as NodeJS.ErrnoException).code === "ENOENT";
    const why = gone ? "no longer exists" : "has a path that is too long for this system";
    const message = `the directory in which perdure was started ${why}`;
    throw new Refusal(
      "no-directory",
      message,
      advice("cd to another directory, then repeat the command"),
    );
  }
}

/** The modules of Node that every run needs and the start of the program does not load. */
const NEEDED_BY_RUNS = ["node:child_process", "node:crypto", "node:fs/promises"];
const SMALL_HEAP = ["--semi-space-growth-factor=1", "--heap-growing-percent=20"];
const DEFAULT_HEAP = ["--semi-space-growth-factor=2", "--heap-growing-percent=0"];

let isHeapSmall = false;

/**
 * Keeps the heap of this process small: a young generation that does not grow (70 MB less once a large
 * pipeline has been read), and a collection of garbage when the heap has grown by a fifth, not when it
 * has doubled. V8 discards its cached code of Node's own modules when flags change, so what a run needs
 * is loaded before, and commands that only look at runs do not call this. Only the first call counts.
 */
export function keepHeapSmall(): void {
  if (isHeapSmall) return;
  isHeapSmall = true;
  for (const name of NEEDED_BY_RUNS) process.getBuiltinModule(name);
  for (const flag of SMALL_HEAP) setFlagsFromString(flag);
}

/** The code of this program that V8 has compiled, as it is kept for the next start. */
export interface KeptCode {
  /** The stage that its process had reached; 0 if none is kept. */
  readonly stage: number;
  /** Keeps what this process has compiled so far. */
  keep(stage: number): void;
}

/** How far a process came when its code was kept: each stage has executed more of the program. */
const CODE_STAGES = { command: 1, firstStep: 2, run: 3 };
/** In a process that lives longer, V8 has dropped the functions of the start. */
const WHOLE_CODE_SECONDS_MAX = 10;

let keptCode: KeptCode | undefined;
let hasStartedStep = false;

/** Sets where compiled code is kept. */
export function setKeptCode(kept: KeptCode | undefined): void {
  keptCode = kept;
}

/** Keeps the compiled code of a run when its first step has started: a long run keeps no other. */
export function keepCodeOfFirstStep(): void {
  hasStartedStep = true;
  keepCode(CODE_STAGES.firstStep);
}

/** Keeps the compiled code of a command at its end. */
export function keepCodeOfCommand(): void {
  if (!hasStartedStep) keepCode(CODE_STAGES.command);
  else if (process.uptime() < WHOLE_CODE_SECONDS_MAX) keepCode(CODE_STAGES.run);
}

function keepCode(stage: number): void {
  if (keptCode === undefined || keptCode.stage >= stage) return;
  // V8 accepts only code that was kept under the flags with which it starts.
  if (isHeapSmall) for (const flag of DEFAULT_HEAP) setFlagsFromString(flag);
  keptCode.keep(stage);
  if (isHeapSmall) for (const flag of SMALL_HEAP) setFlagsFromString(flag);
}

/** The version of this package. */
export function packageVersion(): string {
  const text = readFileSync(join(packageDirectory(), "package.json"), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

/** The directory of this package. */
export function packageDirectory(): string {
  let directory = import.meta.dirname;
  while (!existsSync(join(directory, "package.json"))) directory = dirname(directory);
  return directory;
}
