/**
 * A YAML file as a value, with the position of every part.
 *
 * Owns: YAML syntax, duplicate keys, aliases, and the position in the file of a path or of an
 * offset in a text.
 * Does not: know pipelines.
 * Invariants:
 * - pipeline/Y1 Reading takes linear time; finding a position may cost more, because only mistakes
 *   need one.
 */
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  Scalar,
  visit,
  type YAMLMap,
} from "yaml";
import {
  type Diagnostic,
  diagnosticAt,
  type Finding,
  type ParsedFile,
  type Path,
  type Source,
  type Span,
} from "./diagnostic.ts";

/** How many aliases (`*name`) one file may use. */
const YAML_ALIASES_MAX = 1_000;
/** How much larger aliases may make a file: yaml's own measure. */
const YAML_ALIAS_GROWTH_MAX = 100;

const TOO_DEEP = "the file is nested too deeply";
const ALIAS_HELP = "write the values out, or use `defaults` for what all steps share";

const SYNTAX_HELP = "check the indentation, colons and quotes in this line and the one above";
const EXPRESSION_HELP =
  "put a text with ${{ }} in quotes, or write it below `|`: without them, `: `, `#` and `{` are YAML";

/** The document with the data to find positions in it. */
interface Yaml {
  readonly file: string;
  readonly text: string;
  readonly lines: LineCounter;
  readonly document: Document;
}

/** Parses a file; each syntax error becomes a diagnostic. */
export function parseYaml(file: string, text: string): ParsedFile {
  const lines = new LineCounter();
  const options = { lineCounter: lines, prettyErrors: false, uniqueKeys: false } as const;
  let document: Document;
  try {
    document = parseDocument(text, options);
  } catch (error) {
    return unreadable({ file, text, lines, document: parseDocument("") }, error);
  }
  const yaml: Yaml = { file, text, lines, document };
  const source = sourceOf(yaml);
  // Only the first error: later ones are mostly its consequences.
  const [first] = document.errors;
  if (first !== undefined) {
    const text = first.message.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
    const message = /call stack/.test(text) ? TOO_DEEP : text;
    const [start, end] = first.pos;
    const finding = syntax(message, lineAt(yaml, start));
    return { source, diagnostics: [mistakeAt(yaml, { start, end }, finding)] };
  }
  try {
    const diagnostics = inspect(yaml);
    const tooMany = diagnostics.some(({ rule }) => rule === "yaml-aliases");
    if (tooMany) return { source, diagnostics };
    const value: unknown = document.toJS({ maxAliasCount: YAML_ALIAS_GROWTH_MAX });
    return { source, value, diagnostics };
  } catch (error) {
    return unreadable(yaml, error);
  }
}

function lineAt({ text }: Yaml, offset: number): string {
  const end = text.indexOf("\n", offset);
  return text.slice(text.lastIndexOf("\n", offset - 1) + 1, end < 0 ? text.length : end);
}

function unreadable(yaml: Yaml, error: unknown): ParsedFile {
  const start = { start: 0, end: 1 };
  if (error instanceof RangeError) {
    const finding = syntax(TOO_DEEP);
    return { source: sourceOf(yaml), diagnostics: [mistakeAt(yaml, start, finding)] };
  }
  if (!(error instanceof ReferenceError)) throw error;
  const message = "aliases make this file too large";
  const finding: Finding = { severity: "error", rule: "yaml-aliases", message, help: ALIAS_HELP };
  return { source: sourceOf(yaml), diagnostics: [mistakeAt(yaml, start, finding)] };
}

function syntax(message: string, line = ""): Finding {
  const help = line.includes("${{") ? EXPRESSION_HELP : SYNTAX_HELP;
  return { severity: "error", rule: "yaml-syntax", message, help };
}

/** Duplicate keys, impossible keys and aliases, in one pass. */
function inspect(yaml: Yaml): Diagnostic[] {
  const found: Diagnostic[] = [];
  const anchors = new Set<string>();
  let aliases = 0;
  const addAlias = (node: Alias, message: string): void => {
    const finding: Finding = { severity: "error", rule: "yaml-aliases", message, help: ALIAS_HELP };
    found.push(mistakeAt(yaml, spanOfNode(node), finding));
  };
  visit(yaml.document, {
    Node(_key, node) {
      if (isAlias(node)) {
        if (!anchors.has(node.source))
          addAlias(node, `there is no anchor \`&${node.source}\` above`);
        if (++aliases !== YAML_ALIASES_MAX + 1) return;
        addAlias(node, `the file uses more than ${YAML_ALIASES_MAX} aliases`);
        return;
      }
      if (node.anchor !== undefined) anchors.add(node.anchor);
      if (isMap(node)) found.push(...inspectKeys(yaml, node));
    },
  });
  return found;
}

function inspectKeys(yaml: Yaml, map: YAMLMap): Diagnostic[] {
  const seen = new Map<string, Span>();
  return map.items.flatMap(({ key }) => {
    const span = spanOfNode(key as Node | null);
    const name = isScalar(key) ? String(key.value) : undefined;
    if (name === undefined || name === "__proto__") {
      const message = name === undefined ? "a key must be a text" : `\`${name}\` cannot be a key`;
      const help = "choose another name";
      return [mistakeAt(yaml, span, { severity: "error", rule: "bad-key", message, help })];
    }
    const first = seen.get(name);
    if (first === undefined) {
      seen.set(name, span);
      return [];
    }
    const { line } = yaml.lines.linePos(first.start);
    const message = `the key \`${name}\` is given twice`;
    const help = `it first appears in line ${line}; keep one of them`;
    const finding: Finding = { severity: "error", rule: "duplicate-key", message, help };
    return [mistakeAt(yaml, span, finding)];
  });
}

/** A mistake at a piece of the file. */
function mistakeAt(yaml: Yaml, span: Span, finding: Finding): Diagnostic {
  return diagnosticAt(
    { file: yaml.file, positionOf: (offset) => positionOf(yaml, offset) },
    span,
    finding,
  );
}

function positionOf({ lines }: Yaml, offset: number): { line: number; column: number } {
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

function sourceOf(yaml: Yaml): Source {
  return {
    file: yaml.file,
    text: yaml.text,
    spanOf: (path, part) => spanOf(yaml, path, part),
    offsetInText: (path, offset) => offsetInText(yaml, path, offset),
    scalarText: (path) => scalarText(yaml, path),
    positionOf: (offset) => positionOf(yaml, offset),
  };
}

/**
 * The position of the value at a path, or of its key; if missing, of the nearest value around it.
 */
function spanOf(yaml: Yaml, path: Path, part: "key" | "value"): Span {
  const { node, pair, complete } = find(yaml, path);
  if (!complete) return headOf(node);
  if (part === "key" && pair !== undefined) return spanOfNode(pair.key as Node | null);
  return node === null && pair !== undefined
    ? spanOfNode(pair.key as Node | null)
    : spanOfNode(node);
}

/** The author's own spelling of a number or a boolean: `1.10` and not 1.1. */
function scalarText(yaml: Yaml, path: Path): string | undefined {
  const { node, complete } = find(yaml, path);
  return complete && isScalar(node) ? node.source : undefined;
}

/** The position in the file of a position in the text at a path. */
function offsetInText(yaml: Yaml, path: Path, offset: number): number {
  const { node } = find(yaml, path);
  if (!isScalar(node) || typeof node.value !== "string" || !node.range) {
    return spanOf(yaml, path, "value").start;
  }
  return alignedOffset(yaml.text, node as Scalar<string>, offset);
}

interface Found {
  readonly node: Node | null;
  readonly pair?: Pair | undefined;
  readonly complete: boolean;
}

function find(yaml: Yaml, path: Path): Found {
  let node: Node | null = yaml.document.contents;
  let pair: Pair | undefined;
  for (const key of path) {
    if (isAlias(node)) node = node.resolve(yaml.document) ?? null;
    if (isMap(node)) {
      // The last one of duplicates is the one whose value counts.
      const next: Pair | undefined = node.items.findLast(
        (item) => isScalar(item.key) && String(item.key.value) === String(key),
      );
      if (next === undefined) return { node, complete: false };
      pair = next;
      node = next.value as Node | null;
    } else if (isSeq(node) && typeof key === "number" && node.items[key] !== undefined) {
      node = node.items[key] as Node;
      pair = undefined;
    } else return { node, complete: false };
  }
  if (isAlias(node)) node = node.resolve(yaml.document) ?? null;
  return { node, pair, complete: true };
}

/** The first key of a map: the position of the whole map. */
function headOf(node: Node | null): Span {
  if (isMap(node) && node.items[0] !== undefined) {
    return spanOfNode(node.items[0].key as Node | null);
  }
  return spanOfNode(node);
}

function spanOfNode(node: Node | null): Span {
  if (isMap(node) && node.flow !== true) return headOf(node);
  const range = node?.range;
  return range ? { start: range[0], end: range[1] } : { start: 0, end: 1 };
}

const BLANK = /\s/;

/**
 * YAML changes only blanks (indentation, folding) and, in quotes, escapes. So the n-th
 * character of the text that is not a blank is the n-th one in the file.
 */
function alignedOffset(text: string, node: Scalar<string>, offset: number): number {
  const [start, end] = node.range as [number, number, number];
  const block = node.type === Scalar.BLOCK_LITERAL || node.type === Scalar.BLOCK_FOLDED;
  const quoted = node.type === Scalar.QUOTE_DOUBLE || node.type === Scalar.QUOTE_SINGLE;
  let at = block ? text.indexOf("\n", start) + 1 : start + (quoted ? 1 : 0);
  let wanted = 0;
  for (const char of node.value.slice(0, offset).split("")) if (!BLANK.test(char)) wanted++;
  const onBlank = offset >= node.value.length || BLANK.test(node.value[offset] ?? " ");
  let behind = at;
  while (at < end) {
    const { length, letters } = sourceCharacter(text, at, node.type);
    if (letters > 0 && wanted <= 0) break;
    wanted -= letters;
    at += length;
    if (letters > 0) behind = at;
  }
  return onBlank ? behind : at;
}

/** The length of the next character in the file, and how many units of it are not blanks. */
function sourceCharacter(text: string, at: number, type: Scalar["type"]) {
  const char = text[at] as string;
  if (type === Scalar.QUOTE_SINGLE && char === "'") return { length: 2, letters: 1 };
  if (type !== Scalar.QUOTE_DOUBLE || char !== "\\") {
    return { length: 1, letters: BLANK.test(char) ? 0 : 1 };
  }
  const letter = text[at + 1] ?? "";
  const digits = { x: 2, u: 4, U: 8 }[letter];
  if (digits === undefined) return { length: 2, letters: /[\sntrvfNL_P]/.test(letter) ? 0 : 1 };
  const value = Number.parseInt(text.slice(at + 2, at + 2 + digits), 16);
  const decoded = value <= 0x10ffff ? String.fromCodePoint(value) : "";
  return { length: 2 + digits, letters: BLANK.test(decoded) ? 0 : decoded.length };
}
