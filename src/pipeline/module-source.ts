/**
 * A pipeline that a JavaScript or TypeScript module exports: its value, and where its parts stand in
 * the module's text, as far as they are written out there.
 *
 * Owns: the way from a path in the value to a place in the text, and what is wrong with a module
 * as a whole.
 * Does not: run the module (that needs a thread of its own; the command line has one).
 */
import type { Diagnostic } from "./diagnostic.ts";
import { defaultLiteral, type Literal } from "./script-literal.ts";
import { diagnosticAt, type Path, type Source, type Span } from "./source.ts";

/** Names of files that are modules, not YAML. */
const MODULE_NAME = /\.(ts|mts|js|mjs)$/;
/** How much of what a module printed is shown. */
const PRINTED_MAX = 200;

/** Why there is no pipeline to look at. */
export interface ModuleProblem {
  readonly rule: string;
  readonly message: string;
  readonly help: string;
  /** Where in the module, if that is known. */
  readonly line?: number;
  readonly column?: number;
  /** Where in the value that it exports. */
  readonly path?: Path;
}

/** What became of a module: what it exports as its default, and what it printed. */
export type ModuleValue =
  | { readonly ok: true; readonly value: unknown; readonly printed: string }
  | ({ readonly ok: false } & ModuleProblem);

/** Something in a pipeline that is no data. */
export function notPlain(path: Path, found: string): ModuleProblem {
  const message = `\`${pathText(path)}\` is ${found}`;
  const help = "a pipeline is plain data: texts, numbers, booleans, lists and objects";
  return { rule: "module-value", message, help, path };
}

/** True for the name of a file that has to be run to be read. */
export function isModuleName(name: string): boolean {
  return MODULE_NAME.test(name);
}

export interface ReadModule {
  readonly source: Source;
  readonly value?: unknown;
  readonly diagnostics: readonly Diagnostic[];
}

/** A module that was run, as something to validate. */
export function readModule(file: string, text: string, found: ModuleValue): ReadModule {
  const source = moduleSource(file, text);
  if (!found.ok) return { source, diagnostics: [problemIn(source, found)] };
  // Validation cuts mistakes out of what it is given, and the same module may be asked for again.
  const value: unknown = structuredClone(found.value);
  return { source, value, diagnostics: printedWarning(source, found.printed) };
}

function problemIn(source: Source, found: ModuleProblem): Diagnostic {
  const { rule, message, help, path, line = 1, column = 1 } = found;
  const finding = { severity: "error", rule, message, help } as const;
  if (path === undefined) return { ...finding, file: source.file, line, column };
  return diagnosticAt(source, source.spanOf(path, "value"), { ...finding, path: pathText(path) });
}

function printedWarning(source: Source, printed: string): readonly Diagnostic[] {
  if (printed.trim() === "") return [];
  const [first = ""] = printed.trim().split("\n");
  const shown = first.length > PRINTED_MAX ? `${first.slice(0, PRINTED_MAX)}...` : first;
  const message = `the module printed something while it was read: ${shown}`;
  const help = "it is read anew by every `run`, `validate` and `graph`; let steps do the work";
  const finding = { severity: "warning", rule: "module-prints", message, help } as const;
  return [diagnosticAt(source, { start: 0, end: 1 }, finding)];
}

function moduleSource(file: string, text: string): Source {
  let root: Literal | undefined | null = null;
  // Only mistakes ask for places.
  const find = (path: Path): Found => {
    if (root === null) root = defaultLiteral(text);
    return root === undefined ? { complete: false } : follow(root, path);
  };
  return {
    file,
    text,
    spanOf: (path, part) => {
      const { literal, key, complete } = find(path);
      const span = (complete && part === "key" ? key : undefined) ?? literal?.span;
      return span === undefined ? { start: 0, end: 1 } : firstLine(text, span);
    },
    offsetInText: (path, offset) => {
      const { literal, complete } = find(path);
      const start = literal?.span.start ?? 0;
      return complete && literal?.text ? start + sourceLength(text, start, offset) : start;
    },
    scalarText: () => undefined,
    placeOf: (offset) => {
      const before = text.slice(0, offset);
      const lines = before.split("\n");
      return { line: lines.length, column: (lines.at(-1) ?? "").length + 1 };
    },
    pathText,
  };
}

/** "steps[2].needs[0]". */
export function pathText(path: Path): string {
  const words = path.map((key) => {
    if (typeof key === "number") return `[${key}]`;
    return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
  });
  return words.join("").replace(/^\./, "") || "the default export";
}

interface Found {
  /** The literal, or the nearest one around it. */
  readonly literal?: Literal;
  readonly key?: Span;
  readonly complete: boolean;
}

function follow(root: Literal, path: Path): Found {
  let literal = root;
  let key: Span | undefined;
  for (const step of path) {
    const entry = typeof step === "string" ? literal.entries?.get(step) : undefined;
    const next = typeof step === "number" ? literal.items?.[step] : entry?.value;
    if (next === undefined) return { literal, complete: false };
    literal = next;
    key = entry?.key;
  }
  return key === undefined ? { literal, complete: true } : { literal, key, complete: true };
}

/** A long literal is pointed at where it begins. */
function firstLine(text: string, { start, end }: Span): Span {
  const newline = text.indexOf("\n", start);
  return newline === -1 || newline >= end ? { start, end } : { start, end: start + 1 };
}

const ESCAPE = /\\(u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|[\s\S])/y;

/** How long the first `units` of a string are in the file, with the quote before them. */
function sourceLength(text: string, start: number, units: number): number {
  let at = start + 1;
  for (let done = 0; done < units && at < text.length; ) {
    ESCAPE.lastIndex = at;
    const spelled = ESCAPE.exec(text)?.[1];
    if (spelled === undefined) done++;
    // A line that goes on in the next one is no character.
    else if (!/^[\r\n\u2028\u2029]/.test(spelled)) {
      done += /^u\{0*[0-9a-fA-F]{5,}/.test(spelled) ? 2 : 1;
    }
    at += spelled === undefined ? 1 : spelled.length + 1;
  }
  return at - start;
}
