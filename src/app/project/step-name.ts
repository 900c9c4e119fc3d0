/**
 * Names of steps as people write them: `fix`, a visit `fix@2`, an attempt `fix@2.1`, an item
 * `map[3]`, and inside a composite step `map@1.1[3]/fix`, or shorter `map[3]/fix`, or only `fix`
 * where that is unique.
 *
 * Owns: which step of a run a name means, and the one refusal of a name that means none.
 * Does not: look at visits and attempts; the use cases do.
 */
import type { AttemptRef } from "../../core/event.ts";
import { attemptText, parseStepPath, stepPath } from "../../core/step-path.ts";
import { nearest } from "../../util/nearest.ts";
import { shortList } from "../../view/text.ts";
import { BASE, isSnapshotName, NOW } from "../../view/work-history.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { command, Refusal } from "../refusal.ts";

/** How many names a refusal lists. */
const NAMES_SHOWN_MAX = 12;

/** The name with the whole path of its step. Throws a refusal that lists names that are close. */
export function stepNamed(known: LoadedRun, name: string): string {
  const paths = stepPaths(known);
  const [first, second, ...more] = namesMeant(paths, name);
  if (first === undefined) throw unknownStep(known, name, paths);
  if (second === undefined) return first;
  throw ambiguousStep(name, [first, second, ...more], command("show", known.shortId));
}

/** The name of a checkpoint with the whole path of its step. */
export function pointNamed(known: LoadedRun, name: string): string {
  const isOther = name === NOW || name === BASE || isSnapshot(known, name);
  return isOther ? name : stepNamed(known, name);
}

/** True for a name that may be a snapshot's and is not that of a step. */
export function isSnapshot(known: LoadedRun, name: string): boolean {
  return isSnapshotName(name) && namesMeant(stepPaths(known), name).length === 0;
}

/** The full names, with paths, of the steps that a short name may mean; of each step the newest. */
export function namesMeant(paths: readonly string[], name: string): readonly string[] {
  const wanted = segmentsOf(name);
  const last = wanted.at(-1);
  const rest = last === undefined ? "" : restOf(last);
  if (paths.includes(name.slice(0, name.length - rest.length))) return [name];
  const meant = paths.filter((path) => {
    const segments = segmentsOf(path);
    // The id alone is enough for a step inside others.
    return fits(wanted, wanted.length === 1 ? segments.slice(-1) : segments);
  });
  const newest = new Map(meant.map((path) => [shortPath(path), `${path}${rest}`]));
  return [...newest.values()];
}

/** The refusal of a name that several steps have. */
export function ambiguousStep(
  name: string,
  meant: readonly string[],
  next: ReturnType<typeof command>,
): Refusal {
  const names = shortList(meant.map(shortPath), NAMES_SHOWN_MAX);
  return new Refusal("ambiguous-step", `${name} may be one of ${names}: name one`, next);
}

/** True for an attempt of the named step, visit, attempt or item, or of a step inside it. */
export function isAttemptOf(name: string, at: AttemptRef): boolean {
  const wanted = segmentsOf(name);
  return fits(wanted, segmentsOf(attemptText(at)).slice(0, wanted.length));
}

/** `map@1.1[3]/fix` as people write it: `map[3]/fix`. */
export function shortPath(path: string): string {
  return path.replaceAll(/@\d+\.\d+\[/g, "[");
}

/** The paths of all steps of a run, in the order in which they were opened. */
export function stepPaths({ run, events, plan }: LoadedRun): readonly string[] {
  const paths = new Set(plan.graph.steps.map(({ id }) => id));
  for (const { id: scope, graph } of run.scopes.values()) {
    for (const { id: step } of graph.steps) paths.add(stepPath({ scope, step }));
  }
  // An update may have removed a step from the plan; its history is still there.
  for (const { event } of events) if (event.type === "step.started") paths.add(stepPath(event));
  return [...paths];
}

/** One step of a path: `map@1.1[3]`. */
interface Segment {
  readonly id: string;
  readonly visit: string | undefined;
  readonly attempt: string | undefined;
  readonly index: string | undefined;
}

const SEGMENT = /^(.+?)(?:@(\d+)(?:\.(\d+))?)?(?:\[(\d+)\])?$/;

function segmentsOf(name: string): readonly Segment[] {
  return name.split("/").map((text) => {
    const [, id = text, visit, attempt, index] = SEGMENT.exec(text) ?? [];
    return { id, visit, attempt, index };
  });
}

/** What a segment says besides its id. */
function restOf({ visit, attempt, index }: Segment): string {
  const number = attempt === undefined ? visit : `${visit}.${attempt}`;
  const at = number === undefined ? "" : `@${number}`;
  return index === undefined ? at : `${at}[${index}]`;
}

/** True when a path has every part that a name gives. The last step of a path has only its id. */
function fits(wanted: readonly Segment[], segments: readonly Segment[]): boolean {
  if (wanted.length !== segments.length) return false;
  return wanted.every(({ id, visit, attempt, index }, position) => {
    const is = segments[position];
    const same = (one: string | undefined, other: string | undefined): boolean =>
      one === undefined || other === undefined || one === other;
    return (
      id === is?.id && same(visit, is.visit) && same(attempt, is.attempt) && same(index, is.index)
    );
  });
}

function unknownStep({ shortId }: LoadedRun, name: string, paths: readonly string[]): Refusal {
  const short = [...new Set(paths.map(shortPath))];
  const ids = paths.map((path) => parseStepPath(path).step);
  const last = segmentsOf(name).at(-1)?.id ?? name;
  const meant = nearest(name, short) ?? nearest(last, ids);
  const hint =
    meant === undefined
      ? `its steps are ${shortList(short, NAMES_SHOWN_MAX)}`
      : `did you mean ${meant}?`;
  const message = `run ${shortId} has no step ${name}; ${hint}`;
  return new Refusal("unknown-step", message, command("show", shortId));
}
