/** What checks found, in words for people. */
import { type CheckFindings, checksFound, warns } from "../core/check.ts";
import type { AttemptRef, CheckEvidence } from "../core/event.ts";
import { stepPath } from "../core/place.ts";
import type { Json } from "../util/json.ts";
import { firstLine, outputLine, plainText } from "./display-text.ts";
import { messageText } from "./failure-words.ts";
import { STEP_LOOKS } from "./step-status.ts";

/** How many of the last lines of a check are shown where it did not pass. */
const LINES_MAX = 20;

/** "; warning: `npm run lint` exited with 1", or nothing when no check warns. */
export function warningText(found: CheckFindings): string {
  return warningMessages(found)
    .map((message) => `; warning: ${message}`)
    .join("");
}

/** What the checks that only warn did not pass. */
export function warningMessages(found: CheckFindings): readonly string[] {
  return checksFound(found).filter(warns).map(messageOf);
}

/** The last lines of each check that did not pass, each after a line that says whose they are. */
export function failedCheckLines(checks: readonly CheckEvidence[]): readonly string[] {
  return checks.flatMap((check) => {
    const lines = lastLines(check);
    return lines.length === 0 ? [] : [headingOf(check), ...lines.map((line) => `  ${line}`)];
  });
}

/** The checks of an attempt that did not pass, for a screen that shows no output. */
export function checkReportLines(at: AttemptRef, found: CheckFindings): readonly string[] {
  const path = stepPath(at);
  return checksFound(found)
    .filter(({ exit }) => exit !== 0)
    .flatMap((check) => {
      const { glyph } = STEP_LOOKS[warns(check) ? "waiting" : "failed"];
      const mark = check.kind === "judge" ? "judge" : "check";
      return [
        `${glyph} ${path} ${mark}: ${messageOf(check)}`,
        ...lastLines(check).map((line) => outputLine(path, line, mark)),
      ];
    });
}

/** A finding for programs. */
export function checkJson(check: CheckEvidence): Json {
  return {
    measured: true,
    kind: check.kind,
    command: check.subject,
    exit: check.exit,
    output_path: check.outputPath ?? null,
    output_sha256: check.outputSha256 ?? null,
    agent: check.agent ?? null,
    message: check.message ?? null,
    output: check.output ?? null,
    on_fail: check.onFail ?? "retry",
  };
}

function messageOf({ message = "it did not pass" }: CheckEvidence): string {
  return messageText(message);
}

function headingOf({ kind, subject, agent = "" }: CheckEvidence): string {
  return kind === "judge"
    ? `The judge (${agent}) gives these reasons:`
    : `The last lines of the check \`${firstLine(subject)}\`:`;
}

function lastLines({ output = "" }: CheckEvidence): readonly string[] {
  const lines = output.split("\n").map(plainText);
  while (lines.at(-1) === "") lines.pop();
  return lines.slice(-LINES_MAX);
}
