/**
 * Outputs: the files that steps passed on and that other steps may still read after a resume.
 *
 * Owns: which outputs an event names, which of them count now, and whether the run may have changed
 * them since.
 * Does not: read files.
 */
import type { Output, Recorded, RunEvent } from "./event.ts";
import {
  currentVisit,
  outermost,
  type Run,
  type Scope,
  stepOf,
  type Visit,
  visitRef,
} from "./run.ts";
import { stepPath, visitText } from "./step-path.ts";

export interface CurrentOutput {
  /** The path of the step. */
  readonly step: string;
  /** The step of the pipeline itself that it is, or is part of. */
  readonly root: string;
  readonly name: string;
  readonly output: Output;
  /** No step whose work counts has run since. */
  readonly untouched: boolean;
}

/** The outputs that an event names, including those that wait for a merge or a verdict. */
export function outputsNamedBy(event: RunEvent): readonly Output[] {
  switch (event.type) {
    case "step.completed":
      return Object.values(event.outputs);
    case "step.submitted":
    case "step.conflicted":
      return Object.values(event.held.outputs);
    case "step.recalled":
      return Object.values(event.found?.held.outputs ?? {});
    case "run.rewound":
      return Object.values(event.outputs ?? {}).flatMap((outputs) => Object.values(outputs));
    default:
      return [];
  }
}

/** The outputs of done steps; of those with the same path only the last one counts. */
export function currentOutputs(
  run: Run,
  events: Iterable<Recorded>,
  reopened: ReadonlySet<string>,
): readonly CurrentOutput[] {
  const { endOf, lastWork } = workIn(run, events);
  const found = new Map<string, { readonly seq: number; readonly one: CurrentOutput }>();
  for (const scope of run.scopes.values()) {
    if (!isOpen(scope)) continue;
    for (const record of scope.steps) {
      const visit = currentVisit(record);
      if (visit?.state.status !== "completed") continue;
      const root = stepOf(outermost(visit)).id;
      if (reopened.has(root)) continue;
      const seq = endOf.get(visitText(visitRef(visit))) ?? 0;
      const common = { step: stepPath(visitRef(visit)), root, untouched: lastWork <= seq };
      for (const [name, output] of Object.entries(visit.state.outputs)) {
        if ((found.get(output.path)?.seq ?? 0) > seq) continue;
        found.set(output.path, { seq, one: { ...common, name, output } });
      }
    }
  }
  return [...found.values()].map(({ one }) => one);
}

/** When each visit completed, and when the last attempt whose work counts ended. */
function workIn(
  run: Run,
  events: Iterable<Recorded>,
): { readonly endOf: ReadonlyMap<string, number>; readonly lastWork: number } {
  const endOf = new Map<string, number>();
  const staying = new Set<string>();
  for (const scope of run.scopes.values()) {
    for (const record of scope.steps) {
      for (const visit of record?.visits ?? []) {
        if (workStays(visit)) staying.add(visitText(visitRef(visit)));
      }
    }
  }
  let lastWork = 0;
  for (const { event, seq } of events) {
    if (!("attempt" in event)) continue;
    const place = visitText(event);
    if (event.type === "step.completed") endOf.set(place, seq);
    if (staying.has(place)) lastWork = seq;
  }
  return { endOf, lastWork };
}

/**
 * False for interrupted work that is undone before its next attempt; a continued conversation keeps
 * it.
 */
function workStays({ state, conversation, workedBesideOthers }: Visit): boolean {
  const over = state.status === "completed" || state.status === "failed";
  return over || workedBesideOthers === true || conversation?.session !== undefined;
}

function isOpen({ parent }: Scope): boolean {
  return parent === undefined || parent.state.status !== "completed";
}
