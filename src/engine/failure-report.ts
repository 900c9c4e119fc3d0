/**
 * What an agent is told of an attempt that failed, so that it can fix what failed in the same
 * conversation instead of starting over.
 *
 * Owns: these words, and how much of a check's output is in them.
 * Does not: decide when they are said (core/conversation.ts) or judge a check (evidence.ts).
 */
import { join } from "node:path";
import type { AttemptFailure, AttemptRef, CheckEvidence } from "../core/event.ts";
import { ATTEMPT_FILE } from "../runner/attempt-folder.ts";
import { lastText } from "../runner/output.ts";
import { attemptDirOf, type RunDir } from "./state-dir.ts";

const CHECK_OUTPUT_BYTES_MAX = 8 * 1024;
const CHECK_OUTPUT_LINES_MAX = 100;

export interface FailureContext {
  readonly dir: RunDir;
  /** The attempt that is told. */
  readonly at: AttemptRef;
  /** How many answers the model may give from here on, where that is limited. */
  readonly turnsLeft: number | undefined;
}

/** The report on a failure: its reason, its message, and what its check said. */
export function failureReport(failure: AttemptFailure, context: FailureContext): string {
  const { attempt, reason, message, check } = failure;
  const { dir, at, turnsLeft } = context;
  const folder = attemptDirOf(dir, { ...at, attempt });
  const granted = reason === "turns" && turnsLeft !== undefined;
  return [
    `The last attempt at this task failed (${reason}): ${message.trim()}`,
    ...(check === undefined || check.exit === 0 ? [] : checkReport(check, folder)),
    ...(granted ? [`That limit was raised: you may answer ${turnsLeft} more times.`] : []),
  ].join("\n\n");
}

function checkReport({ kind, subject, exit }: CheckEvidence, folder: string): readonly string[] {
  if (kind === "schema") return [`The check reads the file ${subject}.`];
  const output = endOf(lastText(join(folder, ATTEMPT_FILE.checkOutput), CHECK_OUTPUT_BYTES_MAX));
  return [
    `The check is this command:\n\n${indented(subject)}`,
    output === ""
      ? `It exited with status ${exit} and printed nothing.`
      : `It exited with status ${exit}. The end of its output:\n\n${indented(output)}`,
  ];
}

function endOf(text: string): string {
  return text.trimEnd().split("\n").slice(-CHECK_OUTPUT_LINES_MAX).join("\n");
}

function indented(text: string): string {
  return text.trimEnd().replaceAll(/^/gm, "    ");
}
