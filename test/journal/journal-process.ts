/**
 * A separate process that works on a journal, for tests that kill, starve or race it.
 * Arguments: <what> <file> [...]. It prints one line for each acknowledged operation,
 * and as its last line the code of the JournalError that ended it.
 */
import { writeSync } from "node:fs";
import { JournalError } from "../../src/journal/journal-error.ts";
import { takeLease } from "../../src/journal/leases.ts";
import { repair } from "../../src/journal/repair/repair.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import { OWNER, open, runIdOf, summarise, writeOf } from "./sample-run.ts";

const [what = "", file = "", ...rest] = process.argv.slice(2);
const say = (line: string): void => {
  writeSync(1, `${line}\n`);
};

/** Appends until it is stopped; continues at the end of the journal. */
async function appendForever(n: number): Promise<void> {
  const journal = await openSqliteJournal(file, { mode: "create" });
  const runId = runIdOf(n);
  const count = (await journal.log.load(runId)).events.length;
  const acquired = await takeLease(journal.leases, runId, { owner: OWNER, isAlive: () => false });
  if (!acquired.ok) throw new Error("the lease is free");
  for (let index = (count - 2) / 2; ; index++) {
    await journal.log.append(runId, writeOf(index, acquired.epoch));
    say(String(4 + 2 * index));
  }
}

/** Tries to become the only owner; every holder counts as alive. */
async function race(n: number): Promise<void> {
  const journal = await openSqliteJournal(file, { mode: "create" });
  const owner = { ...OWNER, pid: process.pid };
  const acquired = await takeLease(journal.leases, runIdOf(n), { owner, isAlive: () => true });
  say(acquired.ok ? `owner ${acquired.epoch}` : `refused by ${acquired.owner.pid}`);
  await journal.close();
}

/** Appends with the given epoch, regardless of other writers. */
async function contend(n: number, epoch: number): Promise<void> {
  const journal = await openSqliteJournal(file, { mode: "read-write" });
  for (;;) {
    const count = (await journal.log.load(runIdOf(n))).events.length;
    if (count >= 100) break;
    try {
      await journal.log.append(runIdOf(n), writeOf((count - 2) / 2, epoch));
      say(`wrote ${count + 1}`);
    } catch (error) {
      if (!(error instanceof JournalError) || error.code !== "stale-writer") throw error;
      say("stale");
    }
  }
}

/** Acquires the lease of a dead owner, and prints its epoch. */
async function takeOver(n: number): Promise<void> {
  const journal = await openSqliteJournal(file, { mode: "read-write" });
  say(`owner ${await open(journal, runIdOf(n), { ...OWNER, pid: process.pid })}`);
}

try {
  if (what === "append") await appendForever(Number(rest[0]));
  else if (what === "race") await race(Number(rest[0]));
  else if (what === "contend") await contend(Number(rest[0]), Number(rest[1]));
  else if (what === "take-over") await takeOver(Number(rest[0]));
  else if (what === "create") await (await openSqliteJournal(file, { mode: "create" })).close();
  else if (what === "list") {
    const journal = await openSqliteJournal(file, { mode: "read-only" });
    say(`runs ${(await journal.log.list({})).length}`);
    await journal.close();
  } else if (what === "repair") say(repair(file, { summarise, isAlive: () => false }).outcome);
  else throw new Error(`unknown: ${what}`);
} catch (error) {
  if (!(error instanceof JournalError)) throw error;
  say(`${error.code}: ${error.message}`);
  process.exitCode = 3;
}
