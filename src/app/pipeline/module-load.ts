/**
 * Reads a pipeline from a module by running the module in its own thread, which can be ended.
 *
 * Owns: the thread, its time limit, and the diagnostic for a module without a pipeline.
 * Does not: validate the pipeline.
 * Invariants:
 * - app/K1 Whatever the module does (throw, hang, loop, print, exit, leave timers running), this
 *   process continues, and only the data that the module exported outlives the call.
 */
import { text as textOf } from "node:stream/consumers";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import type { Path } from "../../pipeline/diagnostic.ts";
import { type ModuleProblem, type ModuleValue, notPlain } from "../../pipeline/module.ts";

/** How long a module may take to export its pipeline. */
const MODULE_TIME_MAX_MS = 30_000;

/** What the thread reports about its module. */
export type ModuleNews =
  | { readonly type: "value"; readonly value: unknown }
  | { readonly type: "no-default"; readonly names: readonly string[] }
  /** The default export is not an object. */
  | { readonly type: "no-pipeline"; readonly found: string }
  | { readonly type: "not-plain"; readonly found: string; readonly path: Path }
  | {
      readonly type: "thrown";
      readonly message: string;
      readonly stack?: string;
      readonly code?: string;
    };

/** How the thread ended. */
type Ended =
  | ModuleNews
  | { readonly type: "ended"; readonly exit: number }
  | { readonly type: "late" };

/** Runs a module and returns its default export, or its problem. */
export async function loadModule(path: string): Promise<ModuleValue> {
  const worker = new Worker(new URL(`./module-worker${OWN_ENDING}`, import.meta.url), {
    workerData: pathToFileURL(path).href,
    stdout: true,
    stderr: true,
  });
  const printed = Promise.all([textOf(worker.stdout), textOf(worker.stderr)]);
  const ended = await endOf(worker);
  const output = (await printed).join("");
  if (ended.type === "value") return { ok: true, value: ended.value, printed: output };
  return { ok: false, ...problemOf(ended, path) };
}

/** Perdure runs bundled and from its sources. */
const OWN_ENDING = import.meta.url.endsWith(".ts") ? ".ts" : ".js";

async function endOf(worker: Worker): Promise<Ended> {
  let news: Ended | undefined;
  const timer = setTimeout(() => {
    news ??= { type: "late" };
    void worker.terminate();
  }, MODULE_TIME_MAX_MS);
  worker.on("message", (message: ModuleNews) => {
    news ??= message;
  });
  worker.on("error", (error: Error) => {
    news ??= { type: "thrown", message: error.message, ...(error.stack && { stack: error.stack }) };
  });
  return new Promise((done) => {
    worker.on("exit", (exit) => {
      clearTimeout(timer);
      done(news ?? { type: "ended", exit });
    });
  });
}

const EXPORT_HELP =
  'write `export default definePipeline({ steps: [...] })`, with definePipeline from "perdure"';

function problemOf(ended: Exclude<Ended, { readonly type: "value" }>, path: string): ModuleProblem {
  switch (ended.type) {
    case "no-default": {
      const names = ended.names.length === 0 ? "nothing" : `only ${ended.names.join(", ")}`;
      const message = `the module has no default export: it exports ${names}`;
      return { rule: "module-export", message, help: EXPORT_HELP };
    }
    case "no-pipeline": {
      const message = `the module exports ${ended.found}, not a pipeline`;
      const help = ended.found === "a promise" ? "write `export default await ...`" : EXPORT_HELP;
      return { rule: "module-export", message, help };
    }
    case "not-plain":
      return notPlain(ended.path, ended.found);
    case "late": {
      const message = `the module has not finished after ${MODULE_TIME_MAX_MS / 1_000} seconds`;
      return { rule: "module-hangs", message, help: "let the module only describe the pipeline" };
    }
    case "ended": {
      const message =
        ended.exit === 0
          ? "the module awaits something that never happens"
          : `the module exited by itself with status ${ended.exit}`;
      const help = "look at its `await`s and at what it calls while it is loaded";
      return { rule: "module-hangs", message, help };
    }
    case "thrown":
      return thrownProblem(ended, path);
  }
}

type Thrown = Extract<ModuleNews, { readonly type: "thrown" }>;

function thrownProblem({ message, stack = "", code }: Thrown, path: string): ModuleProblem {
  const at = positionIn(stack, path);
  if (code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") {
    const help = "only types that can be left out run in Node: no enum, namespace or `import x =`";
    return { rule: "module-syntax", message, help, ...at };
  }
  if (/^ERR_INVALID_TYPESCRIPT_SYNTAX$/.test(code ?? "") || /^.*\bSyntaxError\b/m.test(stack)) {
    const help = "see it with your editor or with: node --check FILE";
    return { rule: "module-syntax", message, help, ...at };
  }
  if (code === "ERR_MODULE_NOT_FOUND") {
    const help = "relative imports name the whole file (./steps.ts); packages must be installed";
    return { rule: "module-import", message, help, ...at };
  }
  const help = "the module runs when it is read; fix the error that it throws";
  return { rule: "module-throws", message: `the module threw: ${message}`, help, ...at };
}

/** The position in the module itself that an error came from. */
function positionIn(stack: string, path: string): { line?: number; column?: number } {
  const frames = stack.matchAll(/(?:^|\(|\s)(file:\/\/\S+?|\/\S*?):(\d+)(?::(\d+))?(?=\)|$|\n)/g);
  for (const [, name = "", line, column] of frames) {
    const file = name.startsWith("file:") ? fileURLToPath(name) : name;
    if (file !== path) continue;
    return { line: Number(line), ...(column === undefined ? {} : { column: Number(column) }) };
  }
  return {};
}
