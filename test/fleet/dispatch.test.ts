/** The queues of a fleet on a real PostgreSQL. */
import { expect, test } from "vitest";
import { Dispatch } from "../../src/app/fleet/dispatch.ts";
import { openPostgresJournal } from "../../src/journal/postgres/postgres.ts";
import { newDatabase } from "../rig/postgres.ts";

/** Enough that several of them find no tables. */
const WORKERS = 8;

test("workers that start together on a new store make its queues once, and all of them work", async () => {
  const url = await newDatabase();
  const journals = await Promise.all(
    Array.from({ length: WORKERS }, () => openPostgresJournal(url, { mode: "create" })),
  );
  try {
    const opened = await Promise.all(journals.map((journal) => Dispatch.open(journal, "worker")));
    const queues = await Promise.all(opened.map((one) => one.queues()));
    expect(queues).toEqual(opened.map(() => queues[0]));
    for (const one of opened) await one.close();
  } finally {
    for (const journal of journals) await journal.close();
  }
});
