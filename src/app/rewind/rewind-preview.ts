/**
 * Works out what a rewind does before anything changes. `resume --from-step`, `retry` and `rewind` are
 * three forms of the same request.
 *
 * Owns: the fact of each command for the engine, its preview, and the question whether an effect may
 *   happen again.
 * Does not: change a run; its owner does (rewind.ts, or the living owner: owner-requests.ts).
 */

import { effectsWithin } from "../../core/attempt/effect.ts";
import type { EventOf } from "../../core/event.ts";
import type { FactOf } from "../../core/fact.ts";
import { hidesFailures, retryEvents } from "../../core/graph/retry.ts";
import { planRewind } from "../../core/graph/rewind.ts";
import {
  currentVisit,
  type Effect,
  findStep,
  type StepRecord,
  type Visit,
} from "../../core/run.ts";
import {
  itemName,
  type NamedVisit,
  parseItem,
  parseVisit,
  stepPath,
} from "../../core/step-path.ts";
import {
  changeLines,
  type RewindPlan,
  rewindLines,
  rewindPlan,
} from "../../view/preview/resume-plan.ts";
import { commitText } from "../../view/text.ts";
import { checkpointNamed } from "../../view/work-history.ts";
import type { Confirm } from "../drive/screen.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { stepNamed } from "../project/names.ts";
import type { Project } from "../project/project.ts";
import { advice, command, naming, Refusal, RunError, when } from "../refusal.ts";
import { assumedOutputs, type FilesOption, type FilesPlan, planFiles } from "./rewind-files.ts";

export interface RewindRequest {
  readonly verb: "from-step" | "retry" | "rewind";
  /** `fix`, or `fix@2` for the beginning of its second visit. */
  readonly step: string;
  readonly files?: FilesOption | undefined;
  /** For a fan-out: only its failed items. */
  readonly failed?: boolean | undefined;
  /** For a fan-out: only these items, by their positions. */
  readonly items?: readonly number[] | undefined;
  /** How many more turns its agent gets. */
  readonly turns?: number | undefined;
  /** A person agrees that a once effect happens again. */
  readonly repeat?: true;
  /** The request is for a living owner, whose steps continue. */
  readonly ofOwner?: true;
}

type RewindFact = FactOf<"retry-requested" | "rewind-requested">;

/** The fact of a request, and what it does. */
export interface RewindPreview {
  /** Lacks the outputs of steps that are assumed to be completed: `rewindFact` adds them. */
  readonly fact: RewindFact;
  readonly steps: RewindPlan;
  readonly files: FilesPlan;
  /** Absent when a failed step only gets another attempt. */
  readonly rewind?: Omit<EventOf<"run.rewound">, "type">;
}

/** What a retry names: a step, or items of one fan-out (`map[3] map[7]`). */
export function retriedBy(names: readonly string[]): Pick<RewindRequest, "step" | "items"> {
  const [first = "", ...others] = names;
  const items = names.map(parseItem);
  const step = items[0]?.step ?? first;
  const known = items.flatMap((item) => (item?.step === step ? [item.index] : []));
  if (known.length === names.length) return { step, items: known };
  if (others.length === 0) return { step: first };
  const message = "several names must be items of one fan-out, such as 'map[3]' 'map[7]'";
  throw new Refusal("bad-option", message, advice("Retry one step after the other."));
}

/** The names of what a request is about, as a person writes them. */
export function namesOf({ step, items }: RewindRequest): readonly string[] {
  return items === undefined ? [step] : items.map((index) => itemName(step, index));
}

/**
 * The request as this run understands it: a retry of a fan-out that completed although items failed
 * is a retry of these items.
 */
export function understood({ run }: LoadedRun, request: RewindRequest): RewindRequest {
  const { verb, step, items } = request;
  const place = parseVisit(step);
  if (verb !== "retry" || items !== undefined || place.visit !== undefined) return request;
  const visit = currentVisit(findStep(run, step));
  return visit !== undefined && hidesFailures(visit) ? { ...request, failed: true } : request;
}

/** The once effects of a step, or of steps inside it, that a request would repeat. */
function repeatsOf(
  known: LoadedRun,
  { verb, step, failed, items }: RewindRequest,
): readonly Effect[] {
  // An effect in an item that runs again stays known: its probe or a person is asked.
  if (items !== undefined) return [];
  const { run } = known;
  const path = stepPath(parseVisit(stepNamed(known, step)));
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
  return previewOf(project, known, request).catch((error: unknown) => {
    throw new RunError(known.shortId, error);
  });
}

async function previewOf(
  project: Project,
  known: LoadedRun,
  given: RewindRequest,
): Promise<RewindPreview> {
  const request = { ...given, step: stepNamed(known, given.step) };
  const place = parseVisit(request.step);
  if (request.items !== undefined) refuseOtherAttempt(known, request);
  else if (place.attempt !== undefined) {
    throw namesAttempt(known, place, request);
  }
  return request.verb === "retry"
    ? planRetry(project, known, place, request)
    : planRewindTo(project, known, place, request);
}

/** Refuses items of an attempt that is not the last one: their results are not used any more. */
function refuseOtherAttempt({ run, shortId }: LoadedRun, { step }: RewindRequest): void {
  const place = parseVisit(step);
  const visit = currentVisit(findStep(run, stepPath(place)));
  const { visit: number = visit?.number, attempt = visit?.attempts } = place;
  if (number === visit?.number && attempt === visit?.attempts) return;
  const message = `${step} is not the last attempt of step ${stepPath(place)}`;
  throw new Refusal("impossible", message, command("show", shortId));
}

async function planRetry(
  project: Project,
  known: LoadedRun,
  place: NamedVisit,
  { files: given, failed, items, turns, repeat, ofOwner }: RewindRequest,
): Promise<RewindPreview> {
  const { plan, run } = known;
  const retry = {
    step: stepPath(place),
    ...(failed === true ? { failed } : {}),
    ...(items === undefined ? {} : { items }),
    ...(turns === undefined ? {} : { turns }),
    ...(repeat === undefined ? {} : { repeat }),
  };
  const { step } = retry;
  const [first] = retryEvents(plan, run, retry);
  const rewind = first?.type === "run.rewound" ? first : undefined;
  const reopened = rewind?.reopened ?? namesOf({ verb: "retry", step, items });
  const visit = visitOf(known, findStep(run, step), place);
  const usual = rewind === undefined && given === undefined;
  const files =
    rewind?.items !== undefined || items !== undefined
      ? itemFiles(given)
      : usual && visit?.conversation?.failure !== undefined
        ? { request: {}, line: "the files stay as the agent left them: its conversation continues" }
        : usual && ofOwner === true
          ? { request: {}, line: "the files are those of any other attempt after a failure" }
          : await planFiles(project, known, { visit, reopened, ofOwner }, given);
  const again = [...(rewind?.items ?? []).map(shownItem), ...reopened];
  return {
    fact: { type: "retry-requested", ...retry, ...files.request },
    steps: rewindPlan(run, { step, reopened: again, assumed: [], ...(repeat && { repeat }) }),
    files,
    ...(rewind === undefined ? {} : { rewind }),
  };
}

/** `map@1.1[3]` for an item that runs from its beginning; the visits of others as they are. */
function shownItem(item: string): string {
  return item.endsWith("/") ? item.slice(0, -1) : item;
}

/** Single items keep the files: a restore would undo the work of other items. */
function itemFiles(given: FilesOption | undefined): FilesPlan {
  if (given === "restore") {
    const message = "the files of single items cannot be restored";
    throw new Refusal("no-snapshots", message, advice("--files keep"));
  }
  return { request: {}, line: "the files stay as they are" };
}

async function planRewindTo(
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
  const visit = visitOf(known, record, place);
  if (verb === "rewind" && currentVisit(record) === undefined) {
    const message = `step ${step} has not run yet: there is nothing to rewind to`;
    throw new Refusal("impossible", message, command("show", known.shortId));
  }
  const target = { visit, reopened: rewind.reopened, ofOwner };
  const files = await planFiles(project, known, target, given);
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
export async function rewindFact(known: LoadedRun, preview: RewindPreview): Promise<RewindFact> {
  const { fact } = preview;
  const outputs = await assumedOutputs(known, preview.rewind?.assumed ?? [], "keep");
  if (Object.keys(outputs).length === 0 || fact.type !== "rewind-requested") return fact;
  return { ...fact, outputs };
}

/** The refusal of an attempt: a run can be rewound only to the start of a step or of a visit. */
function namesAttempt(known: LoadedRun, place: NamedVisit, { verb, step }: RewindRequest): Refusal {
  const { shortId, events } = known;
  const visit = placeName(place);
  const next = command(
    ...commandOf(known, { verb, step: verb === "retry" ? stepPath(place) : visit }),
  );
  const { commit } = naming(shortId, () => checkpointNamed(events, step));
  const files = when("its files alone", "rewind", shortId, commitText(commit ?? ""));
  return new Refusal(
    "impossible",
    `${step} is an attempt; name a step or a visit of it`,
    commit === undefined ? next : [next, files],
  );
}

/** The visit to rewind to: the named one, or the last one with an attempt. */
export function visitOf(
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
export function previewLines(known: LoadedRun, preview: RewindPreview): readonly string[] {
  return [...rewindLines(preview.steps), ...rewindFilesLines(known, preview)];
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

function commandOf({ shortId }: LoadedRun, request: RewindRequest): readonly string[] {
  const { verb, step } = request;
  if (verb === "from-step") return ["resume", shortId, "--from-step", step];
  return [verb, shortId, ...namesOf(request)];
}
