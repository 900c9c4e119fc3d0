/**
 * Starts a step as a process that outlives this runner, in a PID namespace of its own if required.
 *
 * Owns: the files that it starts from, the spawn, the command that makes a namespace, and the
 * reason when it could not start.
 * Does not: limits and stops (supervision.ts), finding it again (adopt.ts).
 * Invariants:
 * - runner/R1 the process leads its own session and group and carries the attempt's id.
 * - runner/T1 only its owner can read a script: it is in the environment of the wrapper, or in a
 *   file of mode 0600.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { closeSync, openSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert } from "../../util/assert.ts";
import { defined } from "../../util/defined.ts";
import { failpoint } from "../../util/failpoint.ts";
import { quote } from "../../util/shell.ts";
import { errorCode } from "../file-text.ts";
import {
  ATTEMPT_FILE,
  checkOutputFile,
  endedByRound,
  limitsOfRound,
  newRound,
} from "./attempt-folder.ts";
import { identityOf } from "./identity.ts";
import { LEASH_VARIABLE } from "./leash.ts";
import { lastLine } from "./output.ts";
import { forgetProcesses } from "./process-tree.ts";
import { recordRuntime, runtimeIn, sandboxed } from "./sandbox.ts";
import type { CheckScript, Launch, Limits, StepProcess } from "./step-process.ts";
import { Supervision } from "./supervision.ts";
import { ATTEMPT_VARIABLE, attemptMarker, RUN_VARIABLE } from "./sweep.ts";
import {
  CHECK_VARIABLE,
  checkSequence,
  EVALUATE,
  SCRIPT_VARIABLE,
  UNCLAIMED_EXIT,
  wrapperArguments,
} from "./wrapper.ts";

const OWNER_ONLY = 0o600;

/** The variables by which processes are found; a container has them as labels. */
const MARKERS = [RUN_VARIABLE, ATTEMPT_VARIABLE, LEASH_VARIABLE];

/** Longer scripts are read from a file: the system limits the length of a variable. */
const SCRIPT_BYTES_MAX = 64 * 1024;

const HELP: Readonly<Record<string, string>> = {
  E2BIG: "its environment is too large for the system: pass large values through files",
  EMFILE: "too many files are open: raise `ulimit -n` or run fewer steps at once",
  ENFILE: "the system has too many open files: run fewer steps at once",
  EAGAIN: "the system refuses more processes: raise `ulimit -u` or run fewer steps at once",
  ENOMEM: "the system is out of memory: run fewer steps at once",
  ENOSPC: "the disk is full: make room",
  EDQUOT: "the disk quota is used up: make room",
  EROFS: "the disk is read-only: make it writable",
};

/** Starts the process. It does not throw when that fails: the ending says why. */
export function startProcess(launch: Launch, limits: Limits): StepProcess {
  const attemptId = launch.env.PERDURE_ATTEMPT_ID;
  assert(attemptId !== undefined, "a step carries PERDURE_ATTEMPT_ID in its environment");
  let child: ChildProcess;
  try {
    child = spawnWrapper(launch, limits.leavesRunning === true);
  } catch (error) {
    return notStarted(Promise.resolve(error), launch);
  }
  const { pid } = child;
  if (pid === undefined)
    return notStarted(new Promise((fail) => child.once("error", fail)), launch);
  const leader = identityOf(pid);
  const runtime = runtimeIn(launch.dir);
  const tree = { marker: attemptMarker(attemptId), ...defined({ leader, runtime }) };
  const supervision = new Supervision({ dir: launch.dir, tree, limits, ageMs: 0 });
  child.once("exit", (code, signal) => {
    supervision.guarded(() => {
      if (code === UNCLAIMED_EXIT) supervision.notStarted(whyUnclaimed(launch));
      else supervision.wrapperEnded(`its process ended (${signal ?? code}) without an exit status`);
    });
  });
  return {
    ended: supervision.ended,
    stop: (how) => supervision.stop(how),
    release: () => {
      supervision.release();
      child.unref();
    },
  };
}

/**
 * Runs only the checks of an attempt again, because its work is done; undefined when they were
 * interrupted too often. They have a folder of their own for their claim and their status, and
 * write to the logs of the attempt.
 */
export function startChecksAgain(launch: Launch, limits: Limits): StepProcess | undefined {
  const { dir, checks = [], env, cwd, isolate, leash, sandbox } = launch;
  const folder = newRound(dir);
  if (folder === undefined) return undefined;
  emptyCheckLogs(dir, checks);
  writeFileSync(join(dir, ATTEMPT_FILE.checkExits), "", { mode: OWNER_ONLY });
  const script = sequenceOf(dir, checks);
  const where = defined({ isolate, leash, sandbox });
  const round = { dir: folder, cwd, env, script, separateStderr: false, ...where };
  const process = startProcess(round, limitsOfRound(limits));
  return { ...process, ended: process.ended.then(endedByRound) };
}

function spawnWrapper(launch: Launch, leavesRunning: boolean): ChildProcess {
  const { dir, cwd, leash } = launch;
  if (launch.sandbox !== undefined) recordRuntime(dir, launch.sandbox);
  const env = { ...launch.env, ...defined({ [LEASH_VARIABLE]: leash }) };
  const opened: number[] = [];
  const open = (file: string, flags: "r" | "a"): number => {
    const fd = openSync(file, flags, OWNER_ONLY);
    opened.push(fd);
    return fd;
  };
  try {
    const stdin = launch.stdin === undefined ? "ignore" : open(launch.stdin, "r");
    const stdout = open(join(dir, ATTEMPT_FILE.output), "a");
    const stderr = launch.separateStderr ? open(join(dir, ATTEMPT_FILE.stderr), "a") : stdout;
    const prefix = launch.isolate === true ? ISOLATION : [];
    const args = wrapperArguments(dir, { prefix, leash, leavesRunning });
    failpoint("runner.spawn.before");
    const child = spawn("/bin/sh", args, {
      cwd,
      env: { ...env, ...scriptsOf({ ...launch, env }) },
      detached: true,
      stdio: [stdin, stdout, stderr],
    });
    forgetProcesses();
    failpoint("runner.spawn.after");
    return child;
  } finally {
    for (const fd of opened) closeSync(fd);
  }
}

/** The variables through which the wrapper gets the text of the work and of its checks. */
function scriptsOf(launch: Launch): Record<string, string> {
  const { dir, script, checks = [] } = launch;
  const text = (file: string, whole: string): string =>
    sandboxText(launch, file, scriptText(join(dir, file), whole));
  const work = { [SCRIPT_VARIABLE]: text(ATTEMPT_FILE.script, script) };
  const [first] = checks;
  if (first === undefined) return work;
  emptyCheckLogs(dir, checks);
  const isAlone = checks.length === 1 && first.onlyWarns !== true;
  const all = isAlone ? first.script : sequenceOf(dir, checks);
  return { ...work, [CHECK_VARIABLE]: text(ATTEMPT_FILE.check, all) };
}

/**
 * The text that the wrapper runs for a script: the script itself, or the command of the sandbox,
 * which gets the script in the same variable as the wrapper.
 */
function sandboxText({ dir, cwd, env, sandbox }: Launch, file: string, script: string): string {
  if (sandbox === undefined) return script;
  const inner = `${SCRIPT_VARIABLE}=${quote(script)}\nexport ${SCRIPT_VARIABLE}\n`;
  const names = [...Object.keys(env), SCRIPT_VARIABLE];
  const markers = MARKERS.flatMap((name) =>
    env[name] === undefined ? [] : `${name}=${env[name]}`,
  );
  const whole = `${inner}${sandboxed(sandbox, { cwd, names, markers }, EVALUATE)}`;
  return scriptText(join(dir, `sandbox-${file}`), whole);
}

/** The script that runs all checks; the text of a long one is in a file. */
function sequenceOf(dir: string, checks: readonly CheckScript[]): string {
  const texts = checks.map((check, index) => ({
    ...check,
    script: scriptText(join(dir, `check-${index + 1}.sh`), check.script),
  }));
  return checkSequence(dir, texts);
}

function emptyCheckLogs(dir: string, checks: readonly CheckScript[]): void {
  for (const index of checks.keys()) {
    writeFileSync(join(dir, checkOutputFile(index + 1)), "", { mode: OWNER_ONLY });
  }
}

/** The text itself; for a long text, a command that reads it from a file. */
function scriptText(file: string, script: string): string {
  if (Buffer.byteLength(script) <= SCRIPT_BYTES_MAX) return script;
  writeFileSync(file, script, { mode: OWNER_ONLY });
  return `. ${quote(file)}`;
}

function notStarted(failure: Promise<unknown>, launch: Launch): StepProcess {
  const ended = failure.then((error) => {
    return {
      how: "not-started" as const,
      message: `it could not start: ${explain(error, launch)}`,
    };
  });
  return { ended, stop: () => undefined, release: () => undefined };
}

function explain(error: unknown, { cwd, dir, stdin }: Launch): string {
  const help = HELP[errorCode(error)];
  if (help !== undefined) return help;
  if (!isFolder(dir)) return `the attempt's folder ${dir} is gone: do not remove it during a run`;
  if (!isFolder(cwd)) return `its working directory ${cwd} is not there: create it`;
  if (stdin !== undefined && statSync(stdin, { throwIfNoEntry: false }) === undefined) {
    return `the file for its standard input, ${stdin}, is not there`;
  }
  if (errorCode(error) === "EACCES") return `it may not enter ${cwd}: check the permissions`;
  return error instanceof Error ? error.message : String(error);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/**
 * The error that the shell printed into the output (disk full, folder removed, already claimed).
 */
function whyUnclaimed({ dir, separateStderr }: Launch): string {
  const file = separateStderr ? ATTEMPT_FILE.stderr : ATTEMPT_FILE.output;
  const message = lastLine(join(dir, file));
  return `it could not record that it started, so it ran nothing: ${message || "unknown"}`;
}

/** Root needs no user namespace; another user gets one and keeps its own id in it. */
const USER = process.getuid?.() === 0 ? [] : ["--user", "--map-current-user"];

/**
 * `unshare` blocks SIGTERM while it waits, so that a stop reaches the step. When `unshare` is
 * killed, the kernel kills the processes of the namespace.
 */
const ISOLATION: readonly string[] = [
  "unshare",
  ...USER,
  ...["--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"],
];

let problem: string | undefined | null = null;

/** Why steps cannot be isolated here; undefined when they can. */
export function isolationProblem(): string | undefined {
  if (problem === null) problem = probeIsolation();
  return problem;
}

function probeIsolation(): string | undefined {
  const [program = "", ...args] = ISOLATION;
  const { error, status, stderr } = spawnSync(program, [...args, "true"], { encoding: "utf8" });
  if (error !== undefined) return `unshare (of util-linux) cannot be run: ${error.message}`;
  return status === 0 ? undefined : stderr.trim() || `unshare exited with ${status}`;
}
