/**
 * Checks whether a journal is whole: the findings that `doctor` reports and that call for repair.ts.
 *
 * Owns: the list of checks.
 * Does not: change anything.
 */

import { JournalError } from "../journal-error.ts";
import { leaseIn, runSummaryIn, stepSummaryIn, textIn } from "../rows.ts";
import { type Database, openDatabase } from "../sqlite/database.ts";
import { CHECK, listRuns, PRAGMAS, RUN } from "../sqlite/sql.ts";
import { loadRun } from "../sqlite/sqlite.ts";

/** One fault of a journal. */
export interface Problem {
  /** The affected run, if the fault concerns one. */
  readonly runId?: string;
  readonly message: string;
}

/** All faults of the journal in a file. Throws when the check itself fails. */
export function checkJournal(file: string): readonly Problem[] {
  const problems: Problem[] = [];
  const database = attempt(problems, undefined, () => openDatabase(file, "read-only"));
  if (database === undefined) return problems;
  try {
    checkTables(database, problems);
    const ids = attempt(problems, undefined, () => database.all(RUN.ids)) ?? [];
    for (const row of ids) {
      const runId = attempt(problems, undefined, () => textIn(row, "run_id"));
      if (runId !== undefined) attempt(problems, runId, () => loadRun(database, runId));
    }
    return problems;
  } finally {
    database.close();
  }
}

function checkTables(database: Database, problems: Problem[]): void {
  const each = (body: () => void): void => attempt(problems, undefined, body);
  each(() => {
    for (const row of database.all(PRAGMAS.integrityCheck)) {
      const message = textIn(row, "integrity_check");
      if (message !== "ok") problems.push({ message: `${database.file}: ${message}` });
    }
  });
  each(() => {
    for (const row of database.all(PRAGMAS.foreignKeyCheck)) {
      const message = `a row of ${String(row.table)} belongs to none of ${String(row.parent)}`;
      problems.push({ message: `${database.file}: ${message}` });
    }
  });
  each(() => {
    for (const row of database.all(CHECK.withoutSummary)) {
      const runId = textIn(row, "run_id");
      problems.push({ runId, message: `Run ${runId} has no row in pipeline_state.` });
    }
  });
  each(() => {
    const { sql, values } = listRuns({});
    for (const row of database.all(sql, ...values)) runSummaryIn(row);
  });
  each(() => {
    for (const row of database.all(CHECK.steps)) stepSummaryIn(row);
  });
  each(() => {
    for (const row of database.all(CHECK.leases)) leaseIn(row, textIn(row, "run_id"));
  });
}

/** Runs a part of the check; records damage as a finding and throws any other error. */
function attempt<T>(problems: Problem[], runId: string | undefined, body: () => T): T | undefined {
  try {
    return body();
  } catch (error) {
    // A run that is in its table but not in the index is damage too.
    const codes: readonly string[] = ["broken", "unknown-run"];
    if (!(error instanceof JournalError) || !codes.includes(error.code)) throw error;
    const { message } = error;
    problems.push(runId === undefined ? { message } : { runId, message });
    return undefined;
  }
}
