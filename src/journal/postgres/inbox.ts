/**
 * The inbox in PostgreSQL: one table of requests for all runs.
 *
 * Owns: that the first answer to an attempt stays (journal/H1), and that a repeated statement adds
 *   nothing.
 * Does not: remove requests; the log of a run says which ones it has handled.
 */
import { assert } from "../../util/assert.ts";
import { canonicalJson } from "../../util/json.ts";
import {
  type Answered,
  type AnswerRequest,
  answerInTime,
  answersAmong,
  encodeRequest,
  type Inbox,
  keyOf,
  type NewAnswer,
  type SentRequest,
} from "../inbox.ts";
import { unknownRun } from "../journal-error.ts";
import { integerIn, requestIn } from "../rows.ts";
import { repeated, type Sql } from "./connection.ts";
import { REQUEST, RUN } from "./sql.ts";
import type { WakeUps } from "./wake-ups.ts";

/** The port on a server. */
export function postgresInbox(sql: Sql, wakeUps: WakeUps): Inbox {
  const requests = async (text: string, runId: string, ...values: unknown[]) => {
    const [row] = await repeated(sql, { text: RUN.head, values: [runId] });
    const run = integerIn(row ?? unknownRun(runId), "run");
    return (await repeated(sql, { text, values: [run, ...values] })).map(requestIn);
  };
  return {
    send: async (runId, request) => {
      await sql.settled(() => insertRequest(sql, runId, request));
    },
    answer: (runId, given) => addAnswer(sql, runId, given),
    after: (runId, id) => requests(REQUEST.after, runId, id),
    answers: async (runId) => answersAmong(await requests(REQUEST.answers, runId)),
    subscribe: (runId) => wakeUps.toInbox(runId),
  };
}

/** Adds a request; returns whether it is new, and the key of its run. Throws "unknown-run". */
export async function insertRequest(
  sql: Sql,
  runId: string,
  request: SentRequest | AnswerRequest,
): Promise<{ readonly isNew: boolean; readonly run: number }> {
  const { type, data } = encodeRequest(request);
  const attempt = request.type === "answer" ? request.attempt : null;
  const values = [runId, type, attempt, keyOf(request) ?? null, data];
  const [row] = await sql.once({ text: REQUEST.insert, values });
  const added = row ?? unknownRun(runId);
  return { isNew: added.id !== null, run: integerIn(added, "run") };
}

function addAnswer(sql: Sql, runId: string, given: NewAnswer): Promise<Answered> {
  const { attempt } = given;
  const answer = answerInTime(given);
  return sql.settled(async (isAgain) => {
    const { isNew, run } = await insertRequest(sql, runId, { type: "answer", attempt, answer });
    const [row] = await sql.once({ text: REQUEST.answer, values: [run, attempt] });
    const counts = row && requestIn(row);
    assert(counts?.type === "answer", "H1: after an answer there is one");
    // A repeated attempt finds the answer that the first one has added.
    const isSame = canonicalJson(counts.answer) === canonicalJson(answer);
    const isOurs = isNew || (isAgain && isSame);
    return { first: isOurs && answer === given.answer, answer: counts.answer };
  });
}
