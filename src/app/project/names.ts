/**
 * The names that people use: of a run, and in it of a step, a visit `fix@2`, an attempt `fix@2.1`, an item
 * `map[3]`; inside a composite step `map@1.1[3]/fix`, or shorter `map[3]/fix`, or only `fix` where that is
 * unique.
 *
 * Owns: which step of a run a name means, and the one refusal of a name that means none; which run a
 * command with `[run]` and other words means, even if the person names none.
 * Does not: check that a visit or an attempt exists; the use cases do. Choose a run to resume (resume.ts),
 * or a run to stop (stop.ts): these ask or refuse where a wrong guess would start or end something.
 */
import type { AttemptRef } from "../../core/event.ts";
import { attemptText, parseStepPath, stepPath } from "../../core/step-path.ts";
import { nearest } from "../../util/nearest.ts";
import { shortList } from "../../view/text.ts";
import { BASE, isSnapshotName, NOW } from "../../view/work-history.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { command, Refusal } from "../refusal.ts";
import { livenessOf, type Project, resolveRunId, runsNamed, shortIdOf } from "./project.ts";

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

/** The parts of a segment after its id. */
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

/** The words of a command after its name: `[run]`, and then others. */
export interface RunWords {
  /** How many words there must be besides the run. */
  readonly needs?: number;
  /** How many words there may be besides the run. */
  readonly takes?: number;
  /** What a missing word is called. */
  readonly what?: string;
  /** Which runs come first when no run is named; default: all. */
  readonly prefers?: "asking" | "driven";
}

/** The run that a person means. */
interface MeantRun {
  readonly runId: string;
  /** The words after the run. */
  readonly words: readonly string[];
  /** Which run was taken, when others could have been meant. */
  readonly note?: string;
}

/** A run id as Perdure prints it: short, or whole. */
const PRINTED_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}(-[0-9a-f]{4}(-[0-9a-f]{4}(-[0-9a-f]{12})?)?)?)?$/i;

/** Finds the run that the words name, or the default run if they name none. */
export async function meantRun(
  project: Project,
  given: readonly (string | undefined)[],
  { needs = 0, takes = needs, what = "the step", prefers }: RunWords = {},
): Promise<MeantRun> {
  const words = given.filter((word) => word !== undefined);
  const [first = "", ...rest] = words;
  const isPrinted = PRINTED_ID.test(first) && words.length > needs;
  const isRun =
    words.length > takes || isPrinted || (await runsNamed(project.journal, first)).length > 0;
  if (!isRun && words.length < needs) {
    throw new Refusal("bad-option", `name ${what}`, command("show"));
  }
  if (!isRun) return { ...(await unnamedRun(project, prefers)), words };
  const runId = await resolveRunId(project.journal, first);
  if (rest.length >= needs) return { runId, words: rest };
  const shortId = await shortIdOf(project.journal, runId);
  throw new Refusal("bad-option", `${first} is a run; name ${what}, too`, command("show", shortId));
}

/** How many runs are looked at for one that is asking or driven. */
const LOOKED_AT_MAX = 100;

async function unnamedRun(
  { journal }: Project,
  prefers: RunWords["prefers"],
): Promise<Omit<MeantRun, "words">> {
  const open = { status: ["queued", "running", "waiting"], limit: LOOKED_AT_MAX } as const;
  const wanted = prefers === undefined ? [] : await journal.log.list(open);
  const preferred = wanted.filter((run) =>
    prefers === "asking" ? run.status === "waiting" : livenessOf(run.lease) === "owned",
  );
  const candidates = preferred.length > 0 ? preferred : await journal.log.list({ limit: 2 });
  const [newest, other] = candidates;
  if (newest === undefined) {
    throw new Refusal("no-runs", "there are no runs here", command("run", "FILE"));
  }
  const { runId } = newest;
  if (other === undefined) return { runId };
  return { runId, note: `run ${await shortIdOf(journal, runId)} (${newest.pipeline}), the newest` };
}
