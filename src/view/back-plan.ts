/** What a rewind will do, before it happens: steps that run again, results that stay, files. */
import type { RunRewound } from "../core/event.ts";
import type { Run } from "../core/run.ts";
import { shortList } from "./display-text.ts";
import { repeatText } from "./doubt-text.ts";
import type { STEP_LOOKS } from "./step-status.ts";
import { rootSteps } from "./step-tree.ts";

export interface BackPlan {
  /** Steps that run again, the first one included. */
  readonly again: readonly string[];
  /** Steps whose results stay. */
  readonly kept: readonly string[];
  /** Unfinished steps before it that are treated as completed. */
  readonly assumed: readonly string[];
  /** Effects that must not happen twice, among the steps that run again. */
  readonly repeats: readonly string[];
}

/** The paths that restoring a snapshot changes. */
export interface FileChanges {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
}

/** How many steps or files a line names. */
const NAMES_MAX = 10;
/** How many files are listed. */
const FILES_MAX = 10;

/** What a rewind does to the steps of the pipeline. */
export function backPlan(
  run: Run,
  rewind: Pick<RunRewound, "step" | "reopened" | "assumed" | "repeat">,
): BackPlan {
  const { step: named, reopened: again, assumed, repeat } = rewind;
  const kept = [...rootSteps(run)]
    .filter(({ status }) => KEPT.has(status))
    .map(({ path }) => path)
    .filter((path) => !again.includes(path) && !assumed.includes(path));
  const repeats = again.flatMap((step) => {
    const text = repeatText(run, step, step === named ? (repeat ? "agreed" : "named") : "after");
    return text === "" ? [] : [step + text];
  });
  return { again, kept, assumed, repeats };
}

const KEPT: ReadonlySet<keyof typeof STEP_LOOKS> = new Set([
  "completed",
  "assumed",
  "handled",
  "skipped",
]);

/** The plan in words. */
export function backLines(plan: BackPlan): readonly string[] {
  const { again, kept, assumed, repeats } = plan;
  return [
    `runs again: ${shortList(again, NAMES_MAX)}`,
    `kept: ${kept.length === 0 ? "nothing" : shortList(kept, NAMES_MAX)}`,
    ...(assumed.length === 0 ? [] : [`treated as completed: ${shortList(assumed, NAMES_MAX)}`]),
    ...repeats.slice(0, NAMES_MAX).map((text) => `once: ${text}`),
  ];
}

/** The files that a restore would change, one line each. */
export function changeLines({ added, changed, removed }: FileChanges): readonly string[] {
  const rows = [
    ...changed.map((path) => `  overwrites ${path}`),
    ...removed.map((path) => `  removes ${path}`),
    ...added.map((path) => `  restores ${path}`),
  ];
  const left = rows.length - FILES_MAX;
  return left <= 0 ? rows : [...rows.slice(0, FILES_MAX), `  and ${left} more`];
}
