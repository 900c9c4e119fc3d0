/** OpenWorkflow on SQLite: a durable engine as a library; the worker is in the same process. */
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { environmentOf, folderOf, type Peer, type Task, WORK_SCRIPT } from "./peer.ts";

const NAME = "OpenWorkflow";
/** The run has a key, so a second start finds the same run. */
const PROGRAM = `import { OpenWorkflow } from "openworkflow";
import { BackendSqlite } from "openworkflow/sqlite";
${WORK_SCRIPT}
const backend = BackendSqlite.connect("state.db");
const engine = new OpenWorkflow({ backend });
const flow = engine.defineWorkflow({ name: "bench" }, async ({ step }) => {
  for (let index = 0; index < steps; index++) {
    await step.run({ name: "step-" + index }, () => work(index));
  }
});
const worker = engine.newWorker();
await worker.start();
const run = await flow.run({}, { idempotencyKey: "bench" });
await run.result();
await worker.stop();
await backend.stop();
`;

function command(task: Task) {
  return { argv: [process.execPath, "bench.mjs"], env: environmentOf(task) };
}

export const OPENWORKFLOW: Peer = {
  name: NAME,
  packages: { openworkflow: "0.10.1" },
  works: ["nothing", "process", "hold"],
  prepare(directory) {
    symlinkSync(join(folderOf(NAME), "node_modules"), join(directory, "node_modules"));
    writeFileSync(join(directory, "bench.mjs"), PROGRAM);
  },
  start: (_directory, task) => command(task),
  resume: (_directory, task) => command(task),
};
