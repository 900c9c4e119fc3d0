/**
 * What must hold of a run of agents that was killed again and again, seen from outside: in its
 * journal, from what its model was asked and served, and from what the tools wrote.
 *
 * Invariants that are checked:
 * - chaos-checkers/H1 every step completes exactly once, after which nothing of it happens any
 *   more, in the journal or in the world; nothing fails, and nothing pauses, for the model has no
 *   troubles.
 * - chaos-checkers/H2 a step has one conversation, which every attempt continues; it is begun
 *   again, under another id or the same, only where the journal says that it was interrupted
 *   before it began, and the model had indeed answered nothing in it, or one answer of which the
 *   agent had written nothing down when it was killed: no transcript names the conversation. No
 *   request is of a conversation that the journal does not know.
 * - chaos-checkers/H3 what is recorded as spent is what the calls used that were acknowledged
 *   (served whole, and the agent continued from the answer), and some of those that were under way
 *   at a kill, each as far as it was reported: never less, never more, never a part that is no
 *   call's. Codex writes an answer down a moment before what it used: where its rollout shows that
 *   a kill came in between, the call was still under way. Where an attempt says that it was not
 *   measured, one call may be missing; nothing is missing that nobody says so of.
 * - chaos-checkers/H4 a kill leaves at most one call under way.
 * - chaos-checkers/H5 an attempt that used something names the model that the agent was served by.
 */
import type { Recorded, RunEvent, Spent } from "../../src/core/event.ts";
import { addSpent, NOTHING_SPENT } from "../../src/core/spending.ts";
import type { ModelRequest } from "../rig/model/request-log.ts";
import {
  type ChaosAgent,
  effectsOf,
  isAsked,
  servedBy,
  signatureOf,
  usdOf,
} from "./chaos-project.ts";

/** What a run left behind. */
export interface ChaosEvidence {
  readonly agents: readonly ChaosAgent[];
  readonly events: readonly Recorded[];
  /** The calls that the model was asked for during the run, on the side or not. */
  readonly requests: readonly ModelRequest[];
  readonly effects: readonly string[];
  /** The texts of the agents' transcripts. */
  readonly transcripts: readonly string[];
  readonly kills: number;
}

/** Tokens and dollars. */
export interface Amount {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
  readonly usd: number;
}

/** What one step used, by the model's word and by the journal's. */
export interface Account {
  readonly calls: number;
  readonly reported: Amount;
  readonly recorded: Amount;
  /** Calls that were under way at a kill, and how many of them are in what is recorded. */
  readonly inFlight: number;
  readonly counted: number;
  /** Those of them whose answer Codex has written down, but not what it used. */
  readonly unmeasured: number;
  /** How often its conversation was begun again. */
  readonly restarts: number;
}

export interface Verdict {
  readonly accounts: readonly Account[];
  readonly violations: readonly string[];
}

type StepEvent = Extract<RunEvent, { readonly attempt: number }>;

const NOTHING: Amount = { input: 0, cached: 0, output: 0, usd: 0 };
const USD_EXACT = 1e-9;

/** What a run's steps used, and everything that is wrong with it. */
export function judge(evidence: ChaosEvidence): Verdict {
  const steps = evidence.agents.map((agent) => stepOf(evidence, agent));
  const verdicts = steps.map(ofStep);
  const known = new Set(steps.flatMap(({ requests }) => requests));
  const strange = evidence.requests.filter((request) => !known.has(request));
  const cut = steps.reduce((sum, step) => sum + step.cut, 0);
  return {
    accounts: verdicts.map(({ account }) => account),
    violations: [
      ...verdicts.flatMap(({ violations }) => violations),
      ...strange.map(({ sequence }) => `request ${sequence} is of no conversation of the run`),
      ...(cut > evidence.kills ? [`${evidence.kills} kills, and ${cut} attempts interrupted`] : []),
      ...outOfOrder(evidence),
    ],
  };
}

interface Step {
  readonly agent: ChaosAgent;
  readonly events: readonly StepEvent[];
  /** The conversations, in the order in which they began. */
  readonly sessions: readonly string[];
  readonly requests: readonly ModelRequest[];
  readonly transcripts: readonly string[];
  /** How many attempts were interrupted. */
  readonly cut: number;
  /** How many of them say that not all that they used is known. */
  readonly unmeasured: number;
}

function stepOf({ events, requests, transcripts }: ChaosEvidence, agent: ChaosAgent): Step {
  const own = events
    .map(({ event }) => event)
    .filter((event): event is StepEvent => "attempt" in event && event.step === agent);
  const sessions = [...new Set(own.flatMap(sessionsIn))];
  return {
    agent,
    events: own,
    sessions,
    requests: requests.filter(
      (request) => sessions.includes(request.ask?.conversation ?? "") || isAsked(agent, request),
    ),
    transcripts,
    cut: own.filter(({ type }) => type === "step.lost" || type === "step.interrupted").length,
    unmeasured: own.filter((event) => "spent" in event && event.spent?.unmeasured === true).length,
  };
}

function sessionsIn(event: StepEvent): readonly string[] {
  if (event.type === "step.session") return [event.session];
  const session = event.type === "step.started" ? event.conversation?.session : undefined;
  return session === undefined ? [] : [session];
}

function ofStep(step: Step): { readonly account: Account; readonly violations: readonly string[] } {
  const { account, problems } = accountOf(step);
  const all = [...completions(step), ...conversations(step), ...problems, ...models(step)];
  return { account, violations: all.map((message) => `${step.agent}: ${message}`) };
}

/** chaos-checkers/H1 */
function completions({ events }: Step): readonly string[] {
  const completed = events.filter(({ type }) => type === "step.completed").length;
  const bad = events.flatMap((event) => {
    if (event.type === "step.failed") return [`attempt ${event.attempt} failed: ${event.message}`];
    if (event.type !== "step.paused") return [];
    return [`attempt ${event.attempt} paused (${event.reason}): ${event.message}`];
  });
  const late = events.at(-1)?.type === "step.completed" ? [] : ["something follows its completion"];
  return [...(completed === 1 ? late : [`${completed} completions`]), ...bad];
}

/** chaos-checkers/H5 */
function models({ agent, events }: Step): readonly string[] {
  return events.flatMap((event) => {
    const spent = "spent" in event ? event.spent : undefined;
    if (spent === undefined || spent.inputTokens === 0) return [];
    return spent.model === servedBy(agent) ? [] : [`its model is ${spent.model ?? "not known"}`];
  });
}

/**
 * chaos-checkers/H1: what a tool writes after its step is over was written by somebody who should
 * be dead.
 */
function outOfOrder({ agents, effects }: ChaosEvidence): readonly string[] {
  const place = (line: string): number =>
    agents.findIndex((agent) => effectsOf(agent).includes(line));
  const missing = agents
    .flatMap((agent) => effectsOf(agent))
    .filter((effect) => !effects.includes(effect));
  const late = effects.filter((line, index) =>
    effects.slice(0, index).some((before) => place(before) > place(line)),
  );
  return [
    ...missing.map((effect) => `the effect ${effect} is missing`),
    ...late.map((effect) => `the effect ${effect} came when its step was over`),
  ];
}

/** Why a conversation may be begun again. The second is said where its id was not even known. */
const REASONS: readonly string[] = [
  "it was interrupted before its conversation began",
  "it is a new attempt",
  "it was interrupted, and its conversation is gone",
];

/** chaos-checkers/H2 */
function conversations({ events, sessions, requests, transcripts }: Step): readonly string[] {
  const left = sessions.slice(0, -1).flatMap((session) => {
    const answers = requests.filter((request) => isAnswered(request, session)).length;
    const isWritten = transcripts.some((transcript) => transcript.includes(session));
    const isAllowed = answers === 0 || (answers === 1 && !isWritten);
    return isAllowed ? [] : [`conversation ${session} was left after ${answers} answers`];
  });
  const wrong = begunAgain(events).filter((why) => !REASONS.includes(why));
  return [...left, ...wrong.map((why) => `its conversation was begun again: ${why}`)];
}

function isAnswered({ ask, reported }: ModelRequest, session: string): boolean {
  return ask?.conversation === session && reported === "all";
}

/** The reasons for which attempts after the first began a conversation. */
function begunAgain(events: readonly StepEvent[]): readonly string[] {
  return events.flatMap((event) => {
    if (event.type !== "step.started" || event.attempt === 1) return [];
    return event.conversation?.kind === "continue" ? [] : [event.conversation?.why ?? "no reason"];
  });
}

/** chaos-checkers/H3, chaos-checkers/H4 */
function accountOf(step: Step): {
  readonly account: Account;
  readonly problems: readonly string[];
} {
  const served = step.requests.filter(({ reported }) => reported !== "nothing");
  const acked = served.filter((request) => isAcked(request, step));
  const unacked = served.filter((request) => !acked.includes(request));
  const floor = sumOf(acked.map((request) => amountOf(request, step.agent, "all")));
  const reported = sumOf(served.map((request) => amountOf(request, step.agent, request.reported)));
  const recorded = recordedBy(step);
  const chosen = countedAmong(
    unacked.map((request) => waysToCount(request, step.agent)),
    minus(recorded, floor),
  );
  const restarts = begunAgain(step.events).length;
  const unmeasured = unacked.filter((request) => isUnmeasured(request, step)).length;
  const under = { inFlight: unacked.length, unmeasured, restarts };
  const base = { calls: served.length, reported, recorded, ...under };
  const problems: string[] = [];
  if (unacked.length > step.cut) {
    problems.push(`${unacked.length} calls under way, and ${step.cut} attempts interrupted`);
  }
  if (unmeasured > step.unmeasured) {
    problems.push(`${unmeasured} answers were not measured, ${step.unmeasured} attempts say so`);
  }
  if (chosen === undefined && !isPartOf(recorded, served, unacked.length, step)) {
    const [less, is, more] = [floor, recorded, reported].map((amount) => JSON.stringify(amount));
    const sequences = unacked.map(({ sequence }) => sequence).join(", ");
    problems.push(
      `recorded is ${is}; acknowledged ${less}, told ${more}, under way: ${sequences || "none"}`,
    );
  }
  return { account: { ...base, counted: chosen ?? 0 }, problems };
}

/**
 * Whether what is recorded lacks no more calls than were under way or are said not to be measured.
 */
function isPartOf(
  recorded: Amount,
  served: readonly ModelRequest[],
  unacked: number,
  { agent, unmeasured }: Step,
): boolean {
  if (unmeasured === 0 || agent === "codex") return false;
  const counted = countedAmong(
    served.map((request) => waysToCount(request, agent)),
    recorded,
  );
  return counted !== undefined && served.length - counted <= unacked + unmeasured;
}

/** Whether the agent continued from the answer: it is in a later request, or it ended the step. */
function isAcked(request: ModelRequest, step: Step): boolean {
  const { sequence, reported } = request;
  const { requests, events } = step;
  if (reported !== "all" || isUnmeasured(request, step)) return false;
  const signature = signatureOf(sequence);
  const last = events.some(
    (event) => event.type === "step.completed" && String(event.answer).includes(signature),
  );
  return last || requests.some((later) => later.sequence > sequence && repeats(later, signature));
}

/** Whether a rollout of Codex has the answer, and the next one without a record in between. */
function isUnmeasured({ sequence }: ModelRequest, { agent, transcripts }: Step): boolean {
  if (agent !== "codex") return false;
  const signature = signatureOf(sequence);
  return transcripts.some((text) => {
    const lines = text.split("\n");
    const at = lines.findIndex((line) => ANSWER.test(line) && line.includes(signature));
    const next = lines.slice(at + 1).find((line) => ANSWER.test(line) || USAGE.test(line));
    return at >= 0 && (next === undefined || ANSWER.test(next));
  });
}

/** The lines of a rollout that hold a call of the model, or its words, and what they used. */
const ANSWER =
  /"type":"response_item","payload":\{"type":"(function_call"|message",.*"role":"assistant")/;
const USAGE = /"type":"token_usage_record"/;

function repeats({ ask }: ModelRequest, signature: string): boolean {
  return (ask?.turns ?? []).some((turn) => {
    if (turn.type === "call") return turn.input.includes(signature);
    return turn.type === "assistant" && turn.text.includes(signature);
  });
}

/** All that events say was spent. */
export function spentIn(events: readonly RunEvent[]): Spent {
  let sum = NOTHING_SPENT;
  for (const event of events) if ("spent" in event) sum = addSpent(sum, event.spent);
  return sum;
}

function recordedBy({ events }: Step): Amount {
  const spent = spentIn(events);
  const { inputTokens: input, cachedTokens: cached, outputTokens: output, costUsd = 0 } = spent;
  return { input, cached, output, usd: costUsd };
}

/** The usage of a call, as far as it was reported. */
function amountOf(
  { usage }: ModelRequest,
  agent: ChaosAgent,
  reported: ModelRequest["reported"],
): Amount {
  if (usage === undefined || reported === "nothing") return NOTHING;
  const tokens = {
    inputTokens: usage.input + usage.cacheRead + usage.cacheWrite,
    cachedTokens: usage.cacheRead,
    outputTokens: reported === "all" ? usage.output : 0,
  };
  const usd = usdOf(agent, { ...tokens, writtenTokens: usage.cacheWrite });
  const { inputTokens: input, cachedTokens: cached, outputTokens: output } = tokens;
  return { input, cached, output, usd };
}

/** As what a call that was under way at a kill may be counted. Only Claude counts beginnings. */
function waysToCount(request: ModelRequest, agent: ChaosAgent): readonly Amount[] {
  const begun = agent === "claude" ? [amountOf(request, agent, "input")] : [];
  const whole = request.reported === "all" ? [amountOf(request, agent, "all")] : [];
  return [...whole, ...begun];
}

/** How many of the calls make up an amount together; undefined when none of them do. */
function countedAmong(ways: readonly (readonly Amount[])[], amount: Amount): number | undefined {
  const [first, ...others] = ways;
  if (first === undefined) return isNothing(amount) ? 0 : undefined;
  for (const way of first) {
    const rest = countedAmong(others, minus(amount, way));
    if (rest !== undefined) return rest + 1;
  }
  return countedAmong(others, amount);
}

function isNothing({ input, cached, output, usd }: Amount): boolean {
  return input === 0 && cached === 0 && output === 0 && Math.abs(usd) < USD_EXACT;
}

/** All of these together. */
export function sumOf(amounts: readonly Amount[]): Amount {
  return amounts.reduce((sum, amount) => minus(sum, minus(NOTHING, amount)), NOTHING);
}

function minus(one: Amount, other: Amount): Amount {
  return {
    input: one.input - other.input,
    cached: one.cached - other.cached,
    output: one.output - other.output,
    usd: one.usd - other.usd,
  };
}
