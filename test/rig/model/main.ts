/**
 * The fake model as a program: `node test/rig/model/main.ts --port 0 --script FILE`. It prints its
 * address as a JSON line and serves until a signal ends it. FILE holds one script or a list.
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { Json } from "./json.ts";
import { readScripts } from "./script-file.ts";
import { startModel } from "./server.ts";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "0" },
    script: { type: "string" },
  },
});
const scripts =
  values.script === undefined
    ? []
    : readScripts(JSON.parse(readFileSync(values.script, "utf8")) as Json);
const model = await startModel({ port: Number(values.port), scripts });
console.log(JSON.stringify({ url: model.url, pid: process.pid }));
for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => void model.close());
