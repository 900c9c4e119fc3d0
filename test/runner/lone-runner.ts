/** A runner that the tests kill: starts a process and waits for its end. */
import { startProcess } from "../../src/runner/process/start.ts";
import type { Launch, Limits } from "../../src/runner/process/step-process.ts";

const [launch, limits] = process.argv.slice(2).map((text) => JSON.parse(text) as unknown);
await startProcess(launch as Launch, limits as Limits).ended;
