/**
 * The report that an agent gets when a failure led to it: the failed step, its command, how it
 * ended and the end of what it printed.
 *
 * Owns: the text, and its limits.
 * Does not: report the run as a whole (briefing.ts), or the agent's own earlier attempts.
 * Invariants:
 * - core/T4 Each visit has one report. An attempt that has to start again gets the same report,
 *   word for word.
 */

import type { Conversation } from "../event.ts";
import { failedInside } from "../graph/retry.ts";
import { type Run, stepOf, type Visit, visitRef } from "../run.ts";
import { visitText } from "../step-path.ts";
import { predecessorOf } from "./conversation.ts";

/** How many failures inside one step are reported. */
const FAILURES_MAX = 3;
/** The longest command or message in a report. */
const TEXT_LENGTH_MAX = 1_000;

/** The report for the next attempt of a visit; undefined when no failure led to it. */
export function reportFor(
  run: Run,
  visit: Visit,
  conversation: Conversation | undefined,
): string | undefined {
  if (stepOf(visit).work.kind !== "agent") return undefined;
  const { kind, says = "task" } = conversation ?? {};
  // The visit's own conversation continues, and holds the report already.
  if (kind === "continue" && says !== "task") return undefined;
  if (visit.report !== undefined) return visit.report;
  const failed = predecessorOf(visit);
  return failed?.state.status === "failed" ? reportOf(run, failed) : undefined;
}

/** A task after the report of what failed. */
export function withReport(report: string | undefined, task: string): string {
  return report === undefined ? task : `${report}\n\n---\n\n${task}`;
}

function reportOf(run: Run, failed: Visit): string {
  const inside = failed.instances === undefined ? [] : [...failedInside(run, failed)];
  const shown = inside.slice(0, FAILURES_MAX).map((visit) => failureText(visit));
  const more = inside.length - shown.length;
  return [
    `The step before this one has failed. ${failureText(failed)}`,
    ...shown,
    ...(more > 0 ? [`${more} more steps in it failed.`] : []),
  ].join("\n\n");
}

function failureText(visit: Visit): string {
  const { state } = visit;
  if (state.status !== "failed") return "";
  const { work } = stepOf(visit);
  const name = `Step ${visitText(visitRef(visit))}`;
  const message = cut(state.message.trim());
  const lines = [`${name} failed: ${message}${/[.!?]$/.test(message) ? "" : "."}`];
  if (work.kind === "shell") lines.push("Its command:", quoted(cut(work.run)));
  if (state.output !== undefined) {
    const output = state.output.trimEnd();
    if (output === "") lines.push("It printed nothing.");
    else lines.push("The end of what it printed:", quoted(output));
  }
  return lines.join("\n");
}

function cut(text: string): string {
  if (text.length <= TEXT_LENGTH_MAX) return text;
  return `${text.slice(0, TEXT_LENGTH_MAX).replace(/[\uD800-\uDBFF]$/, "")}…`;
}

/** Quotes lines, to separate them from our own. */
function quoted(text: string): string {
  return text
    .split(/\r?\n/)
    .map((line) => `> ${line}`.trimEnd())
    .join("\n");
}
