/**
 * What an agent is told of an attempt that failed, so that it can fix what failed in the same
 * conversation instead of starting over.
 *
 * Owns: these words, and how much of a check's output is in them.
 * Does not: decide when they are said (core/conversation) or judge a check (check-evidence.ts).
 */
import { checksFound, fails, warns } from "../../core/attempt/check.ts";
import type { AttemptFailure, CheckEvidence } from "../../core/event.ts";

const CHECK_OUTPUT_LINES_MAX = 100;

/**
 * The report on a failure: its reason, its message, and what its checks said. `turnsLeft` is how many
 * answers the model may give from here on, where that is limited.
 */
export function failureReport(failure: AttemptFailure, turnsLeft: number | undefined): string {
  const { reason, message } = failure;
  const granted = reason === "turns" && turnsLeft !== undefined;
  const missed = checksFound(failure).filter((check) => fails(check) || warns(check));
  return [
    `The last attempt at this task failed (${reason}): ${message.trim()}`,
    ...missed.flatMap(checkReport),
    ...(granted ? [`That limit was raised: you may answer ${turnsLeft} more times.`] : []),
  ].join("\n\n");
}

function checkReport({ kind, subject, exit, output = "" }: CheckEvidence): readonly string[] {
  const said = indented(endOf(output));
  if (kind === "judge") return [`A judge looked at the work and gives these reasons:\n\n${said}`];
  if (kind === "schema") return [`The check reads the file ${subject}.`];
  return [
    `The check is this command:\n\n${indented(subject)}`,
    said === ""
      ? `It exited with status ${exit} and printed nothing.`
      : `It exited with status ${exit}. The end of its output:\n\n${said}`,
  ];
}

function endOf(text: string): string {
  return text.trimEnd().split("\n").slice(-CHECK_OUTPUT_LINES_MAX).join("\n");
}

function indented(text: string): string {
  return text === "" ? "" : text.trimEnd().replaceAll(/^/gm, "    ");
}
