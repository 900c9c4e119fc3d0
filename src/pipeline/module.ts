/**
 * A pipeline that a JavaScript or TypeScript module exports: its value, and the mistakes of the
 * module as a whole. A diagnostic names the file and the path in the value.
 *
 * Owns: how a module becomes a value to validate, and that the value is plain data.
 * Does not: run the module; room `app` does that in a thread of its own.
 */
import { isObject } from "../util/json.ts";
import {
  type Diagnostic,
  diagnosticAt,
  type ParsedFile,
  type Path,
  type Source,
} from "./diagnostic.ts";

/** The file names of modules. */
const MODULE_NAME = /\.(ts|mts|js|mjs)$/;
/** How much of a module's output is shown. */
const PRINTED_MAX = 200;

/** Why a module has no pipeline. */
export interface ModuleProblem {
  readonly rule: string;
  readonly message: string;
  readonly help: string;
  /** The position in the module, if the JavaScript engine reported one. */
  readonly line?: number;
  readonly column?: number;
  /** The path in the value that it exports. */
  readonly path?: Path;
}

/** The result of a module: its default export and its output, or a problem. */
export type ModuleValue =
  | { readonly ok: true; readonly value: unknown; readonly printed: string }
  | ({ readonly ok: false } & ModuleProblem);

/** The problem of a value that is not plain data. */
export function notPlain(path: Path, found: string): ModuleProblem {
  const message = `\`${pathText(path)}\` is ${found}`;
  const help = "a pipeline is plain data: texts, numbers, booleans, lists and objects";
  return { rule: "module-value", message, help, path };
}

/** True for the file name of a module. */
export function isModuleName(name: string): boolean {
  return MODULE_NAME.test(name);
}

/** The value of a module that has run, for validation. */
export function readModule(file: string, text: string, found: ModuleValue): ParsedFile {
  const source = moduleSource(file, text);
  if (!found.ok) return { source, diagnostics: [problemIn(source, found)] };
  // Validation removes mistakes from the value, and another step may use the same module.
  const value: unknown = structuredClone(found.value);
  return { source, value, diagnostics: printedWarning(source, found.printed) };
}

function problemIn(source: Source, found: ModuleProblem): Diagnostic {
  const { rule, message, help, path, line = 1, column = 1 } = found;
  const finding = { severity: "error", rule, message, help } as const;
  if (path === undefined) return { ...finding, file: source.file, line, column };
  return diagnosticAt(source, WHOLE, { ...finding, path: pathText(path) });
}

function printedWarning(source: Source, printed: string): readonly Diagnostic[] {
  if (printed.trim() === "") return [];
  const [first = ""] = printed.trim().split("\n");
  const shown = first.length > PRINTED_MAX ? `${first.slice(0, PRINTED_MAX)}...` : first;
  const message = `the module printed output while it was loaded: ${shown}`;
  const help = "every `run`, `validate` and `graph` loads it again; do the work in steps";
  const finding = { severity: "warning", rule: "module-prints", message, help } as const;
  return [diagnosticAt(source, WHOLE, finding)];
}

/** Every diagnostic of a module points to its start; the path is that in the value. */
const WHOLE = { start: 0, end: 1 } as const;

function moduleSource(file: string, text: string): Source {
  return {
    file,
    text,
    spanOf: () => WHOLE,
    offsetInText: () => 0,
    scalarText: () => undefined,
    positionOf: (offset) => ({ line: 1, column: offset + 1 }),
    pathText,
  };
}

/** "steps[2].needs[0]". */
function pathText(path: Path): string {
  const words = path.map((key) => {
    if (typeof key === "number") return `[${key}]`;
    return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
  });
  return words.join("").replace(/^\./, "") || "the default export";
}

/** How deep values may be nested. */
const DEPTH_MAX = 200;

type PlainValue =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly path: Path; readonly found: string };

/** The value as JSON; undefined keys are left out. */
export function plainValue(value: unknown): PlainValue {
  try {
    return { ok: true, value: copy(value, [], new Set()) };
  } catch (error) {
    if (!(error instanceof NotPlain)) throw error;
    return { ok: false, path: error.path, found: error.message };
  }
}

class NotPlain extends Error {
  readonly path: Path;
  constructor(path: Path, found: string) {
    super(found);
    this.path = path;
  }
}

function copy(value: unknown, path: Path, around: ReadonlySet<unknown>): unknown {
  if (value === null || ["string", "boolean"].includes(typeof value)) return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (typeof value !== "object") throw new NotPlain(path, kindOf(value));
  if (around.has(value)) throw new NotPlain(path, "a value that contains itself");
  if (path.length > DEPTH_MAX) throw new NotPlain(path, "a value that is nested too deeply");
  const inside = new Set([...around, value]);
  if (Array.isArray(value)) {
    return Array.from(value, (item, index) => copy(item, [...path, index], inside));
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if ((prototype !== Object.prototype && prototype !== null) || !isObject(value)) {
    throw new NotPlain(path, kindOf(value));
  }
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== undefined)
      .map(([key, inner]) => [key, copy(inner, [...path, key], inside)]),
  );
}

function kindOf(value: unknown): string {
  if (value === undefined) return "undefined";
  if (typeof value === "function") return "a function";
  if (typeof value === "number") return String(value);
  if (value instanceof Promise) return "a promise";
  const name = typeof value === "object" ? value?.constructor.name : typeof value;
  return `a ${name ?? "value"}`;
}
