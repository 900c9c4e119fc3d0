/**
 * Concurrency groups: how many runs of a group are under way at once, on all workers together.
 *
 * A run gets a slot of its group in the transaction in which it is taken, and keeps the slot until it has
 * ended: while it waits, and while it changes workers. A run that finds no free slot is parked, and is
 * queued again when one becomes free.
 *
 * Owns: the slots, and the runs that wait for one.
 * Does not: queue a run (dispatch.ts), or know whether one has ended (worker.ts asks the journal).
 * Invariants:
 * - groups/G1 Slots of a group are given one after the other: of all that take at once, none exceeds the
 *   limit of its run.
 * - groups/G2 A slot belongs to a run, not to a worker or a job; so the death of a worker frees none and
 *   loses none. A slot is free when its run has ended by its events, or was moved out of the fleet.
 */
import type { SqlDatabase } from "../../journal/journal.ts";
import type { GroupSummary } from "../../view/fleet-overview.ts";
import { QUEUE_SCHEMA } from "./queue-tables.ts";

const TABLE = `${QUEUE_SCHEMA}.group_runs`;
/** The first number of the locks of groups. */
const LOCKS = 1_886_544_243;

/** The group of a run: of all runs that name it, so many are under way at once. */
export interface RunGroup {
  readonly name: string;
  readonly max: number;
}

/** Notes the group of a new run. */
export async function joinGroup(
  sql: SqlDatabase,
  runId: string,
  { name, max }: RunGroup,
  priority: number,
): Promise<void> {
  await sql.executeSql(
    `insert into ${TABLE} (run_id, group_name, group_max, priority) values ($1, $2, $3, $4)
     on conflict (run_id) do update set group_name = $2, group_max = $3, priority = $4`,
    [runId, name, max, priority],
  );
}

/** Gives a new run the group of another one, if that has one. */
export async function joinGroupOf(sql: SqlDatabase, runId: string, like: string): Promise<void> {
  await sql.executeSql(
    `insert into ${TABLE} (run_id, group_name, group_max, priority)
     select $1, group_name, group_max, priority from ${TABLE} where run_id = $2`,
    [runId, like],
  );
}

/** True when a run may be taken: it has no group, or has a slot now. Otherwise it is parked. */
export async function claimSlot(transaction: SqlDatabase, runId: string): Promise<boolean> {
  const { rows } = await transaction.executeSql(
    `select group_name, pg_advisory_xact_lock(${LOCKS}, hashtext(group_name)) from ${TABLE}
     where run_id = $1`,
    [runId],
  );
  if (rows.length === 0) return true;
  // A statement of its own: it sees what the holder of the lock before has committed (groups/G1).
  const claimed = await transaction.executeSql(
    `update ${TABLE} set holds_slot = true, parked_at = null, resume_at = null
     where run_id = $1 and (holds_slot or group_max > (
       select count(*) from ${TABLE} where group_name = $2 and holds_slot)) returning run_id`,
    [runId, rows[0]?.group_name],
  );
  if (claimed.rows.length > 0) return true;
  await transaction.executeSql(
    `update ${TABLE} set parked_at = clock_timestamp() where run_id = $1`,
    [runId],
  );
  return false;
}

/** The run continues on another worker: until then it looks as if it had ended. */
export async function keepSlot(
  transaction: SqlDatabase,
  runId: string,
  resumeAt: number,
): Promise<void> {
  await transaction.executeSql(`update ${TABLE} set resume_at = $2 where run_id = $1`, [
    runId,
    resumeAt,
  ]);
}

/** True when a run has a slot and no worker hands it over; that stays so until the transaction ends. */
export async function lockSlot(transaction: SqlDatabase, runId: string): Promise<boolean> {
  const { rows } = await transaction.executeSql(
    `select from ${TABLE} where run_id = $1 and holds_slot and resume_at is null for update`,
    [runId],
  );
  return rows.length > 0;
}

/** Gives the slot of a run back; returns the run that may have it now. */
export async function freeSlot(
  transaction: SqlDatabase,
  runId: string,
): Promise<string | undefined> {
  const { rows } = await transaction.executeSql(
    `update ${TABLE} set holds_slot = false, resume_at = null
     where run_id = $1 and holds_slot returning group_name`,
    [runId],
  );
  return rows.length === 0 ? undefined : unpark(transaction, String(rows[0]?.group_name));
}

/** Takes the first run of a group that is parked; undefined when none is. */
export async function unpark(transaction: SqlDatabase, group: string): Promise<string | undefined> {
  const { rows } = await transaction.executeSql(
    `update ${TABLE} set parked_at = null where run_id = (
       select run_id from ${TABLE} where group_name = $1 and parked_at is not null
       order by priority desc, parked_at limit 1 for update skip locked)
     returning run_id`,
    [group],
  );
  return rows.map(({ run_id: id }) => String(id))[0];
}

/** The groups with runs that are parked, and the runs whose slots these wait for. */
export async function waitedFor(
  sql: SqlDatabase,
): Promise<readonly { readonly group: string; readonly isFree: boolean; holders: string[] }[]> {
  const { rows } = await sql.executeSql(
    `select group_name, max(group_max) filter (where parked_at is not null)
         > count(*) filter (where holds_slot) as is_free,
       coalesce(array_agg(run_id) filter (where holds_slot and resume_at is null), '{}') as holders
     from ${TABLE} where holds_slot or parked_at is not null
     group by group_name having bool_or(parked_at is not null)`,
  );
  return rows.map((row) => ({
    group: String(row.group_name),
    isFree: row.is_free === true,
    holders: row.holders as string[],
  }));
}

/** The groups that have runs under way, or runs that wait for a slot. */
export async function groupSummaries(sql: SqlDatabase): Promise<readonly GroupSummary[]> {
  const { rows } = await sql.executeSql(
    `select group_name, max(group_max) as max, count(*) filter (where holds_slot) as running,
       count(*) filter (where parked_at is not null) as waiting
     from ${TABLE} where holds_slot or parked_at is not null group by group_name order by 1`,
  );
  return rows.map((row) => ({
    group: String(row.group_name),
    max: Number(row.max),
    running: Number(row.running),
    waiting: Number(row.waiting),
  }));
}
