/**
 * A step for the pages of the dashboard: its row on the page of a run, of a moment, of two runs side by
 * side; and for its own page what the pipeline says about it, and every attempt with its evidence.
 *
 * Owns: the values, as folds over events and the plan. The caller adds what no event holds: what an
 * agent does at this moment, prompts, and sizes of outputs.
 */
import { checksFound } from "../../core/attempt/check.ts";
import type { AttemptEnd, CheckEvidence, Recorded, RunEvent } from "../../core/event.ts";
import { type Instances, type Run, stepOf, type Visit } from "../../core/run.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import { stepStateOf } from "../../core/summary.ts";
import type { Step } from "../../plan/plan.ts";
import type { Json } from "../../util/json.ts";
import { type Attempt, attemptEnd, attemptsOf } from "../attempt-history.ts";
import type { Explained } from "../explain.ts";
import { checkJson } from "../failure-text.ts";
import { resultText } from "../show.ts";
import { elapsedOf, type Liveness, STEP_STYLES, stateWord } from "../step-status.ts";
import { type StepNode, stepTree } from "../step-tree.ts";
import { firstLine, isoText } from "../text.ts";
import { type AttemptWork, workHistory } from "../work-history.ts";
import { refJson } from "./action-json.ts";
import type { runPage, stepPage } from "./dashboard-documents.ts";
import type { DocumentOf } from "./document-parts.ts";
import { printedName, spentJson, timeJson } from "./part-json.ts";
import { receiptJson } from "./run-files.ts";

type AttemptJson = DocumentOf<typeof stepPage>["attempts"][number];

/** What the files of an attempt say. */
export type AttemptFiles = Pick<AttemptJson, "agent" | "prompt" | "output" | "conversation">;

interface StepInput {
  readonly run: Run;
  readonly events: readonly Recorded[];
  readonly explained: Explained;
  readonly engineVersion: string;
}

type Started = Extract<RunEvent, { type: "step.started" }>;

/** The attempts of a step, the newest first; `filesOf` gives what their files say. */
export function stepAttemptsJson(
  input: StepInput,
  filesOf: (at: Started) => AttemptFiles,
): readonly AttemptJson[] {
  const { step } = input.explained;
  const events = input.events.filter(({ event }) => isOf(event, step));
  const history = new Map(attemptsOf(input.events).map((one) => [attemptText(one.at), one]));
  const works = new Map(workHistory(events).map((work) => [attemptText(work.at), work]));
  const ends = new Map(
    events.flatMap((recorded): [string, Recorded<AttemptEnd>][] => {
      const end = attemptEnd(recorded.event);
      return end === undefined ? [] : [[attemptText(end), { ...recorded, event: end }]];
    }),
  );
  const attempts = events.flatMap(({ event }) => {
    if (event.type !== "step.started") return [];
    const name = attemptText(event);
    const attempt = history.get(name);
    if (attempt === undefined) return [];
    const facts = {
      ...{ attempt, work: works.get(name), end: ends.get(name) },
      session: sessionOf(events, event),
    };
    return [{ ...attemptJson(input, event, facts), ...filesOf(event) }];
  });
  return attempts.reverse();
}

function isOf(event: RunEvent, step: string): boolean {
  return "scope" in event && "step" in event && stepPath(event) === step;
}

interface AttemptFacts {
  readonly attempt: Attempt;
  readonly work: AttemptWork | undefined;
  readonly end: Recorded<AttemptEnd> | undefined;
  readonly session: string | undefined;
}

function attemptJson(
  { run, explained, engineVersion }: StepInput,
  at: Started,
  { attempt, work, end, session }: AttemptFacts,
): Omit<AttemptJson, keyof AttemptFiles> {
  const name = attemptText(at);
  const event = end?.event;
  const found = event === undefined ? [] : checksIn(event);
  return {
    name,
    ...refJson(at),
    status: attempt.outcome,
    started_at: isoText(attempt.startedAt),
    ended_at: timeJson(attempt.endedAt),
    worked_ms: attempt.workedMs,
    exit: attempt.exit ?? null,
    reason: attempt.reason ?? null,
    message: attempt.message ?? null,
    cause: explained.attempts.find((one) => one.at === name)?.cause ?? null,
    model: attempt.spent?.model ?? null,
    session: session ?? attempt.spent?.session ?? null,
    spent: spentJson(attempt.spent),
    checks: found.map(foundJson),
    receipt:
      end === undefined
        ? null
        : receiptJson({ run, end, startedAt: attempt.startedAt, engineVersion }),
    from: work?.base ?? null,
    to: work?.snapshot ?? null,
  };
}

function checksIn(event: AttemptEnd): readonly CheckEvidence[] {
  if ("held" in event) return checksFound(event.held);
  return "check" in event || "checks" in event ? checksFound(event) : [];
}

function foundJson(check: CheckEvidence): AttemptJson["checks"][number] {
  const { kind, subject, agent = "", exit, message } = check;
  return {
    name: kind === "judge" ? `judge ${agent}`.trimEnd() : firstLine(subject),
    passed: exit === 0,
    exit,
    message: message ?? null,
    evidence: checkJson(check),
  };
}

/** The conversation that an attempt began or continued. */
function sessionOf(events: readonly Recorded[], at: Started): string | undefined {
  const named = events.findLast(
    ({ event }) => event.type === "step.session" && attemptText(event) === attemptText(at),
  )?.event;
  return named?.type === "step.session" ? named.session : at.conversation?.session;
}

/** Fields that every step has, with the value that says nothing. */
const USUAL: Readonly<Record<string, Json>> = {
  join: "all",
  split: "all",
  once: false,
  visitsMax: 1,
};

/** What the pipeline says about a step: its settings without the usual ones. */
export function settingsJson(planned: Step): Readonly<Record<string, Json>> {
  const { work, id: _, retry, ...step } = planned;
  const { attempts } = retry;
  const own = Object.entries({ ...step, ...(attempts > 1 ? { retry } : {}) });
  const settings = own.filter(([name, value]) => value !== USUAL[name] && !isEmpty(value));
  return Object.fromEntries(
    [...workEntries(work), ...settings].map(([name, value]) => [printedName(name), plain(value)]),
  );
}

/** The work without the steps inside it, which have pages of their own. */
function workEntries(work: Step["work"]): readonly (readonly [string, unknown])[] {
  return Object.entries(work).filter(
    ([name, value]) => !["graph", "branches"].includes(name) && value !== undefined,
  );
}

function isEmpty(value: unknown): boolean {
  return (
    value === undefined || (typeof value === "object" && Object.keys(value ?? {}).length === 0)
  );
}

/** The keys of our own objects with public names. */
function plain(value: unknown): Json {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value as Json;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== undefined)
      .map(([name, inner]) => [name, plain(inner)]),
  );
}

/** The row of a step. */
export type StepRowJson = DocumentOf<typeof runPage>["steps"][number];

interface RowInput {
  readonly liveness: Liveness;
  readonly now: number;
  /** Of agents that work: what each uses and does, by the path of its step. */
  readonly activities?: ReadonlyMap<string, AgentActivity>;
}

interface AgentActivity {
  readonly turns: number;
  readonly costUsd?: number | undefined;
  readonly tool?: string | undefined;
}

/** The rows of a run, each after the composite step that it is in. */
export function stepRowsJson(run: Run, input: RowInput): readonly StepRowJson[] {
  return Array.from(stepTree(run), (node) => stepRowJson(node, input));
}

/** The row of one step. */
export function stepRowJson(node: StepNode, input: RowInput): StepRowJson {
  const { path, label, step, visit, status } = node;
  const state = visit?.state;
  const ended = state?.status === "completed" || state?.status === "failed" ? state.at : undefined;
  const activity = input.activities?.get(path);
  const { spent } = visit ?? {};
  return {
    step: path,
    parent: parentOf(path),
    label,
    kind: step.work.kind,
    status: documentedStatus(node, input.liveness),
    detail: stateWord(status, input.liveness),
    visit: visit?.number ?? 0,
    attempt: visit?.attempts ?? 0,
    started_at: timeJson(visit?.startedAt),
    ended_at: timeJson(ended),
    worked_ms: (visit && elapsedOf(visit, input.liveness, input.now)) ?? 0,
    cost_usd: activity?.costUsd ?? spent?.costUsd ?? null,
    tokens: spent === undefined ? null : spent.inputTokens + spent.outputTokens,
    turns: activity?.turns ?? spent?.turns ?? null,
    tool: activity?.tool ?? null,
    items: itemsOf(visit),
    message: visit === undefined ? null : messageOf(visit, status, input.now),
  };
}

/** Without an owner, a running step is only known to have run. */
function documentedStatus({ record, status }: StepNode, liveness: Liveness): StepRowJson["status"] {
  if (status === "running" && liveness !== "owned") return "interrupted";
  return record === undefined ? "pending" : stepStateOf(record);
}

/** The path of the composite step around a step: `map` for `map@1.1[3]/fix`; null at the top. */
function parentOf(path: string): string | null {
  const scope = path.slice(0, path.lastIndexOf("/"));
  return /^(.*)@\d+\.\d+\[\d+\]$/.exec(scope)?.[1] ?? null;
}

function itemsOf(visit: Visit | undefined): StepRowJson["items"] {
  const { instances } = visit ?? {};
  if (visit === undefined || instances === undefined) return null;
  const { kind } = stepOf(visit).work;
  return kind === "each" || kind === "branches" ? countsOf(instances) : null;
}

function countsOf({ total, opened, ended, failed }: Instances): StepRowJson["items"] {
  return {
    total,
    completed: ended - failed,
    failed,
    running: opened - ended,
    waiting: total - opened,
  };
}

/** Why a step failed or waits, in one line. */
function messageOf(visit: Visit, status: StepNode["status"], now: number): string | null {
  const { tone } = STEP_STYLES[status];
  if (tone !== "bad" && tone !== "wait" && status !== "handled") return null;
  const text = firstLine(resultText(visit, now));
  return text === "" ? null : text;
}
