/**
 * A process of its own that works on a journal, for the tests that kill, starve or race it.
 * Arguments: <what> <file> [...]. It prints one line for each thing that has been acknowledged,
 * and as its last line the code of the JournalError that ended it.
 */
import { writeSync } from "node:fs";
import { JournalError } from "../../src/journal/journal.ts";
import { repair } from "../../src/journal/repair.ts";
import { openSqliteJournal } from "../../src/journal/sqlite.ts";
import { OWNER, open, runIdOf, summarise, writeOf } from "./sample-run.ts";

const [what = "", file = "", ...rest] = process.argv.slice(2);
const say = (line: string): void => {
  writeSync(1, `${line}\n`);
};

/** Appends until it is stopped; goes on where the journal ends. */
function appendForever(n: number): void {
  const journal = openSqliteJournal(file, { mode: "create" });
  const runId = runIdOf(n);
  const count = journal.load(runId).events.length;
  const acquired = journal.acquire(runId, OWNER, () => false);
  if (!acquired.ok) throw new Error("the lease is free");
  for (let index = (count - 2) / 2; ; index++) {
    journal.append(runId, writeOf(index, acquired.epoch));
    say(String(4 + 2 * index));
  }
}

/** Tries to be the one owner: everybody who asks is alive. */
function race(n: number): void {
  const journal = openSqliteJournal(file, { mode: "create" });
  const owner = { ...OWNER, pid: process.pid };
  const acquired = journal.acquire(runIdOf(n), owner, () => true);
  say(acquired.ok ? `owner ${acquired.epoch}` : `refused by ${acquired.owner.pid}`);
  journal.close();
}

/** Appends with the epoch that it was given, whatever the others do. */
function contend(n: number, epoch: number): void {
  const journal = openSqliteJournal(file, { mode: "read-write" });
  for (;;) {
    const count = journal.load(runIdOf(n)).events.length;
    if (count >= 100) break;
    try {
      journal.append(runIdOf(n), writeOf((count - 2) / 2, epoch));
      say(`wrote ${count + 1}`);
    } catch (error) {
      if (!(error instanceof JournalError) || error.code !== "stale-writer") throw error;
      say("stale");
    }
  }
}

/** Takes over from a dead owner; says who it is. */
function takeOver(n: number): void {
  const journal = openSqliteJournal(file, { mode: "read-write" });
  say(`owner ${open(journal, runIdOf(n), { ...OWNER, pid: process.pid })}`);
}

try {
  if (what === "append") appendForever(Number(rest[0]));
  else if (what === "race") race(Number(rest[0]));
  else if (what === "contend") contend(Number(rest[0]), Number(rest[1]));
  else if (what === "take-over") takeOver(Number(rest[0]));
  else if (what === "create") openSqliteJournal(file, { mode: "create" }).close();
  else if (what === "list") {
    const journal = openSqliteJournal(file, { mode: "read-only" });
    say(`runs ${journal.list({}).length}`);
    journal.close();
  } else if (what === "repair") say(repair(file, { summarise, isAlive: () => false }).outcome);
  else throw new Error(`unknown: ${what}`);
} catch (error) {
  if (!(error instanceof JournalError)) throw error;
  say(`${error.code}: ${error.message}`);
  process.exitCode = 3;
}
