/**
 * The files that hold what an attempt prints, and whose words each of them holds.
 *
 * Owns: their order and their marks.
 * Does not: read them.
 */
import { judgeOf } from "../core/judge.ts";
import { stepOf, type Visit } from "../core/run.ts";
import { checksOf } from "../plan/check.ts";
import type { Step } from "../plan/plan.ts";
import { ATTEMPT_FILE, checkOutputFile } from "../runner/process/attempt-folder.ts";

export interface OutputFile {
  readonly name: string;
  /** Who speaks in it, beside the step itself: a check, or a judge. */
  readonly mark?: string;
  /** It holds the stream of an agent, or what a command printed. */
  readonly isWork: boolean;
}

/** An attempt whose output is to be read. */
export interface PrintedAttempt {
  readonly step: Step | undefined;
  /** The agent that judges in it. */
  readonly judge?: string | undefined;
}

/** The attempt that a visit is at. */
export function printedAttempt(visit: Visit): PrintedAttempt {
  return { step: stepOf(visit), judge: judgeOf(visit)?.agent };
}

/** The files of an attempt, in the order in which they are written. */
export function outputFiles({ step, judge }: PrintedAttempt): readonly OutputFile[] {
  const work = [ATTEMPT_FILE.output, ATTEMPT_FILE.stderr] as const;
  if (judge !== undefined) return work.map((name) => ({ name, mark: "judge", isWork: true }));
  const commands = checksOf(step ?? {}).filter(({ kind }) => kind === "command");
  return [
    ...work.map((name) => ({ name, isWork: true })),
    ...commands.map((_, index) => ({
      name: checkOutputFile(index + 1),
      mark: commands.length === 1 ? "check" : `check ${index + 1}`,
      isWork: false,
    })),
  ];
}
