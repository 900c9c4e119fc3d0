/**
 * What a rewind does, worked out before anything changes: `resume --from-step`, `retry`, `rewind` and
 * `invalidate` are four sizes of the same request.
 *
 * Owns: the fact of each command for the engine, its preview, and the question whether an effect may
 *   happen again.
 * Does not: change a run; its owner does (rewind.ts, or the living owner: request-facts.ts).
 */

import { effectsWithin } from "../core/attempt/effect.ts";
import type { RunRewound } from "../core/event.ts";
import type { Fact } from "../core/fact.ts";
import { planRewind, retryEvents } from "../core/graph/rewind.ts";
import { currentVisit, type Effect, findStep, type StepRecord, type Visit } from "../core/run.ts";
import { type NamedVisit, parseVisit, stepPath } from "../core/step-path.ts";
import {
  changeLines,
  type RewindPlan,
  rewindLines,
  rewindPlan,
} from "../view/preview/resume-plan.ts";
import type { LoadedRun } from "./loaded-run.ts";
import type { Project } from "./project.ts";
import { advice, command, Refusal, RunError } from "./refusal.ts";
import { assumedOutputs, type FilesOption, type FilesPlan, planFiles } from "./rewind-files.ts";
import type { Confirm } from "./screen.ts";

export interface RewindRequest {
  readonly verb: "from-step" | "retry" | "rewind" | "invalidate";
  /** `fix`, or `fix@2` for the beginning of its second visit. */
  readonly step: string;
  readonly files?: FilesOption | undefined;
  /** For a fan-out: only its failed items. */
  readonly failed?: boolean | undefined;
  /** How many more turns its agent gets. */
  readonly turns?: number | undefined;
  /** A person agrees that a once effect happens again. */
  readonly repeat?: true;
  /** The request is for a living owner, whose steps continue. */
  readonly ofOwner?: true;
}

type RewindFact = Extract<Fact, { type: "retry-requested" | "rewind-requested" }>;

/** The fact of a request, and what it does. */
export interface RewindPreview {
  /** Lacks the outputs of steps that are assumed to be completed: `rewindFact` adds them. */
  readonly fact: RewindFact;
  readonly steps: RewindPlan;
  readonly files: FilesPlan;
  /** Absent when a failed step only gets another attempt. */
  readonly rewind?: Omit<RunRewound, "type">;
}

/** The once effects of a step, or of steps inside it, that a request would repeat. */
export function repeatsOf(
  { run }: LoadedRun,
  { verb, step, failed }: RewindRequest,
): readonly Effect[] {
  const path = stepPath(parseVisit(step));
  const visit = currentVisit(findStep(run, path));
  // A retry of failed work repeats no completed effect.
  if (verb === "retry" && (failed === true || visit?.state.status === "failed")) return [];
  return effectsWithin(run, path).filter(({ done }) => done === true);
}

/** Works out what a request does. Throws when the run cannot do it. */
export async function previewRewind(
  project: Project,
  known: LoadedRun,
  request: RewindRequest,
): Promise<RewindPreview> {
  return preview(project, known, request).catch((error: unknown) => {
    throw new RunError(known.shortId, error);
  });
}

async function preview(
  project: Project,
  known: LoadedRun,
  request: RewindRequest,
): Promise<RewindPreview> {
  const place = parseVisit(request.step);
  if (place.attempt !== undefined) {
    const message = `${request.step} is an attempt; name a step or a visit of it`;
    throw new Refusal("impossible", message, command("show", known.shortId));
  }
  return request.verb === "retry"
    ? planRetry(project, known, place, request)
    : planReturn(project, known, place, request);
}

async function planRetry(
  project: Project,
  known: LoadedRun,
  place: NamedVisit,
  { files: given, failed, turns, repeat, ofOwner }: RewindRequest,
): Promise<RewindPreview> {
  const { plan, run } = known;
  const retry = {
    step: stepPath(place),
    ...(failed === true ? { failed } : {}),
    ...(turns === undefined ? {} : { turns }),
    ...(repeat === undefined ? {} : { repeat }),
  };
  const { step } = retry;
  const [first] = retryEvents(plan, run, retry);
  const rewind = first?.type === "run.rewound" ? first : undefined;
  const reopened = rewind?.reopened ?? [step];
  const visit = visitOf(known, findStep(run, step), place);
  const usual = rewind === undefined && given === undefined;
  const files =
    rewind?.items !== undefined
      ? itemFiles(given)
      : usual && visit?.conversation?.failure !== undefined
        ? { request: {}, line: "the files stay as the agent left them: its conversation continues" }
        : usual && ofOwner === true
          ? { request: {}, line: "the files are those of any other attempt after a failure" }
          : await planFiles(project, known, { visit, reopened, ofOwner }, given);
  const again = [...(rewind?.items ?? []), ...reopened];
  return {
    fact: { type: "retry-requested", ...retry, ...files.request },
    steps: rewindPlan(run, { step, reopened: again, assumed: [], ...(repeat && { repeat }) }),
    files,
    ...(rewind === undefined ? {} : { rewind }),
  };
}

/** Single items keep the files: a restore would undo the work of other items. */
function itemFiles(given: FilesOption | undefined): FilesPlan {
  if (given === "restore") {
    const message = "the files of single items cannot be restored";
    throw new Refusal("no-snapshots", message, advice("--files keep"));
  }
  return { request: {}, line: "the files stay as they are" };
}

async function planReturn(
  project: Project,
  known: LoadedRun,
  place: NamedVisit,
  { verb, files: given, repeat, ofOwner }: RewindRequest,
): Promise<RewindPreview> {
  const { plan, run } = known;
  const step = stepPath(place);
  const rewind = planRewind(plan, run, step);
  await assumedOutputs(known, rewind.assumed, "look");
  const record = findStep(run, step);
  if (verb === "invalidate" && currentVisit(record) === undefined) {
    const message = `step ${step} has no result to discard`;
    throw new Refusal("impossible", message, command("show", known.shortId));
  }
  const visit = visitOf(known, record, place);
  if (verb === "rewind" && visit === undefined) {
    const message = `step ${step} has not run yet: there is nothing to rewind to`;
    throw new Refusal("impossible", message, command("show", known.shortId));
  }
  const target = { visit, reopened: rewind.reopened, ofOwner };
  const files =
    verb === "invalidate"
      ? { request: {}, line: "the files stay as they are" }
      : await planFiles(project, known, target, given);
  const agreed = repeat === undefined ? {} : { repeat };
  const which = place.visit === undefined ? {} : { visit: place.visit };
  return {
    fact: { type: "rewind-requested", step, ...which, ...files.request, ...agreed },
    steps: rewindPlan(run, { ...rewind, ...agreed }),
    files,
    rewind: { ...rewind, ...agreed },
  };
}

/** The fact of a request, for the owner of the run; stores the outputs that it names. */
export async function rewindFact(known: LoadedRun, back: RewindPreview): Promise<RewindFact> {
  const { fact } = back;
  const outputs = await assumedOutputs(known, back.rewind?.assumed ?? [], "keep");
  if (Object.keys(outputs).length === 0 || fact.type !== "rewind-requested") return fact;
  return { ...fact, outputs };
}

/** The visit to rewind to: the named one, or the last one with an attempt. */
function visitOf(
  { shortId }: LoadedRun,
  record: StepRecord | undefined,
  place: NamedVisit,
): Visit | undefined {
  const visits = record?.visits ?? [];
  const worked = visits.filter(({ attempts }) => attempts > 0);
  if (place.visit === undefined) return worked.at(-1);
  const visit = visits[place.visit - 1];
  if (visit !== undefined && visit.attempts > 0) return visit;
  const count = worked.length === 1 ? "1 visit" : `${worked.length} visits`;
  const message = `step ${stepPath(place)} has had ${count}: there is no ${placeName(place)}`;
  throw new Refusal("unknown-step", message, command("show", shortId));
}

function placeName(place: NamedVisit): string {
  return `${stepPath(place)}@${place.visit}`;
}

/** The lines that a person sees before a rewind. */
export function previewLines(known: LoadedRun, back: RewindPreview): readonly string[] {
  return [...rewindLines(back.steps), ...rewindFilesLines(known, back)];
}

/** The lines about files; in the project's own directory, they list every change. */
export function rewindFilesLines({ plan }: LoadedRun, { files }: RewindPreview): readonly string[] {
  const line = `files: ${files.line}`;
  const own = plan.workspace?.kind !== "here" || files.changes === undefined;
  return own ? [line] : [line, ...changeLines(files.changes)];
}

interface RepeatOptions {
  readonly dryRun?: boolean;
  /** The person has agreed already. */
  readonly yes?: boolean;
}

/** Asks the person to agree that a once effect happens again; undefined when they decline. */
export async function confirmRepeat(
  known: LoadedRun,
  request: RewindRequest,
  { dryRun, yes }: RepeatOptions,
  confirm: Confirm | undefined,
): Promise<RewindRequest | undefined> {
  const repeats = repeatsOf(known, request);
  const [first] = repeats;
  if (first === undefined) return request;
  if (yes === true) return { ...request, repeat: true };
  if (dryRun === true) return request;
  const more = repeats.length === 1 ? "" : ` and ${repeats.length - 1} more`;
  const message = `${first.place}${more} happened and must not happen twice`;
  if (confirm === undefined) {
    const refusal = `${message}; nothing was changed`;
    throw new Refusal("not-confirmed", refusal, command(...commandOf(known, request), "--yes"));
  }
  const agreed = await confirm(`${message}. Let it happen again?`);
  return agreed ? { ...request, repeat: true } : undefined;
}

function commandOf({ shortId }: LoadedRun, { verb, step }: RewindRequest): readonly string[] {
  return verb === "from-step" ? ["resume", shortId, "--from-step", step] : [verb, shortId, step];
}
