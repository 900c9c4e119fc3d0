/**
 * Every statement on the tables of migrations.ts.
 *
 * Owns: the SQL.
 * Does not: run it.
 * Invariants:
 * - postgres/J3 SQL on the tables of the journal is only here and in migrations.ts.
 * - postgres/J2 The statement that writes compares the lease and the head of the run itself, on the
 *   row that it locks: what a client has read before decides nothing.
 */
import type { RunFilter, RunSearch } from "../run-log.ts";

/** A statement; one with a name is prepared once for each connection. */
export interface Statement {
  readonly text: string;
  readonly values?: readonly unknown[];
  readonly name?: string;
  readonly timeoutMs?: number;
}

/** The first number of all locks of this program that are no locks of rows. */
const LOCKS = 1_886_544_242;
/** Held shared by every acquisition of a lease, and exclusively by what prevents them. */
const LEASE_LOCK = `${LOCKS}, 2`;

/** The channels of notifications; the payload is the id of the run. */
export const LOG_CHANNEL = "perdure_log";
export const INBOX_CHANNEL = "perdure_inbox";

const NOW_MS = msOf("clock_timestamp()");
/** The setting of the store, as of the statement that uses it: all its uses there agree. */
const HELD_MS = "(SELECT lease_ms FROM perdure.store)";
const HELD_UNTIL = `clock_timestamp() + ${HELD_MS} * interval '1 millisecond'`;
const TIME = `${NOW_MS} AS now, ${HELD_MS} AS held_ms`;
const EXPIRED = "(owner IS NOT NULL AND held_until <= clock_timestamp())::int AS has_expired";

/** A time as milliseconds since 1970. */
function msOf(time: string): string {
  return `(extract(epoch FROM ${time}) * 1000)::bigint`;
}

/** A time in the format of the other journals. */
function iso(column: string): string {
  return `to_char(${column}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}

const EVENT_FIELDS =
  "seq integer, type text, version integer, time bigint, data text, facts text, crc bigint";
const STEP_FIELDS =
  "step_id text, state text, retry_count integer, started_at timestamptz, " +
  "completed_at timestamptz, workspace_path text, error_message text";
const STEP_COLUMNS =
  "step_id, state, retry_count, started_at, completed_at, workspace_path, error_message";

/** Inserts the steps in a parameter for the run of the query `from`. */
function insertSteps(parameter: string, from: string): string {
  return `
    INSERT INTO perdure.step_state (pipeline_id, ${STEP_COLUMNS})
    SELECT ${from}.pipeline_id, ${STEP_COLUMNS}
    FROM ${from}, json_to_recordset(${parameter}::json) AS step (${STEP_FIELDS})`;
}

function putSteps(parameter: string, from: string): string {
  return `${insertSteps(parameter, from)}
    ON CONFLICT (pipeline_id, step_id) DO UPDATE SET state = excluded.state,
      retry_count = excluded.retry_count, started_at = excluded.started_at,
      completed_at = excluded.completed_at, workspace_path = excluded.workspace_path,
      error_message = excluded.error_message`;
}

function putEvents(parameter: string, from: string): string {
  return `
    INSERT INTO perdure.events (run, seq, type, version, time, data, facts, crc)
    SELECT ${from}.run, seq, type, version, time, data, facts, crc
    FROM ${from}, json_to_recordset(${parameter}::json) AS event (${EVENT_FIELDS})`;
}

/** The starts and ends of transactions, and what became of one. */
export const TRANSACTION = {
  begin: "BEGIN",
  id: "SELECT pg_current_xact_id()::text AS id",
  commit: "COMMIT",
  rollback: "ROLLBACK",
  fate: "SELECT pg_xact_status($1::xid8) AS fate",
} as const;

/** Runs with their plans and heads. */
export const RUN = {
  head: `
    SELECT run, fingerprint, last_seq, last_crc, epoch, owner, file
    FROM perdure.pipeline_state WHERE pipeline_id = $1`,
  /** The head of a run and its events from a number on, as of one moment. */
  load: `
    SELECT fingerprint, last_seq, last_crc, ${iso("cleaned_at")} AS cleaned_at,
      seq, type, version, time, data, facts, crc
    FROM perdure.pipeline_state AS s LEFT JOIN perdure.events AS e ON e.run = s.run AND seq >= $2
    WHERE pipeline_id = $1 ORDER BY seq`,
  lock: "SELECT file FROM perdure.pipeline_state WHERE pipeline_id = $1 FOR UPDATE",
  plan: "SELECT text FROM perdure.plans WHERE fingerprint = $1",
  insertPlan: `
    INSERT INTO perdure.plans (fingerprint, text) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
  /** Returns no row when the run exists. */
  insert: `
    WITH made AS (
      INSERT INTO perdure.pipeline_state (pipeline_id, pipeline_name, status, created_at,
        updated_at, input, input_type, steps_total, steps_completed, file, forked_from, fingerprint,
        last_seq, last_crc, epoch)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
      ON CONFLICT (pipeline_id) DO NOTHING RETURNING run, pipeline_id
    ), events AS (${putEvents("$16", "made")}
    ), steps AS (${insertSteps("$17", "made")}
    ) SELECT run FROM made`,
  /** run-log/J2: changes nothing unless lease, number and checksum are those of the writer. */
  append: `
    WITH moved AS (
      UPDATE perdure.pipeline_state SET last_seq = $5, last_crc = $6, status = $7,
        steps_completed = $8, steps_total = $9, updated_at = $10, file = coalesce($11, file)
      WHERE pipeline_id = $1 AND epoch = $2 AND owner IS NOT NULL
        AND last_seq = $3 AND last_crc = $4
      RETURNING run, pipeline_id
    ), events AS (${putEvents("$12", "moved")}
    ), steps AS (${putSteps("$13", "moved")}
    ) SELECT run FROM moved`,
  putSteps: `
    WITH run AS (SELECT $1::text AS pipeline_id)
    ${putSteps("$2", "run")}`,
  deleteSteps: "DELETE FROM perdure.step_state WHERE pipeline_id = $1",
  resolve: `
    SELECT pipeline_id FROM perdure.pipeline_state
    WHERE pipeline_id >= $1 AND starts_with(pipeline_id, $1) ORDER BY pipeline_id LIMIT 2`,
  clean: `
    UPDATE perdure.pipeline_state SET cleaned_at = $2 WHERE pipeline_id = $1 RETURNING run`,
  steps: `
    SELECT step_id, state, retry_count, ${iso("started_at")} AS started_at,
      ${iso("completed_at")} AS completed_at, workspace_path, error_message
    FROM perdure.step_state WHERE pipeline_id = $1 ORDER BY place`,
  pipelines: `
    SELECT DISTINCT pipeline_name COLLATE "C" AS pipeline_name FROM perdure.pipeline_state
    ORDER BY 1 LIMIT 1000`,
} as const;

/** Events, which are only inserted. */
export const EVENT = {
  spending: `
    SELECT seq, type, version, time, data, NULL AS facts, crc
    FROM perdure.events JOIN perdure.pipeline_state USING (run)
    WHERE pipeline_id = $1 AND seq > $2
      AND (strpos(data, '"spent":') > 0 OR strpos(data, '"lateCostUsd":') > 0)
    ORDER BY seq`,
  /** The hashes of outputs that steps passed on or will pass on, of runs whose files exist. */
  outputs: `
    SELECT DISTINCT found[1] AS sha256
    FROM perdure.events JOIN perdure.pipeline_state USING (run),
      regexp_matches(data, '"sha256":"([0-9a-f]{64})"', 'g') AS found
    WHERE type IN (
        'step.completed', 'step.conflicted', 'step.submitted', 'step.recalled', 'run.rewound')
      AND cleaned_at IS NULL`,
  /**
   * Transactions below the mark have all ended when it is read, so nothing is missed; a run may be
   * named again. Numbers that are not yet given come from the server that a backup was made of.
   */
  changed: `
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS mark, ARRAY(
      SELECT DISTINCT pipeline_id FROM perdure.events JOIN perdure.pipeline_state USING (run)
      WHERE xact >= $1 AND xact < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    ) AS run_ids`,
} as const;

/** The owners of runs. All arithmetic with times is here, on the clock of the server. */
export const LEASE = {
  get: `SELECT epoch, owner, ${EXPIRED} FROM perdure.pipeline_state WHERE pipeline_id = $1`,
  held: `
    SELECT pipeline_id, epoch, owner, ${EXPIRED} FROM perdure.pipeline_state
    WHERE owner IS NOT NULL ORDER BY run`,
  /**
   * leases/J2, leases/J9: changes no row when the lease has changed since it was judged. $4: it was
   * judged by its expiry. $5: this is another try, which may find its own work.
   */
  acquire: `
    UPDATE perdure.pipeline_state AS run
    SET epoch = $2::integer + 1, owner = $3,
      held_until = CASE WHEN $3::json ->> 'place' IS NULL THEN ${HELD_UNTIL} ELSE 'infinity' END,
      requests_seen = coalesce((SELECT max(id) FROM perdure.requests WHERE run = run.run), 0)
    FROM (SELECT pg_advisory_xact_lock_shared(${LEASE_LOCK})) AS unblocked
    WHERE pipeline_id = $1 AND (
      (epoch = $2 AND (NOT $4 OR owner IS NULL OR held_until <= clock_timestamp()))
      OR ($5 AND epoch = $2::integer + 1 AND owner = $3))
    RETURNING epoch, ${TIME}, pg_notify('${LOG_CHANNEL}', pipeline_id) AS notified`,
  renew: `
    UPDATE perdure.pipeline_state SET held_until = ${HELD_UNTIL}
    WHERE pipeline_id = $1 AND epoch = $2 AND owner IS NOT NULL
    RETURNING ${TIME}`,
  /** One row with the time, and one for each lease that was extended; locked in one order. */
  renewAll: `
    WITH wanted AS (
      SELECT run FROM perdure.pipeline_state
      JOIN unnest($1::text[], $2::integer[]) AS held (id, held_epoch)
        ON pipeline_id = id AND epoch = held_epoch
      WHERE owner IS NOT NULL ORDER BY run FOR UPDATE OF pipeline_state
    ), renewed AS (
      UPDATE perdure.pipeline_state SET held_until = ${HELD_UNTIL}
      FROM wanted WHERE pipeline_state.run = wanted.run RETURNING pipeline_id
    ) SELECT ${TIME}, ARRAY(SELECT pipeline_id FROM renewed) AS run_ids`,
  release: `
    UPDATE perdure.pipeline_state SET owner = NULL, held_until = NULL
    WHERE pipeline_id = $1 AND epoch = $2 AND owner IS NOT NULL
    RETURNING pg_notify('${LOG_CHANNEL}', pipeline_id) AS notified`,
  block: `SELECT pg_advisory_lock(${LEASE_LOCK})`,
  unattended: `
    SELECT pipeline_id, greatest(0, ceil(extract(epoch FROM held_until - seen_at) * 1000))::integer
      AS in_ms
    FROM perdure.pipeline_state, (SELECT clock_timestamp() AS seen_at) AS clock
    WHERE owner IS NOT NULL AND held_until <= seen_at + $2::integer * interval '1 ms'
    UNION ALL
    SELECT pipeline_id, 0 FROM perdure.pipeline_state AS run WHERE owner IS NULL AND epoch > 0
      AND EXISTS (SELECT FROM perdure.requests
        WHERE requests.run = run.run AND id > requests_seen AND type <> 'stop')
    ORDER BY in_ms LIMIT $1`,
} as const;

/**
 * Requests; the first answer to an attempt counts (journal/H1). A lock for each run makes the order of
 * their ids the order in which they can be seen: an owner that has read an id reads no lower one later.
 */
export const REQUEST = {
  insert: `
    WITH target AS MATERIALIZED (
      SELECT run, pipeline_id, pg_advisory_xact_lock(${LOCKS + 1}, (run % 2147483647)::integer)
      FROM perdure.pipeline_state WHERE pipeline_id = $1
    ), added AS (
      INSERT INTO perdure.requests (run, type, attempt, key, data)
      SELECT run, $2, $3, $4, $5 FROM target
      ON CONFLICT DO NOTHING RETURNING id
    ) SELECT run, (SELECT id FROM added) AS id, pg_notify('${INBOX_CHANNEL}', pipeline_id)
    FROM target`,
  after: "SELECT id, type, data FROM perdure.requests WHERE run = $1 AND id > $2 ORDER BY id",
  answer: "SELECT id, type, data FROM perdure.requests WHERE run = $1 AND attempt = $2",
  answers: `
    SELECT id, type, data FROM perdure.requests WHERE run = $1 AND attempt IS NOT NULL
    ORDER BY id`,
} as const;

/** What followers compare when a notification may have been lost. */
export const NOTICE = {
  /** The transaction does not wait for the disk. */
  send: `
    SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, payload)
    FROM unnest($2::text[]) AS payload`,
  positions: `
    SELECT pipeline_id, last_seq || ' ' || epoch || ' ' || (owner IS NULL) AS log,
      (SELECT max(id) FROM perdure.requests WHERE requests.run = run.run) AS inbox
    FROM perdure.pipeline_state AS run WHERE pipeline_id = ANY($1)`,
} as const;

/** Everything that names blobs. */
const NAMING = `(
      SELECT blobs FROM perdure.files UNION ALL SELECT blobs FROM perdure.schedules) AS naming`;

/** The files of runs, and their content. */
export const FILE = {
  changed: `
    SELECT path, mode, bytes, blobs, run.files_revision
    FROM perdure.pipeline_state AS run LEFT JOIN perdure.files
      ON files.run = run.run AND revision > $2
    WHERE pipeline_id = $1 ORDER BY path`,
  /** journal/P4, journal/P5: changes nothing when the lease is not the writer's. */
  put: `
    WITH moved AS (
      UPDATE perdure.pipeline_state SET files_revision = files_revision + 1
      WHERE pipeline_id = $1 AND epoch = $2 RETURNING run, files_revision
    ), put AS (
      INSERT INTO perdure.files (run, path, mode, bytes, blobs, revision)
      SELECT run, path, mode, bytes,
        CASE WHEN blobs IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(blobs)) END,
        files_revision
      FROM moved, json_to_recordset($3::json)
        AS file (path text, mode integer, bytes bigint, blobs json)
      ON CONFLICT (run, path) DO UPDATE SET mode = excluded.mode, bytes = excluded.bytes,
        blobs = excluded.blobs, revision = excluded.revision
    ) SELECT run FROM moved`,
  named: `
    SELECT DISTINCT hash FROM ${NAMING}, unnest(blobs) AS hash WHERE hash = ANY($1)`,
} as const;

/** Pipelines that the fleet starts at certain times. */
export const SCHEDULE = {
  list: `
    SELECT name, cron, ${msOf("since")} AS since, last_run FROM perdure.schedules ORDER BY name`,
  run: "SELECT run FROM perdure.schedules WHERE name = $1",
  /** Times before the first submission of a cron expression are not made up for. */
  put: `
    INSERT INTO perdure.schedules AS known (name, cron, since, run, blobs)
    VALUES ($1, $2, clock_timestamp(), $3, $4)
    ON CONFLICT (name) DO UPDATE SET cron = $2, run = $3, blobs = $4,
      since = CASE WHEN known.cron = $2 THEN known.since ELSE excluded.since END`,
  ran: "UPDATE perdure.schedules SET last_run = $2 WHERE name = $1",
  remove: "DELETE FROM perdure.schedules WHERE name = $1 RETURNING name",
} as const;

/** The content of files. Blobs are locked in the order of their names. */
export const BLOB = {
  seen: `
    WITH found AS (
      SELECT hash FROM perdure.blobs WHERE hash = ANY($1) ORDER BY hash FOR UPDATE
    ) UPDATE perdure.blobs SET seen_at = clock_timestamp() FROM found
    WHERE blobs.hash = found.hash RETURNING found.hash`,
  get: "SELECT bytes FROM perdure.blobs WHERE hash = $1",
  removeUnused: `
    WITH removed AS (
      DELETE FROM perdure.blobs
      WHERE seen_at < clock_timestamp() - $1 * interval '1 millisecond' AND NOT EXISTS (
        SELECT FROM (SELECT DISTINCT unnest(blobs) AS hash FROM ${NAMING}) AS named
        WHERE named.hash = blobs.hash)
      RETURNING 1
    ) SELECT count(*) AS removed FROM removed`,
} as const;

/** The statement that stores so many blobs: a name and bytes for each. */
export function putBlobs(count: number): string {
  const rows = Array.from({ length: count }, (_, n) => `($${2 * n + 1}, $${2 * n + 2}::bytea)`);
  return `
    INSERT INTO perdure.blobs (hash, bytes) VALUES ${rows.join(", ")}
    ON CONFLICT (hash) DO UPDATE SET seen_at = clock_timestamp()`;
}

/** The columns of a run in a list; the caller adds its status. */
const RUN_COLUMNS = `
      s.pipeline_id, s.pipeline_name, ${iso("s.created_at")} AS created_at,
      ${iso("s.updated_at")} AS updated_at, s.input, s.input_type, s.steps_total,
      s.steps_completed, ${iso("s.cleaned_at")} AS cleaned_at, s.file, s.last_seq,
      nullif(s.epoch, 0) AS epoch, s.owner, ${EXPIRED}, s.forked_from`;

/** Conditions with their values, as the parameters of one statement. */
class Conditions {
  readonly values: unknown[] = [];
  readonly #conditions: string[] = ["true"];

  /** Adds a condition, if its value is known; `{}` stands for the parameter. */
  only(condition: string, value: unknown): void {
    if (value !== undefined) this.#conditions.push(condition.replaceAll("{}", this.value(value)));
  }

  add(condition: string): void {
    this.#conditions.push(condition);
  }

  /** The parameter of a value. */
  value(value: unknown): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }

  toString(): string {
    return this.#conditions.join(" AND ");
  }
}

/** The statement that lists the runs of a filter, newest first. */
export function listRuns(
  filter: RunFilter & { readonly beforeText?: string | undefined },
): Statement {
  const where = new Conditions();
  where.only("s.status = ANY({})", filter.status);
  where.only("s.pipeline_name = {}", filter.pipeline);
  where.only("s.file = {}", filter.file);
  where.only("s.created_at < {}", filter.beforeText);
  const limit = where.value(filter.limit ?? null);
  const text = `
    SELECT ${RUN_COLUMNS}, s.status FROM perdure.pipeline_state AS s
    WHERE ${where.toString()} ORDER BY s.created_at DESC, s.run DESC LIMIT ${limit}`;
  return { text, values: where.values };
}

/** The step to name for a run that is not completed: one that runs, or else waits, or has failed. */
const CURRENT_STEP = `CASE WHEN s.status <> 'completed' THEN (
      SELECT step_id FROM perdure.step_state AS t
      WHERE t.pipeline_id = s.pipeline_id
        AND t.state IN ('running', 'waiting', 'retrying', 'interrupted', 'failed')
      ORDER BY CASE t.state WHEN 'running' THEN 1 WHEN 'failed' THEN 3 ELSE 2 END,
        t.started_at DESC NULLS LAST, t.place DESC LIMIT 1) END`;

/** A run that is not completed, with a step that waits, or with an effect that was uncertain. */
const ASKING = `s.status <> 'completed' AND (
      EXISTS (SELECT FROM perdure.step_state AS t
        WHERE t.pipeline_id = s.pipeline_id AND t.state = 'waiting')
      OR EXISTS (SELECT FROM perdure.events AS e
        WHERE e.run = s.run AND e.type = 'step.uncertain'))`;

/** A text in the id, the name, the input or a step of a run. */
const NAMED = `(starts_with(s.pipeline_id, {}) OR strpos(lower(s.pipeline_name), {}) > 0
      OR strpos(lower(coalesce(s.input, '')), {}) > 0
      OR EXISTS (SELECT FROM perdure.step_state AS t
        WHERE t.pipeline_id = s.pipeline_id AND strpos(lower(t.step_id), {}) > 0))`;

/** The statements of a search: the page of runs, and the counts by status. */
export function searchRuns(
  search: RunSearch & {
    readonly afterText?: string | undefined;
    readonly changedText?: string | undefined;
  },
): Readonly<Record<"page" | "counts", Statement>> {
  const where = new Conditions();
  const owned = where.value(search.owned);
  const shown = `CASE WHEN s.status IN ('queued', 'running') AND s.pipeline_id <> ALL(${owned}::text[])
    THEN 'interrupted' ELSE s.status END`;
  where.only("s.pipeline_id = ANY({})", search.runIds);
  where.only("s.updated_at >= {}", search.changedText);
  if (search.asking === true) where.add(ASKING);
  where.only("s.pipeline_name = {}", search.pipeline);
  where.only(NAMED, search.text?.toLowerCase());
  const counts = {
    text: `
    SELECT ${shown} AS status, count(*) AS runs FROM perdure.pipeline_state AS s
    WHERE ${where.toString()} GROUP BY 1`,
    values: [...where.values],
  };
  where.only(`${shown} = ANY({})`, search.status);
  if (search.after !== undefined) {
    const [time, id] = [where.value(search.afterText), where.value(search.after.runId)];
    where.add(`(s.created_at, s.pipeline_id) < (${time}::timestamptz, ${id})`);
  }
  const limit = where.value(search.limit);
  const text = `
    SELECT ${RUN_COLUMNS}, ${shown} AS status, ${CURRENT_STEP} AS current_step
    FROM perdure.pipeline_state AS s
    WHERE ${where.toString()}
    ORDER BY s.created_at DESC, s.pipeline_id DESC LIMIT ${limit}`;
  return { page: { text, values: where.values }, counts };
}
