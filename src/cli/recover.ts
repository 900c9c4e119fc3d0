/** `resume --recover`: what a person wants done with work that was cut off. */

import { createInterface } from "node:readline/promises";
import type { InterruptedVisit } from "../app/interrupted-work.ts";
import { command, Refusal } from "../app/refusal.ts";
import type { Recover } from "../plan/plan.ts";
import { interruptedLines } from "../view/preview/interrupted-work.ts";
import { printError } from "./print.ts";

const CHOICES: readonly string[] = ["continue", "restart", "ask"];

/** What the person wants: for all, or for each visit (`fix@2`) that was asked about. */
export interface Recovery {
  readonly recover?: Recover;
  readonly choices?: Readonly<Record<string, Recover>>;
}

/** Refuses a word that is none of the three, and a question that nobody can answer. */
export function checkRecover(options: { recover?: string; detach?: boolean }): void {
  const { recover } = options;
  if (recover === undefined) return;
  if (!CHOICES.includes(recover)) {
    const message = `--recover takes ${CHOICES.join(", ")}, not "${recover}"`;
    throw new Refusal("bad-option", message);
  }
  const terminal = process.stdin.isTTY === true && process.stderr.isTTY === true;
  if (recover !== "ask" || (terminal && options.detach !== true)) return;
  throw new Refusal("no-terminal", "--recover ask needs a terminal to ask on", {
    ...command("resume", "--recover", "continue"),
    note: "or restart",
  });
}

/** The word for all, when it is one; `ask` is a question, not an answer. */
export function recoverWord(given: string | undefined): Recover | undefined {
  return given === "continue" || given === "restart" ? given : undefined;
}

/** The person's choice; asked for only when something was cut off. */
export async function recoveryOf(
  cut: readonly InterruptedVisit[],
  given: string | undefined,
  shortId: string,
): Promise<Recovery> {
  const word = recoverWord(given);
  if (word !== undefined) return { recover: word };
  if (given !== "ask" || cut.length === 0) return {};
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const choices: Record<string, Recover> = {};
  try {
    for (const { place, work } of cut) {
      for (const line of interruptedLines(work, shortId)) printError(line);
      const answer = await lines.question("Continue with it, or restart? [c/r] ");
      const restart = answer.trim().toLowerCase().startsWith("r");
      choices[place] = restart ? "restart" : "continue";
    }
  } finally {
    lines.close();
  }
  return { choices };
}
