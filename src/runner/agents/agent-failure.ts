/**
 * Classifies why an agent could not continue, by the words and numbers that it prints. Agents pass
 * on the message of the model's service, so one table serves all of them.
 *
 * Owns: the kind of failure for each message, and the delay that it asks for.
 * Does not: decide whether to retry.
 */
import type { AgentFailure, AgentFailureKind } from "./adapter.ts";
import { headOf, objectIn, textAt } from "./stream-json.ts";

const MESSAGE_CHARACTERS_MAX = 2_000;
const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;
const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: SECOND_MS,
  m: 60 * SECOND_MS,
  h: 3_600 * SECOND_MS,
  d: DAY_MS,
};

/** An error as an agent reports it. */
interface Symptoms {
  readonly message: string;
  /** The HTTP status that the service answered with. */
  readonly status?: number | undefined;
  readonly retryAfterMs?: number | undefined;
}

/**
 * Words that say more than the status, so they are checked first: services answer 429 both for too
 * many requests and for an exhausted budget.
 */
const WORDS_FIRST: readonly (readonly [RegExp, AgentFailureKind])[] = [
  [
    /no conversation found|no rollout found|session not found|invalid session ident/i,
    "session-gone",
  ],
  [/insufficient_quota|credit balance|usage limit|hit your limit|billing/i, "quota"],
  [/exceeded your current quota|quota exceeded|exhausted your|out of credits/i, "quota"],
  [/max(imum)?( session| number of)? turns/i, "max-turns"],
  [/(prompt|input) is too long|context.?length|context window|ran out of room/i, "overflow"],
  [/input token count.*exceeds|maximum context/i, "overflow"],
  [/selected model|model_not_found|unknown model|no such model/i, "model"],
  [/model\S* .{0,80}(not found|does not exist|not supported)/i, "model"],
  [/high demand/i, "server"],
];

const STATUSES: Readonly<Record<number, AgentFailureKind>> = {
  401: "auth",
  402: "quota",
  403: "auth",
  404: "model",
  408: "cut",
  429: "rate-limit",
  503: "overloaded",
  529: "overloaded",
};

/** Words that are checked when there is no status. */
const WORDS_LAST: readonly (readonly [RegExp, AgentFailureKind])[] = [
  [
    /not logged in|log ?in again|unauthori[sz]ed|api key|auth(entication)? (method|failed)/i,
    "auth",
  ],
  [/failed to authenticate|missing environment variable/i, "auth"],
  [/rate.?limit|too many requests|resource_exhausted/i, "rate-limit"],
  [/overloaded|at capacity/i, "overloaded"],
  [/stream disconnected|api error: terminated|connection|socket|network error/i, "cut"],
  [/ECONN[A-Z]+|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EPIPE|fetch failed|timed out|timeout/, "cut"],
  [/error sending request|premature close/i, "cut"],
  [/internal server error|bad gateway/i, "server"],
  [/not running in a trusted directory/i, "denied"],
];

/** The failure behind an error. */
export function agentFailureOf(symptoms: Symptoms, nowMs = Date.now()): AgentFailure {
  const { message } = symptoms;
  const status = symptoms.status ?? statusIn(message);
  const kind =
    kindIn(message, WORDS_FIRST) ??
    (status === undefined
      ? undefined
      : (STATUSES[status] ?? (status >= 500 ? "server" : "other"))) ??
    kindIn(message, WORDS_LAST) ??
    "other";
  return agentFailure(kind, message, symptoms.retryAfterMs ?? retryAfterIn(message, nowMs));
}

/** A failure of a known kind; a long message is cut. */
export function agentFailure(
  kind: AgentFailureKind,
  message: string,
  retryAfterMs?: number,
): AgentFailure {
  const after = retryAfterMs === undefined ? {} : { retryAfterMs: Math.max(0, retryAfterMs) };
  return { kind, message: headOf(messageIn(message), MESSAGE_CHARACTERS_MAX), ...after };
}

/** The service's message, if an agent passes on only the body of its answer. */
function messageIn(message: string): string {
  const body = objectIn(message);
  return textAt(body, "error", "message") ?? textAt(body, "message") ?? message.trim();
}

function kindIn(
  message: string,
  table: readonly (readonly [RegExp, AgentFailureKind])[],
): AgentFailureKind | undefined {
  return table.find(([words]) => words.test(message))?.[1];
}

/** Codex and Gemini write the status into the message only. */
function statusIn(message: string): number | undefined {
  const found = /(?:unexpected |last )status:? (\d{3})\b|"code": ?(\d{3})\b/.exec(message);
  const digits = found?.[1] ?? found?.[2];
  return digits === undefined ? undefined : Number(digits);
}

/** The delay that a message asks for, from now. */
function retryAfterIn(message: string, nowMs: number): number | undefined {
  const delay = /(?:(?:retry|try again) in|"retryDelay": ?")\s*((?:\d+(?:\.\d+)? ?[a-z]+[ ,]*)+)/i;
  const spelled = delay.exec(message)?.[1];
  if (spelled !== undefined) return durationIn(spelled);
  const moment = /try again at ([^.]+(?:AM|PM))/i.exec(message)?.[1];
  return moment === undefined ? undefined : untilMoment(moment, nowMs);
}

function durationIn(spelled: string): number | undefined {
  let total: number | undefined;
  for (const [, amount, unit = ""] of spelled.matchAll(/(\d+(?:\.\d+)?) ?([a-z]+)/gi)) {
    const size = UNIT_MS[unit] ?? UNIT_MS[unit.charAt(0).toLowerCase()];
    if (size !== undefined) total = (total ?? 0) + Number(amount) * size;
  }
  return total;
}

/** "Jan 1st, 2030 12:00 AM" or, for the same day, "3:45 PM"; both in local time. */
function untilMoment(moment: string, nowMs: number): number | undefined {
  const plain = moment.replace(/(\d)(st|nd|rd|th)\b/g, "$1");
  const day = new Date(nowMs).toDateString();
  const whole = /\d{4}/.test(plain);
  const atMs = Date.parse(whole ? plain : `${day} ${plain}`);
  if (Number.isNaN(atMs)) return undefined;
  return whole || atMs >= nowMs ? atMs - nowMs : atMs + DAY_MS - nowMs;
}
