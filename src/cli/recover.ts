/** `resume --recover`: what a person wants done with agents that were cut off. */
import { createInterface } from "node:readline/promises";
import { attemptOf } from "../core/next-actions.ts";
import { stepPath } from "../core/place.ts";
import { placeOf, type Visit } from "../core/run.ts";
import { attemptDirOf } from "../engine/state-dir.ts";
import type { Recover } from "../plan/plan.ts";
import { lookAt } from "../runner/adopt.ts";
import { spentText } from "../view/spent-text.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import type { KnownRun } from "./project.ts";

const CHOICES: readonly string[] = ["continue", "restart", "ask"];

/** Refuses a word that is none of the three, and a question that nobody can answer. */
export function checkRecover(options: { recover?: string; detach?: boolean }): void {
  const { recover } = options;
  if (recover === undefined) return;
  if (!CHOICES.includes(recover)) {
    const message = `--recover takes ${CHOICES.join(", ")}, not "${recover}"`;
    throw new CliError(EXIT.usage, message);
  }
  const terminal = process.stdin.isTTY === true && process.stderr.isTTY === true;
  if (recover !== "ask" || (terminal && options.detach !== true)) return;
  throw new CliError(
    EXIT.usage,
    "--recover ask needs a terminal to ask on",
    "perdure resume --recover continue (or restart)",
  );
}

/** The person's choice; asked for only when something was cut off. */
export async function recoverOf(
  known: KnownRun,
  given: string | undefined,
): Promise<Recover | undefined> {
  if (given !== "ask") return given as Recover | undefined;
  const cut = cutOff(known);
  if (cut.length === 0) return undefined;
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    for (const visit of cut) process.stderr.write(`${describe(visit)}\n`);
    const answer = await lines.question("Continue the conversation, or restart? [c/r] ");
    return answer.trim().toLowerCase().startsWith("r") ? "restart" : "continue";
  } finally {
    lines.close();
  }
}

/** Visits with a conversation whose process is gone. */
function cutOff({ run, dir }: KnownRun): readonly Visit[] {
  const dead = [...run.running].filter(
    (visit) => lookAt(attemptDirOf(dir, attemptOf(visit))) === "dead",
  );
  return [...run.interrupted, ...dead].filter(({ talk }) => talk?.session !== undefined);
}

function describe(visit: Visit): string {
  const used = visit.spent === undefined ? undefined : spentText(visit.spent);
  const spent = used === undefined ? "" : ` so far: ${used}`;
  return `${stepPath(placeOf(visit))} was cut off in conversation ${visit.talk?.session}${spent}`;
}
