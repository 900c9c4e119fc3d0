/** DBOS on PostgreSQL: a durable engine as a library. The measurement starts the server. */
import { symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type PostgresServer, runSql, startPostgres } from "../../test/rig/postgres.ts";
import { environmentOf, folderOf, type Peer, type Task, WORK_SCRIPT } from "./peer.ts";

const NAME = "DBOS";
const PROGRAM = `import { DBOS } from "@dbos-inc/dbos-sdk";
${WORK_SCRIPT}
const flow = DBOS.registerWorkflow(async () => {
  for (let index = 0; index < steps; index++) {
    await DBOS.runStep(() => work(index), { name: "step-" + index });
  }
}, { name: "bench" });
DBOS.setConfig({ name: "bench", systemDatabaseUrl: process.env.STORE, logLevel: "error" });
await DBOS.launch();
const run = await DBOS.startWorkflow(flow, { workflowID: "bench" })();
await run.getResult();
await DBOS.shutdown();
`;

/** DBOS with a server of its own, whose commits reach the disk. */
export async function dbos(): Promise<Peer> {
  const server = await startPostgres({ settings: ["fsync=on", "full_page_writes=on"] });
  const stores = new Map<string, string>();
  const command = (directory: string, task: Task) => ({
    argv: [process.execPath, "bench.mjs"],
    env: { ...environmentOf(task), STORE: stores.get(directory) ?? "" },
  });
  return {
    name: NAME,
    packages: { "@dbos-inc/dbos-sdk": "5.3.0" },
    works: ["nothing", "process", "hold"],
    async prepare(directory) {
      symlinkSync(join(folderOf(NAME), "node_modules"), join(directory, "node_modules"));
      writeFileSync(join(directory, "bench.mjs"), PROGRAM);
      stores.set(directory, await server.newDatabase());
    },
    start: command,
    resume: command,
    stateBytes: (directory) => databaseBytes(server, stores.get(directory) ?? ""),
    close: () => server.close(),
  };
}

async function databaseBytes(server: PostgresServer, url: string): Promise<number> {
  const name = basename(new URL(url).pathname);
  const [row] = await runSql(server.url("postgres"), `SELECT pg_database_size('${name}') AS bytes`);
  return Number(row?.bytes);
}
