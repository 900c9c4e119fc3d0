/**
 * Every statement on the tables of migrations.ts.
 *
 * Owns: the SQL.
 * Does not: run it.
 * Invariants:
 * - journal/J3 SQL is only here and in migrations.ts.
 */
import type { RunFilter, RunSearch } from "../run-log.ts";

/**
 * How long SQLite waits for another process's transaction before it reports "busy". SQLite has no
 * queue, so with hundreds of runs on a busy machine a process may wait for most of the others.
 */
export const BUSY_TIMEOUT_MS = 5 * 60_000;

/** The settings of a connection, and SQLite's own checks. */
export const PRAGMAS = {
  /** FULL: with WAL, the default may lose the last commits in a power failure. */
  writing: ["PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"],
  always: [
    "PRAGMA foreign_keys = ON",
    "PRAGMA cell_size_check = ON",
    "PRAGMA trusted_schema = OFF",
  ],
  /** A file under construction needs no durability before it is complete. */
  building: ["PRAGMA journal_mode = DELETE", "PRAGMA synchronous = OFF"],
  applicationId: "PRAGMA application_id",
  quickCheck: "PRAGMA quick_check(1)",
  integrityCheck: "PRAGMA integrity_check(100)",
  foreignKeyCheck: "PRAGMA foreign_key_check",
} as const;

/** The starts and ends of transactions. */
export const TRANSACTION = {
  read: "BEGIN",
  write: "BEGIN IMMEDIATE",
  exclusive: "BEGIN EXCLUSIVE",
  commit: "COMMIT",
  rollback: "ROLLBACK",
} as const;

/** Runs with their plans and heads. */
export const RUN = {
  /** Reads the definitions of the tables without any row. */
  probe: "SELECT run_id FROM runs LIMIT 0",
  key: "SELECT run FROM runs WHERE run_id = ?",
  ids: "SELECT run_id FROM runs ORDER BY run",
  insert: "INSERT INTO runs (run_id, fingerprint) VALUES (?, ?)",
  plan: "SELECT text FROM plans WHERE fingerprint = ?",
  insertPlan: "INSERT INTO plans (fingerprint, text) VALUES (?, ?) ON CONFLICT DO NOTHING",
  /** `event_crc` is the checksum of the last event; it must equal that of the head. */
  head: `
    SELECT runs.run, s.last_seq, s.last_crc, events.crc AS event_crc, leases.epoch, leases.owner
    FROM runs
    LEFT JOIN pipeline_state AS s ON s.pipeline_id = runs.run_id
    LEFT JOIN leases ON leases.run = runs.run
    LEFT JOIN events ON events.run = runs.run AND events.seq = s.last_seq
    WHERE runs.run_id = ?`,
  load: `
    SELECT runs.run, runs.fingerprint, s.last_seq, s.last_crc, s.cleaned_at
    FROM runs
    LEFT JOIN pipeline_state AS s ON s.pipeline_id = runs.run_id
    WHERE runs.run_id = ?`,
  resolve: `
    SELECT run_id FROM runs WHERE run_id BETWEEN ?1 AND ?1 || char(0x10ffff)
    ORDER BY run_id LIMIT 2`,
} as const;

/** Events, which are only inserted. */
export const EVENT = {
  insert: `
    INSERT INTO events (run, seq, type, version, time, data, facts, crc)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  /** The number of the newest event of all runs. It only grows, because events are never deleted. */
  newest: "SELECT ifnull(max(rowid), 0) FROM events",
  /** The hashes of outputs that steps passed on or will pass on, of runs whose files exist. */
  outputs: `
    SELECT DISTINCT output.value AS sha256
    FROM events
    JOIN runs ON runs.run = events.run
    JOIN pipeline_state AS s ON s.pipeline_id = runs.run_id
    JOIN json_tree(events.data) AS output
    WHERE events.type IN (
        'step.completed', 'step.conflicted', 'step.submitted', 'step.recalled', 'run.rewound')
      AND s.cleaned_at IS NULL AND output.key = 'sha256' AND output.type = 'text'`,
  /** Each result with the checksum of the event before it, from which its own follows. */
  results: `
    SELECT e.seq, e.type, e.version, e.time, e.data, e.facts, e.crc, runs.run_id, before.crc
    FROM events AS e
    JOIN runs ON runs.run = e.run
    JOIN pipeline_state AS s ON s.pipeline_id = runs.run_id
    LEFT JOIN events AS before ON before.run = e.run AND before.seq = e.seq - 1
    WHERE e.type = 'step.completed' AND json_extract(e.data, '$.reusable.key') = ?1
      AND runs.run_id <> ?2 AND s.cleaned_at IS NULL AND e.time >= ?3
    ORDER BY e.time DESC, e.rowid DESC LIMIT ?4`,
  from: `
    SELECT seq, type, version, time, data, facts, crc FROM events
    WHERE run = ? AND seq >= ? ORDER BY seq`,
  spending: `
    SELECT seq, type, version, time, data, NULL AS facts, crc FROM events
    WHERE run = ? AND seq > ?
      AND (instr(data, '"spent":') > 0 OR instr(data, '"lateCostUsd":') > 0)
    ORDER BY seq`,
  changedRuns: `
    SELECT DISTINCT run_id FROM events JOIN runs USING (run) WHERE events.rowid > ?`,
} as const;

/** The owners of runs. */
export const LEASE = {
  get: "SELECT epoch, owner FROM leases WHERE run = ?",
  held: "SELECT run_id, epoch, owner FROM leases JOIN runs USING (run) WHERE owner IS NOT NULL",
  put: "INSERT INTO leases (run, epoch, owner) VALUES (?, ?, ?)",
  /** Changes no row when the lease has changed since it was judged. */
  first: "INSERT INTO leases (run, epoch, owner) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  replace: "UPDATE leases SET epoch = ?, owner = ? WHERE run = ? AND epoch = ?",
  release: "UPDATE leases SET owner = NULL WHERE run = ? AND epoch = ?",
} as const;

/** Requests; the first answer to an attempt counts (journal/H1). */
export const REQUEST = {
  insert: `
    INSERT INTO requests (run, type, attempt, data) VALUES (?, ?, ?, ?)
    ON CONFLICT (run, attempt) DO NOTHING`,
  after: "SELECT id, type, data FROM requests WHERE run = ? AND id > ? ORDER BY id",
  answer: "SELECT id, type, data FROM requests WHERE run = ? AND attempt = ?",
  answers: `
    SELECT id, type, data FROM requests WHERE run = ? AND attempt IS NOT NULL ORDER BY id`,
} as const;

/** The documented tables. */
export const SUMMARY = {
  insertRun: `
    INSERT INTO pipeline_state (pipeline_id, pipeline_name, status, created_at, updated_at, input,
      input_type, steps_total, steps_completed, file, last_seq, last_crc)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  updateRun: `
    UPDATE pipeline_state SET status = ?, steps_completed = ?, steps_total = ?, updated_at = ?,
      last_seq = ?, last_crc = ?
    WHERE pipeline_id = ?`,
  file: "SELECT file FROM pipeline_state WHERE pipeline_id = ?",
  move: "UPDATE pipeline_state SET file = ? WHERE pipeline_id = ?",
  clean: "UPDATE pipeline_state SET cleaned_at = ? WHERE pipeline_id = ?",
  deleteSteps: "DELETE FROM step_state WHERE pipeline_id = ?",
  putStep: `
    INSERT INTO step_state (pipeline_id, step_id, state, retry_count, started_at, completed_at,
      workspace_path, error_message)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (pipeline_id, step_id) DO UPDATE SET state = excluded.state,
      retry_count = excluded.retry_count, started_at = excluded.started_at,
      completed_at = excluded.completed_at, workspace_path = excluded.workspace_path,
      error_message = excluded.error_message`,
  steps: `
    SELECT step_id, state, retry_count, started_at, completed_at, workspace_path, error_message
    FROM step_state WHERE pipeline_id = ? ORDER BY rowid`,
  pipelines: `
    SELECT DISTINCT pipeline_name FROM pipeline_state ORDER BY pipeline_name LIMIT 1000`,
} as const;

/** The checks of `doctor`, beyond SQLite's own. */
export const CHECK = {
  withoutSummary: `
    SELECT run_id FROM runs WHERE run_id NOT IN (SELECT pipeline_id FROM pipeline_state)`,
  steps: `
    SELECT pipeline_id, step_id, state, retry_count, started_at, completed_at, workspace_path,
      error_message
    FROM step_state`,
  leases: "SELECT run_id, epoch, owner FROM leases JOIN runs USING (run)",
} as const;

/** Reads the tables of a damaged database from either end. */
export const SALVAGE = {
  runs: ["SELECT * FROM runs ORDER BY run", "SELECT * FROM runs ORDER BY run DESC"],
  plans: [
    "SELECT * FROM plans NOT INDEXED ORDER BY rowid",
    "SELECT * FROM plans NOT INDEXED ORDER BY rowid DESC",
  ],
  events: [
    "SELECT * FROM events NOT INDEXED ORDER BY rowid",
    "SELECT * FROM events NOT INDEXED ORDER BY rowid DESC",
  ],
  leases: ["SELECT * FROM leases ORDER BY run", "SELECT * FROM leases ORDER BY run DESC"],
  requests: [
    "SELECT * FROM requests NOT INDEXED ORDER BY id",
    "SELECT * FROM requests NOT INDEXED ORDER BY id DESC",
  ],
  cleaned: ["SELECT pipeline_id, cleaned_at FROM pipeline_state NOT INDEXED ORDER BY rowid"],
} as const;

/** The columns of a run in a list; the caller adds its status. */
const RUN_COLUMNS = `
      s.pipeline_id, s.pipeline_name, s.created_at, s.updated_at, s.input,
      s.input_type, s.steps_total, s.steps_completed, s.cleaned_at, s.file, s.last_seq,
      leases.epoch, leases.owner, CASE
        WHEN instr(first.data, '"from":') > 0 AND json_valid(first.data)
        THEN json_extract(first.data, '$.from.run')
      END AS forked_from`;
const RUN_TABLES = `
    FROM pipeline_state AS s
    LEFT JOIN runs ON runs.run_id = s.pipeline_id
    LEFT JOIN events AS first ON first.run = runs.run AND first.seq = 1
    LEFT JOIN leases ON leases.run = runs.run`;

/** The statement, with its values, that lists the runs of a filter, newest first. */
export function listRuns(filter: RunFilter & { readonly beforeText?: string | undefined }): {
  sql: string;
  values: (string | number)[];
} {
  const where: string[] = [];
  const values: (string | number)[] = [];
  const only = (condition: string, value: string | undefined): void => {
    if (value === undefined) return;
    where.push(condition);
    values.push(value);
  };
  only(
    "s.status IN (SELECT value FROM json_each(?))",
    filter.status && JSON.stringify(filter.status),
  );
  only("s.pipeline_name = ?", filter.pipeline);
  only("s.file = ?", filter.file);
  only("s.created_at < ?", filter.beforeText);
  const sql = `
    SELECT ${RUN_COLUMNS}, s.status
    ${RUN_TABLES}
    ${where.length > 0 ? `WHERE ${where.join(" AND ")}` : ""}
    ORDER BY s.created_at DESC, s.rowid DESC LIMIT ?`;
  return { sql, values: [...values, filter.limit ?? -1] };
}

interface Statement {
  readonly sql: string;
  readonly values: (string | number)[];
}

/** The status of a run, given the list of those with a living owner. */
const SHOWN_STATUS = `CASE
    WHEN s.status IN ('queued', 'running')
      AND s.pipeline_id NOT IN (SELECT value FROM json_each(?))
    THEN 'interrupted' ELSE s.status END`;

/** The step to name for a run that is not completed: one that runs, or else waits, or has failed. */
const CURRENT_STEP = `CASE WHEN s.status <> 'completed' THEN (
      SELECT step_id FROM step_state AS t
      WHERE t.pipeline_id = s.pipeline_id
        AND t.state IN ('running', 'waiting', 'retrying', 'interrupted', 'failed')
      ORDER BY CASE t.state WHEN 'running' THEN 1 WHEN 'failed' THEN 3 ELSE 2 END,
        t.started_at DESC, t.rowid DESC LIMIT 1) END`;

/** A run that is not completed, with a step that waits, or with an effect that was uncertain. */
const ASKING = `s.status <> 'completed' AND (
      EXISTS (SELECT 1 FROM step_state AS t
        WHERE t.pipeline_id = s.pipeline_id AND t.state = 'waiting')
      OR EXISTS (SELECT 1 FROM runs AS r JOIN events AS e ON e.run = r.run
        WHERE r.run_id = s.pipeline_id AND e.type = 'step.uncertain'))`;

/** The statements of a search: the page of runs, and the counts by status. */
export function searchRuns(
  search: RunSearch & {
    readonly afterText?: string | undefined;
    readonly changedText?: string | undefined;
  },
): Readonly<Record<"page" | "counts", Statement>> {
  const { owned, status, pipeline, text, after, afterText = "", runIds } = search;
  const living = JSON.stringify(owned);
  const where: string[] = ["true"];
  const values: (string | number)[] = [];
  const only = (condition: string, ...given: (string | undefined)[]): void => {
    const known = given.filter((value) => value !== undefined);
    if (known.length < given.length) return;
    where.push(condition);
    values.push(...known);
  };
  const words = text?.toLowerCase();
  only("s.pipeline_id IN (SELECT value FROM json_each(?))", runIds && JSON.stringify(runIds));
  only("s.updated_at >= ?", search.changedText);
  if (search.asking === true) only(ASKING);
  only("s.pipeline_name = ?", pipeline);
  only(
    `(instr(s.pipeline_id, ?) = 1 OR instr(lower(s.pipeline_name), ?) > 0
      OR instr(lower(ifnull(s.input, '')), ?) > 0
      OR EXISTS (SELECT 1 FROM step_state AS t
        WHERE t.pipeline_id = s.pipeline_id AND instr(lower(t.step_id), ?) > 0))`,
    ...[words, words, words, words],
  );
  const counts = {
    sql: `
    SELECT ${SHOWN_STATUS} AS status, count(*) AS runs FROM pipeline_state AS s
    WHERE ${where.join(" AND ")} GROUP BY 1`,
    values: [living, ...values],
  };
  if (status !== undefined) {
    only(`${SHOWN_STATUS} IN (SELECT value FROM json_each(?))`, living, JSON.stringify(status));
  }
  if (after !== undefined) only("(s.created_at, s.pipeline_id) < (?, ?)", afterText, after.runId);
  const page = {
    sql: `
    SELECT ${RUN_COLUMNS}, ${SHOWN_STATUS} AS status, ${CURRENT_STEP} AS current_step
    ${RUN_TABLES}
    WHERE ${where.join(" AND ")}
    ORDER BY s.created_at DESC, s.pipeline_id DESC LIMIT ?`,
    values: [living, ...values, search.limit],
  };
  return { page, counts };
}
