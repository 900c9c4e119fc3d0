/**
 * The inbox in a SQLite file: one table of requests for all runs.
 *
 * Owns: that the first answer to an attempt stays (journal/H1).
 * Does not: remove requests from the queue; the log of a run says which ones became part of it.
 */
import { assert } from "../../util/assert.ts";
import { type Answered, answerInTime, answersAmong, type Inbox, type NewAnswer } from "../inbox.ts";
import type { Database } from "./database.ts";
import { insertRequest, keyOf, requestIn } from "./run-rows.ts";
import { REQUEST } from "./sql.ts";
import type { FileSubscriptions } from "./subscription.ts";

/** The port on an open database. */
export function sqliteInbox(database: Database, subscriptions: FileSubscriptions): Inbox {
  return {
    send: async (runId, request) => {
      database.write("request", () => {
        insertRequest(database, keyOf(database, runId), request);
      });
      subscriptions.wakeInboxes();
    },
    answer: async (runId, answer) => {
      const answered = addAnswer(database, runId, answer);
      subscriptions.wakeInboxes();
      return answered;
    },
    after: async (runId, id) => {
      return database.all(REQUEST.after, keyOf(database, runId), id).map(requestIn);
    },
    answers: async (runId) => {
      const rows = database.all(REQUEST.answers, keyOf(database, runId));
      return answersAmong(rows.map(requestIn));
    },
    subscribe: () => subscriptions.toInbox(),
  };
}

function addAnswer(database: Database, runId: string, given: NewAnswer): Answered {
  const { attempt } = given;
  const answer = answerInTime(given);
  return database.write("answer", () => {
    const key = keyOf(database, runId);
    const isNew = insertRequest(database, key, { type: "answer", attempt, answer });
    const row = database.get(REQUEST.answer, key, attempt);
    const counts = row && requestIn(row);
    assert(counts?.type === "answer", "H1: after an answer there is one");
    return { first: isNew && answer === given.answer, answer: counts.answer };
  });
}
