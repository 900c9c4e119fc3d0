/**
 * Every journal that a test leaves behind is decided again by today's core: nothing may differ.
 *
 * Does not: look at databases that the test itself has broken; they cannot be read, and the test says
 * what follows from that.
 */
import { globSync } from "node:fs";
import { join } from "node:path";
import { replayTurns } from "../../src/core/replay.ts";
import type { Journal } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/journal-error.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import type { Plan } from "../../src/plan/plan.ts";

const DATABASES = [".perdure/state.db", "*/.perdure/state.db"];

/** Decides every run below a directory again; throws at the first difference. */
export async function replayJournals(dir: string): Promise<void> {
  for (const file of globSync(DATABASES, { cwd: dir })) {
    await unlessBroken(async () => {
      const journal = await openSqliteJournal(join(dir, file), { mode: "read-only" });
      try {
        for (const { runId } of await journal.log.list({})) {
          await unlessBroken(() => replayRun(journal, runId));
        }
      } finally {
        await journal.close();
      }
    });
  }
}

async function replayRun(journal: Journal, id: string): Promise<void> {
  const { events, plans } = await journal.log.load(id);
  const planOf = (fingerprint: string): Plan => JSON.parse(plans.get(fingerprint) ?? "") as Plan;
  const { difference } = replayTurns(planOf, id, events);
  if (difference === undefined) return;
  throw new Error(`run ${id}, decided again, differs: ${JSON.stringify(difference)}`);
}

async function unlessBroken(read: () => Promise<void>): Promise<void> {
  try {
    await read();
  } catch (error) {
    if (error instanceof JournalError && UNREADABLE.has(error.code)) return;
    throw error;
  }
}

const UNREADABLE: ReadonlySet<string> = new Set(["broken", "newer", "older"]);
