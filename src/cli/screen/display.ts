/**
 * The screens of the command line: live on a terminal, lines, groups of lines in GitHub Actions, JSON,
 * or none; and the card at the end of a run.
 *
 * Each screen is loaded on demand: a resume must not wait for the others.
 */

import { type Display, NO_DISPLAY } from "../../app/drive/screen.ts";
import { type LoadedRun, whyInputOf } from "../../app/loaded-run.ts";
import { failedOutput } from "../../app/output/output-tail.ts";
import type { Project } from "../../app/project/project.ts";
import { asRefusal } from "../../app/refusal.ts";
import { endCard, fleetResultLines, resultLines } from "../../view/end-card.ts";
import { print, printError } from "../print.ts";
import { type ScreenKind, terminalStyle } from "../terminal.ts";
import { Keyboard } from "./keyboard.ts";
import { openPrompt } from "./question-prompt.ts";

/** The display of this kind. */
export function displayOf(kind: ScreenKind): Display {
  const keyboard = new Keyboard();
  return {
    warn: printError,
    openPrompt: (options) => openPrompt(kind, keyboard, options),
    openScreen: async (options) => {
      switch (kind) {
        case "live":
          return new (await import("./live-screen.ts")).LiveScreen(options, keyboard);
        case "plain":
          if (isWorkflow()) {
            return new (await import("./line-screen.ts")).WorkflowScreen(options);
          }
          return new (await import("./line-screen.ts")).LineScreen(options);
        case "json":
          return new (await import("./line-screen.ts")).JsonScreen(options);
        case "quiet":
          return NO_DISPLAY.openScreen(options);
      }
    },
  };
}

/** True in a job of GitHub Actions, whose log knows groups and annotations. */
function isWorkflow(): boolean {
  return process.env.GITHUB_ACTIONS === "true" && process.stdout.isTTY !== true;
}

/** Prints the state of the run, as `why` does, when this process has done its part. */
export async function printOutcome(
  project: Project,
  known: LoadedRun,
  screen: ScreenKind,
): Promise<void> {
  if (screen === "json") return;
  if (screen === "quiet" && known.run.state.status === "completed") return;
  const say = screen === "quiet" ? printError : print;
  // Plain lines have already shown the output.
  const output = screen === "plain" ? undefined : await failedOutput(known);
  const width = screen === "live" ? process.stdout.columns || undefined : undefined;
  const style = terminalStyle(process.env, screen === "quiet" ? process.stderr : process.stdout);
  const card = endCard({ ...whyInputOf(known, Date.now()), output, width, style });
  for (const line of card) say(line);
  if (isOver(known)) await printResult(project, known, say);
}

/** True when a run has a result: it completed, or it failed. */
export function isOver({ run }: LoadedRun): boolean {
  return run.state.status === "completed" || run.state.status === "failed";
}

/** Prints where the work of a worktree run is, and how to take it. */
export async function printResult(
  project: Project,
  known: LoadedRun,
  say: (line: string) => void,
): Promise<void> {
  const { workspace } = known.run;
  if (workspace?.kind !== "worktree") return;
  if (project.workers !== undefined) {
    const lines = fleetResultLines(workspace.branch ?? "", known.shortId);
    for (const line of lines) say(line);
    return;
  }
  const { resultOf } = await import("../../app/take.ts");
  const result = await resultOf(project, known).catch((error: unknown) => {
    // The run is fine even if its branch cannot be read.
    say(`The run's branch cannot be read: ${asRefusal(error)?.message ?? String(error)}`);
    return undefined;
  });
  if (result === undefined) return;
  for (const line of resultLines(result, known.shortId)) say(line);
}
