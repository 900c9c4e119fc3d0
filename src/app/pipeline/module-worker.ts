/**
 * Runs one pipeline module, in a thread of its own (module-load.ts), and sends what it exports.
 *
 * Owns: what `perdure` means to the module, and that only plain data leaves the thread.
 * Does not: judge the pipeline.
 */
import { registerHooks } from "node:module";
import { parentPort, workerData } from "node:worker_threads";
import { plainValue } from "../../pipeline/module.ts";
import { assert } from "../../util/assert.ts";
import type { ModuleNews } from "./module-load.ts";

const port = parentPort;
assert(port !== null && typeof workerData === "string", "a module is run in a thread of its own");

const module = workerData;

registerHooks({
  resolve: (name, context, next) => {
    // `perdure` is always this package: the project of the module may not have installed it.
    const ours = name === "perdure" || name.startsWith("perdure/");
    const found = next(name, ours ? { ...context, parentURL: import.meta.url } : context);
    // A pipeline is an ES module, and so is its TypeScript, whatever the package.json of the
    // project says.
    if (/\.m?ts$/.test(found.url)) return { ...found, format: "module-typescript" };
    return found.url === module ? { ...found, format: "module" } : found;
  },
});

/** Sends the message and ends this thread, together with the module's timers and sockets. */
function send(news: ModuleNews): void {
  port?.postMessage(news);
  process.exit();
}

function newsOf(exported: Readonly<Record<string, unknown>>): ModuleNews {
  if (!("default" in exported)) return { type: "no-default", names: Object.keys(exported) };
  const plain = plainValue(exported.default);
  if (plain.ok) return { type: "value", value: plain.value };
  const { path, found } = plain;
  return path.length === 0 ? { type: "no-pipeline", found } : { type: "not-plain", found, path };
}

function thrown(error: unknown): ModuleNews {
  if (!(error instanceof Error)) return { type: "thrown", message: String(error) };
  const code = "code" in error ? String(error.code) : undefined;
  return {
    type: "thrown",
    message: error.message,
    ...(error.stack === undefined ? {} : { stack: error.stack }),
    ...(code === undefined ? {} : { code }),
  };
}

// A module that never settles lets the thread end without a message, which module-load.ts reports.
import(module).then(
  (exported: Readonly<Record<string, unknown>>) => send(newsOf(exported)),
  (error: unknown) => send(thrown(error)),
);
