/** The schedules of a fleet in PostgreSQL. */
import { integerIn, textIn } from "../sqlite/row.ts";
import type { StoredSchedules } from "../stored-schedules.ts";
import { repeated, type Sql } from "./connection.ts";
import { SCHEDULE } from "./sql.ts";

/** The port on a server. */
export function postgresSchedules(sql: Sql): StoredSchedules {
  return {
    list: async () => {
      const rows = await repeated(sql, { text: SCHEDULE.list });
      return rows.map((row) => ({
        name: textIn(row, "name"),
        cron: textIn(row, "cron"),
        since: integerIn(row, "since"),
        ...(row.last_run === null ? {} : { lastRun: textIn(row, "last_run") }),
      }));
    },
    runOf: async (name) => {
      const [row] = await repeated(sql, { text: SCHEDULE.run, values: [name] });
      return row === undefined ? undefined : textIn(row, "run");
    },
    put: async (name, cron, { text, blobs }) => {
      await repeated(sql, { text: SCHEDULE.put, values: [name, cron, text, blobs] });
    },
    ran: async (name, runId) => {
      await repeated(sql, { text: SCHEDULE.ran, values: [name, runId] });
    },
    remove: async (name) => {
      return sql.settled(async (isAgain) => {
        const removed = await sql.once({ text: SCHEDULE.remove, values: [name] });
        return removed.length > 0 || isAgain;
      });
    },
  };
}
