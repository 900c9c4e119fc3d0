/**
 * The probes executor: finds out whether a step that must not happen twice has happened. It runs the
 * step's probe, a process in its own folder below the attempt's.
 *
 * Owns: the meaning of a probe's exit status and output.
 * Does not: decide what follows (core/attempt/uncertain.ts), or continue a probe of an earlier owner: its
 *   processes are dead before the next probe starts.
 * Invariants:
 * - probes/P1 "Done" counts only when the step's check passes and its outputs exist (engine/N1).
 * - probes/P2 A probe that cannot run answers "unknown", never "not done".
 */
import { copyFileSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { OperationOf } from "../../core/action.ts";
import { findingsIn } from "../../core/attempt/check.ts";
import type { AttemptRef } from "../../core/event.ts";
import type { FactOf, Result } from "../../core/fact.ts";
import { findVisit, stepOf, type Visit } from "../../core/run.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { lastLine } from "../../runner/process/output.ts";
import { startProcess } from "../../runner/process/start.ts";
import type {
  Launch,
  Limits,
  ProcessEnding,
  StepProcess,
} from "../../runner/process/step-process.ts";
import { ATTEMPT_VARIABLE, attemptMarker, sweep } from "../../runner/process/sweep.ts";
import { failpoint } from "../../util/failpoint.ts";
import { renderShell } from "../../util/shell.ts";
import { collectEvidence } from "../evidence/evidence.ts";
import { STATUS_FILE } from "../evidence/status-file.ts";
import {
  attemptIdOf,
  boundsOf,
  CONTEXT_FILE,
  environmentOf,
  evaluatorAt,
  isStepMistake,
  type LaunchInput,
  limitsOf,
  prepareFolder,
  withoutAgentEnv,
  workDirOf,
} from "../launch.ts";
import { attemptDirOf } from "../state-dir.ts";
import type { Executor, FactWriter } from "./executor.ts";

/** How long a probe may take when its step has no timeout. */
const PROBE_TIMEOUT_MS = 5 * 60_000;
/** The size limit of a probe's output. */
const PROBE_OUTPUT_BYTES_MAX = 1024 ** 2;
/** How much of its last line is the identity of the effect. */
const IDENTITY_LENGTH_MAX = 1_000;

/** The folder of an attempt's probes, in the attempt's own. */
const PROBE_DIR = "probe";

/** The exit statuses of a probe; all others mean "unknown". */
const DONE_EXIT = 0;
const NOT_DONE_EXIT = 1;

type Probed = FactOf<"probed">;

interface ProbeOptions {
  readonly site: () => LaunchInput;
}

/** The probes of one run, for one owner. */
export class ProbeExecutor implements Executor<"probe"> {
  readonly #options: ProbeOptions;
  readonly #probes = new Map<StepProcess, Promise<void>>();
  #closed = false;

  constructor(options: ProbeOptions) {
    this.#options = options;
  }

  begin({ at }: OperationOf<"probe">, writer: FactWriter): void {
    const { site } = this.#options;
    const visit = findVisit(site().run, at);
    if (visit === undefined) return;
    const start = async (launch: Launch): Promise<ProcessEnding> => {
      const process = startProcess(launch, limitsOfProbe(visit));
      this.#probes.set(
        process,
        process.ended.then(() => undefined),
      );
      if (this.#closed) process.stop("at-once");
      return process.ended.finally(() => this.#probes.delete(process));
    };
    askProbe(site(), visit, at, start).then(
      (fact) => writer.post(fact),
      (error: unknown) => writer.fail(error),
    );
  }

  /** Ends the running probes; the next owner starts them again. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const process of this.#probes.keys()) process.stop("at-once");
    await Promise.all(this.#probes.values());
  }
}

/** Runs the probe of an attempt to its end. */
async function askProbe(
  site: LaunchInput,
  visit: Visit,
  at: AttemptRef,
  start: (launch: Launch) => Promise<ProcessEnding>,
): Promise<Probed> {
  const id = `${attemptIdOf(site.run.id, at)}/${PROBE_DIR}`;
  const folder = join(attemptDirOf(site.dir, at), PROBE_DIR);
  if (existsSync(folder)) await sweep(attemptMarker(id));
  const unknown = (why: string): Probed => {
    const message = why.slice(0, IDENTITY_LENGTH_MAX);
    return { type: "probed", at, answer: "unknown", message };
  };
  const launch = probeLaunch(site, visit, at, { folder, id });
  if ("problem" in launch) return unknown(launch.problem);
  failpoint("probe.before");
  const ending = await start(launch);
  failpoint("probe.after");
  if (ending.how !== "exited") return unknown(`its probe did not end: ${ending.message}`);
  if (ending.exit === NOT_DONE_EXIT) return { type: "probed", at, answer: "not-done" };
  if (ending.exit !== DONE_EXIT) return unknown(exitWords(launch.dir, ending.exit));
  // A step that succeeded already has its result; the probe only finds the identity.
  const known = visit.uncertainty?.cause === "identity";
  const result = known ? undefined : await resultOf(site, visit, launch.dir, ending);
  if (result !== undefined && "problem" in result) {
    return unknown(`its probe says that it happened, but ${result.problem}`);
  }
  const line = lastLine(join(launch.dir, ATTEMPT_FILE.output));
  const identity = line.slice(0, IDENTITY_LENGTH_MAX);
  const done = { type: "probed", at, answer: "done", ...(result && { result }) } as const;
  return identity === "" ? done : { ...done, identity };
}

/** The launch of the probe, or the reason why it cannot start. */
function probeLaunch(
  site: LaunchInput,
  visit: Visit,
  at: AttemptRef,
  { folder, id }: { folder: string; id: string },
): Launch | { readonly problem: string } {
  try {
    const checks = prepareFolder(site, visit, at);
    const script = renderShell(stepOf(visit).probe ?? "", evaluatorAt(site, visit));
    const dir = newFolder(folder);
    const context = join(dir, CONTEXT_FILE);
    const written = join(attemptDirOf(site.dir, at), CONTEXT_FILE);
    // The step's values from before the interruption count; the probe may add to them.
    if (existsSync(written)) copyFileSync(written, context);
    const env = environmentOf(site, visit, at);
    return {
      dir,
      cwd: workDirOf(site, visit),
      env: {
        ...env,
        PERDURE_CONTEXT: context,
        PERDURE_STATUS_FILE: join(dir, STATUS_FILE),
        [ATTEMPT_VARIABLE]: id,
      },
      script: withoutAgentEnv(site.plan, visit) + script,
      ...(visit.uncertainty?.cause === "identity" ? {} : checks),
      ...boundsOf(site, visit, at),
      separateStderr: true,
    };
  } catch (error) {
    if (!isStepMistake(error)) throw error;
    return { problem: `its probe cannot be asked: ${error.message}` };
  }
}

/** A new folder, so that a late earlier probe cannot answer for this one. */
function newFolder(parent: string): string {
  mkdirSync(parent, { recursive: true, mode: 0o700 });
  const dir = join(parent, String(readdirSync(parent).length + 1));
  mkdirSync(dir, { mode: 0o700 });
  return dir;
}

function limitsOfProbe(visit: Visit): Limits {
  const limits = limitsOf(visit);
  const timeoutMs = limits.timeoutMs ?? PROBE_TIMEOUT_MS;
  return { ...limits, timeoutMs, outputBytesMax: PROBE_OUTPUT_BYTES_MAX };
}

function exitWords(dir: string, exit: number): string {
  const said = lastLine(join(dir, ATTEMPT_FILE.stderr));
  return `its probe exited with ${exit}${said === "" ? "" : `: ${said}`}`;
}

async function resultOf(
  site: LaunchInput,
  visit: Visit,
  dir: string,
  ending: ProcessEnding,
): Promise<Result | { readonly problem: string }> {
  const found = await collectEvidence(site, visit, dir, ending);
  if (found.how !== "exited") return { problem: "its result cannot be read" };
  const { problem, outputs, context } = found;
  if (problem !== undefined) return { problem: problem.message };
  return { outputs, context, ...findingsIn(found) };
}
