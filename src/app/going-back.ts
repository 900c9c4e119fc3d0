/**
 * Going back in a run: `resume --from-step`, `retry`, `rewind` and `invalidate` ask for the same thing
 * in different measure.
 *
 * Owns: what each of them asks of the engine, and what is told before it is done.
 * Does not: change anything.
 */
import { effectsWithin } from "../core/effect.ts";
import type { RunRewound } from "../core/event.ts";
import type { Fact } from "../core/fact.ts";
import { type NamedPlace, parsePlace, stepPath } from "../core/place.ts";
import { planRewind, Refusal, retryEvents } from "../core/rewind.ts";
import { currentVisit, type Effect, findStep, type StepRecord, type Visit } from "../core/run.ts";
import { type BackPlan, backLines, backPlan, changeLines } from "../view/back-plan.ts";
import { assumedOutputs } from "./assumed-outputs.ts";
import { type FilesOption, type FilesPlan, planFiles } from "./back-files.ts";
import type { KnownRun } from "./known-run.ts";
import type { Project } from "./project.ts";

export interface BackRequest {
  readonly verb: "from-step" | "retry" | "rewind" | "invalidate";
  /** `fix`, or `fix@2` for the beginning of its second visit. */
  readonly step: string;
  readonly files?: FilesOption | undefined;
  /** Of a fan-out: only what failed in it. */
  readonly failed?: boolean | undefined;
  /** How many turns more its agent gets. */
  readonly turns?: number | undefined;
  /** A person agrees that the step happens again, although it must not happen twice. */
  readonly repeat?: true;
}

/** What is asked of the engine, and what that does. */
export interface Back {
  /** What the steps that are taken as done hand on is added when the run is ours (`factsOf`). */
  readonly facts: readonly Fact[];
  readonly steps: BackPlan;
  readonly files: FilesPlan;
  /** Absent when the step failed and only gets another try. */
  readonly rewind?: Omit<RunRewound, "type">;
}

/** What a step, or one in it, has done that must not happen twice and that a request would repeat. */
export function repeatsOf(
  { run }: KnownRun,
  { verb, step, failed }: BackRequest,
): readonly Effect[] {
  const path = stepPath(parsePlace(step));
  const visit = currentVisit(findStep(run, path));
  // Another try of what failed repeats nothing that is done.
  if (verb === "retry" && (failed === true || visit?.state.status === "failed")) return [];
  return effectsWithin(run, path).filter(({ done }) => done === true);
}

/** Works a request out; throws a Refusal when it cannot be granted. */
export async function planBack(
  project: Project,
  known: KnownRun,
  request: BackRequest,
): Promise<Back> {
  const place = parsePlace(request.step);
  if (place.attempt !== undefined) {
    throw new Refusal(`${request.step} is an attempt; go back to a step or to a visit of it`);
  }
  return request.verb === "retry"
    ? planRetry(project, known, place, request)
    : planReturn(project, known, place, request);
}

async function planRetry(
  project: Project,
  known: KnownRun,
  place: NamedPlace,
  { files: given, failed, turns, repeat }: BackRequest,
): Promise<Back> {
  const { plan, run } = known;
  const wish = {
    step: stepPath(place),
    ...(failed === true ? { failed } : {}),
    ...(turns === undefined ? {} : { turns }),
    ...(repeat === undefined ? {} : { repeat }),
  };
  const { step } = wish;
  const [first] = retryEvents(plan, run, wish);
  const rewind = first?.type === "run.rewound" ? first : undefined;
  const reopened = rewind?.reopened ?? [step];
  const visit = visitOf(findStep(run, step), place);
  const continues = rewind === undefined && visit?.talk?.failure !== undefined;
  const files =
    rewind?.items !== undefined
      ? itemFiles(given)
      : continues && given === undefined
        ? { wish: {}, line: "the files stay as the agent left them: its conversation continues" }
        : await planFiles(project, known, { visit, reopened }, given);
  const again = [...(rewind?.items ?? []), ...reopened];
  return {
    facts: [{ type: "retry-requested", ...wish, ...files.wish }],
    steps: backPlan(run, { step, reopened: again, assumed: [], ...(repeat && { repeat }) }),
    files,
    ...(rewind === undefined ? {} : { rewind }),
  };
}

/** Other items have worked since, so the files of one cannot be put back without theirs. */
function itemFiles(given: FilesOption | undefined): FilesPlan {
  if (given === "restore") {
    throw new Refusal("the files of single items cannot be put back: add --files keep");
  }
  return { wish: {}, line: "the files stay as they are" };
}

async function planReturn(
  project: Project,
  known: KnownRun,
  place: NamedPlace,
  { verb, files: given, repeat }: BackRequest,
): Promise<Back> {
  const { plan, run } = known;
  const step = stepPath(place);
  const rewind = planRewind(plan, run, step);
  await assumedOutputs(known, rewind.assumed, "look");
  const record = findStep(run, step);
  if (verb === "invalidate" && currentVisit(record) === undefined) {
    throw new Refusal(`step ${step} has no result that could be taken back`);
  }
  const visit = visitOf(record, place);
  if (verb === "rewind" && visit === undefined) {
    throw new Refusal(`step ${step} has not run yet: there is nothing to go back to`);
  }
  const target = { visit, reopened: rewind.reopened };
  const files =
    verb === "invalidate"
      ? { wish: {}, line: "the files stay as they are" }
      : await planFiles(project, known, target, given);
  const agreed = repeat === undefined ? {} : { repeat };
  const which = place.visit === undefined ? {} : { visit: place.visit };
  return {
    facts: [{ type: "rewind-requested", step, ...which, ...files.wish, ...agreed }],
    steps: backPlan(run, { ...rewind, ...agreed }),
    files,
    rewind: { ...rewind, ...agreed },
  };
}

/** The facts of a request for the owner of the run: what is handed on is kept now. */
export async function factsOf(known: KnownRun, back: Back): Promise<readonly Fact[]> {
  const outputs = await assumedOutputs(known, back.rewind?.assumed ?? [], "keep");
  if (Object.keys(outputs).length === 0) return back.facts;
  return back.facts.map((fact) => (fact.type === "rewind-requested" ? { ...fact, outputs } : fact));
}

/** The visit to whose beginning a place goes back: the one that is named, or the last that worked. */
function visitOf(record: StepRecord | undefined, place: NamedPlace): Visit | undefined {
  const visits = record?.visits ?? [];
  const worked = visits.filter(({ attempts }) => attempts > 0);
  if (place.visit === undefined) return worked.at(-1);
  const visit = visits[place.visit - 1];
  if (visit !== undefined && visit.attempts > 0) return visit;
  const count = worked.length === 1 ? "1 visit" : `${worked.length} visits`;
  throw new Refusal(`step ${stepPath(place)} has had ${count}: there is no ${placeName(place)}`);
}

function placeName(place: NamedPlace): string {
  return `${stepPath(place)}@${place.visit}`;
}

/** What is told before a run goes back. */
export function linesOf(known: KnownRun, back: Back): readonly string[] {
  return [...backLines(back.steps), ...filesLines(known, back)];
}

/** What becomes of the files; one by one where they are the user's own. */
export function filesLines({ plan }: KnownRun, { files }: Back): readonly string[] {
  const line = `files: ${files.line}`;
  const own = plan.workspace?.kind !== "here" || files.changes === undefined;
  return own ? [line] : [line, ...changeLines(files.changes)];
}
