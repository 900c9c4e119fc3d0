/**
 * The inbox in PostgreSQL: one table of requests for all runs.
 *
 * Owns: that the first answer to an attempt stays (journal/H1), and that a repeated try adds nothing.
 * Does not: remove requests from the queue; the log of a run says which ones became part of it.
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
import { integerIn, type Row } from "../sqlite/row.ts";
import { requestIn, unknownRun } from "../sqlite/run-rows.ts";
import { repeated, type Sql } from "./connection.ts";
import type { PostgresParts } from "./parts.ts";
import { REQUEST, RUN } from "./sql.ts";

/** The port on a server. */
export function postgresInbox({ sql, wakeUps }: PostgresParts): Inbox {
  const rows = async (
    text: string,
    runId: string,
    ...values: unknown[]
  ): Promise<readonly Row[]> => {
    const run = await runOf(sql, runId);
    return repeated(sql, { text, values: [run, ...values] });
  };
  return {
    send: async (runId, request) => {
      await sql.settled(() => insertRequest(sql, runId, request));
    },
    answer: (runId, given) => addAnswer(sql, runId, given),
    after: async (runId, id) => (await rows(REQUEST.after, runId, id)).map(requestIn),
    answers: async (runId) => answersAmong((await rows(REQUEST.answers, runId)).map(requestIn)),
    subscribe: (runId) => wakeUps.toInbox(runId),
  };
}

/** Adds a request; tells whether it is new, and the number of its run. Throws "unknown-run". */
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
    // Another try finds the answer of the first one.
    const isOurs = isNew || (isAgain && textOf(counts.answer) === textOf(answer));
    return { first: isOurs && answer === given.answer, answer: counts.answer };
  });
}

function textOf(value: unknown): string {
  return canonicalJson(value);
}

async function runOf(sql: Sql, runId: string): Promise<number> {
  const [row] = await repeated(sql, { text: RUN.head, values: [runId] });
  return integerIn(row ?? unknownRun(runId), "run");
}
