/**
 * What the commands that do something, or that look at files and programs, print for programs.
 *
 * Owns: the values; documents.ts describes them. Each function takes the result of a use case.
 */
import type { AttemptRef, Question } from "../../core/event.ts";
import { waitsFor } from "../../core/graph/visit-state.ts";
import { attemptOf, type Visit } from "../../core/run.ts";
import { stepPath } from "../../core/step-path.ts";
import { type ChangedFile, type ContextChange, fileJson } from "../file-changes.ts";
import { isoText } from "../text.ts";
import type { TimelineEntry } from "../timeline.ts";
import type { Point } from "../work-history.ts";
import type { attempt, PartOf, price, question } from "./document-parts.ts";
import type { DocumentJson } from "./documents.ts";

type AttemptJson = { readonly [K in keyof typeof attempt]: PartOf<(typeof attempt)[K]> };

/** An attempt as a step, a visit and a number. */
export function refJson({ scope, step, visit, attempt }: AttemptRef): AttemptJson {
  return { step: stepPath({ scope, step }), visit, attempt };
}

/** The value of `timeline --json`. */
export function timelineJson(
  runId: string,
  entries: readonly (TimelineEntry & { readonly changed: readonly ChangedFile[] | undefined })[],
): DocumentJson<"timeline"> {
  return {
    run_id: runId,
    checkpoints: entries.map(({ seq, time, event, outcome, snapshot, aside, changed, note }) => ({
      sequence: seq,
      time: isoText(time),
      type: event.type,
      step: "scope" in event && "step" in event ? stepPath(event) : null,
      visit: "visit" in event && "scope" in event ? event.visit : null,
      attempt: "attempt" in event ? event.attempt : null,
      outcome,
      snapshot: snapshot ?? null,
      set_aside: aside ?? null,
      files: changed === undefined ? null : changed.map(fileJson),
      note,
    })),
  };
}

interface ComparedRun {
  readonly from: Point;
  readonly to: Point;
  readonly changed: readonly ChangedFile[];
  readonly context: ContextChange;
  readonly patch: { readonly text: string; readonly cut: boolean } | undefined;
}

/** The value of `diff --json`. */
export function diffJson(runId: string, compared: ComparedRun): DocumentJson<"diff"> {
  const { from, to, changed, context, patch } = compared;
  return {
    run_id: runId,
    from: pointJson(from),
    to: pointJson(to),
    files: changed.map(fileJson),
    context: { added: context.added, changed: context.changed, removed: context.removed },
    patch: patch?.text ?? null,
    patch_cut: patch?.cut ?? false,
  };
}

function pointJson({ name, seq, commit }: Point): DocumentJson<"diff">["from"] {
  return { name, sequence: seq, snapshot: commit ?? null };
}

/** The value of `show RUN GATE --json`. */
export function materialJson(
  runId: string,
  gate: string,
  shown: NonNullable<Question["material"]>,
): DocumentJson<"material"> {
  const parts = shown.map(({ name, text, leftOut: left_out = 0 }) => ({ name, text, left_out }));
  return { run_id: runId, step: gate, material: parts };
}

/** The value of `answer --json` without a choice. */
export function questionsJson(
  runId: string,
  open: readonly { readonly visit: Visit; readonly answer?: unknown }[],
): DocumentJson<"questions"> {
  return {
    run_id: runId,
    questions: open.flatMap(({ visit, answer }) => questionJson(visit, answer !== undefined)),
  };
}

function questionJson(visit: Visit, answered: boolean): readonly PartOf<typeof question>[] {
  const { state } = visit;
  if (!waitsFor(state, "person")) return [];
  return [
    {
      ...refJson(attemptOf(visit)),
      question: state.question,
      choices: state.choices.map(({ key, label, fails }) => ({
        key,
        label,
        fails: fails === true,
      })),
      text: state.text,
      asked_at: isoText(state.since),
      deadline: state.deadline === undefined ? null : isoText(state.deadline.at),
      default: state.default ?? null,
      answered,
    },
  ];
}

interface RatesInput {
  readonly input: number;
  readonly cachedInput?: number | undefined;
  readonly cacheWrite?: number | undefined;
  readonly cacheWrite1h?: number | undefined;
  readonly output: number;
}

type RatesJson = NonNullable<PartOf<typeof price>["over_200k"]>;

/** The prices of a model, in US dollars per million tokens. */
export function ratesJson(rates: RatesInput): RatesJson {
  return {
    input: rates.input,
    cached_input: rates.cachedInput ?? null,
    cache_write: rates.cacheWrite ?? null,
    cache_write_1h: rates.cacheWrite1h ?? null,
    output: rates.output,
  };
}

interface PlannedStep {
  readonly step: string;
  readonly action: string;
  readonly why: string;
  readonly estimate?: {
    readonly workMs: number;
    readonly usd?: number;
    readonly tokens?: number;
  };
}

/** The value of `resume --dry-run --json`. */
export function resumePlanJson(
  runId: string,
  steps: readonly PlannedStep[],
): DocumentJson<"resumePlan"> {
  return { run_id: runId, steps: steps.map(plannedJson) };
}

/** The value of `resume --update --dry-run --json`. */
export function updatePlanJson(
  runId: string,
  steps: readonly PlannedStep[],
  stopsFirst: readonly string[],
): DocumentJson<"updatePlan"> {
  const planned = steps.map(({ estimate, ...step }) => ({
    ...plannedJson(step),
    estimate:
      estimate === undefined
        ? null
        : {
            worked_ms: estimate.workMs,
            cost_usd: estimate.usd ?? null,
            tokens: estimate.tokens ?? null,
          },
  }));
  return { run_id: runId, steps: planned, stops_first: stopsFirst };
}

/** An action is a code: `take result` becomes `take-result`. */
function plannedJson({ step, action, why }: PlannedStep): DocumentJson<"resumePlan">["steps"][0] {
  return { step, action: action.replaceAll(" ", "-"), why };
}

/** The value of `rewind --json`; what is not given is empty. */
export function rewindJson(
  runId: string,
  to: string,
  what: Partial<DocumentJson<"rewind">>,
): DocumentJson<"rewind"> {
  const steps = { runs_again: [], kept: [], assumed: [] };
  const files = { set_aside: null, into: null };
  return { run_id: runId, to, dry_run: false, ...steps, ...files, request: null, ...what };
}

/** The value of `fork --json`. */
export function forkJson(
  runId: string | null,
  from: string,
  { point, lines }: { readonly point: { readonly seq: number }; readonly lines: readonly string[] },
): DocumentJson<"fork"> {
  const forked_from = { run_id: from, sequence: point.seq };
  return { run_id: runId, forked_from, notes: lines };
}
