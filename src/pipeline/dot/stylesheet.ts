/**
 * The model stylesheet of a graph: `* { llm_model: m; } .review { ... } #plan { ... }`.
 *
 * Owns: its grammar, which rules apply to a node, and which of them wins.
 * Does not: know the meaning of properties, or files: positions are offsets in the stylesheet.
 * Invariants:
 * - stylesheet/D2 Linear time; mistakes are collected, up to a limit.
 */

type StyleSelector =
  | { readonly kind: "all" }
  | { readonly kind: "shape" | "class" | "id"; readonly name: string };

interface StyleProperty {
  readonly name: string;
  readonly value: string;
  readonly start: number;
  readonly end: number;
}

interface StyleRule {
  readonly selector: StyleSelector;
  readonly properties: readonly StyleProperty[];
}

interface StyleProblem {
  readonly message: string;
  readonly start: number;
  readonly end: number;
}

export interface Stylesheet {
  readonly rules: readonly StyleRule[];
  readonly problems: readonly StyleProblem[];
  /** The properties of a node: the most specific rule wins, then the last one. */
  readonly styleOf: (node: StyledNode) => ReadonlyMap<string, string>;
}

/** The parts of a node that selectors match. */
interface StyledNode {
  readonly id: string;
  readonly shape: string;
  readonly classes: readonly string[];
}

/** How many mistakes are reported; the parser stops after them. */
const STYLE_PROBLEMS_MAX = 20;
const SPECIFICITY = { all: 0, shape: 1, class: 2, id: 3 } as const;
const SELECTOR = /^(?:\*|([.#]?)([\w-]+))$/;
const PROPERTY = /^([\w.-]+)\s*:\s*(.*)$/s;

/** Parses a stylesheet; invalid parts are skipped and reported. */
export function parseStylesheet(text: string): Stylesheet {
  const rules: StyleRule[] = [];
  const problems: StyleProblem[] = [];
  const source = blankComments(text);
  let at = 0;
  while (problems.length < STYLE_PROBLEMS_MAX && source.slice(at).trim() !== "") {
    const open = indexOutside(source, "{", at);
    const close = open === -1 ? -1 : indexOutside(source, "}", open + 1);
    const head = trimmed(source, at, open === -1 ? source.length : open);
    if (open === -1 || close === -1) {
      const message = open === -1 ? `\`${head.text}\` has no \`{\`` : "this rule is never closed";
      problems.push({ message, start: head.start, end: head.end });
      break;
    }
    const properties = parseProperties(source, open + 1, close, problems);
    for (const part of pieces(source, ",", at, open)) {
      const selector = parseSelector(part.text);
      if (selector !== undefined) rules.push({ selector, properties });
      else problems.push(noSelector(part));
    }
    at = close + 1;
  }
  const index = indexStyles(rules);
  const found = problems.slice(0, STYLE_PROBLEMS_MAX);
  return { rules, problems: found, styleOf: (node) => styleOf(index, node) };
}

interface Piece {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

function noSelector({ text, start, end }: Piece): StyleProblem {
  const what = text === "" ? "there is no selector here" : `\`${text}\` is not a selector`;
  return { message: `${what}; write \`*\`, \`shape\`, \`.class\` or \`#id\``, start, end };
}

function parseSelector(text: string): StyleSelector | undefined {
  const found = SELECTOR.exec(text);
  if (found === null) return undefined;
  const [, sign, name] = found;
  if (name === undefined) return { kind: "all" };
  return { kind: sign === "." ? "class" : sign === "#" ? "id" : "shape", name };
}

function parseProperties(
  source: string,
  from: number,
  to: number,
  problems: StyleProblem[],
): readonly StyleProperty[] {
  return pieces(source, ";", from, to).flatMap(({ text, start, end }) => {
    if (text === "") return [];
    const found = PROPERTY.exec(text);
    const value = unquote(found?.[2]?.trim() ?? "");
    if (found === null || value === "" || /[{}]/.test(value)) {
      problems.push({
        message: `\`${text}\` does not have the form \`property: value\``,
        start,
        end,
      });
      return [];
    }
    return [{ name: found[1] ?? "", value, start, end }];
  });
}

/** The trimmed pieces between separators outside of quotes. */
function pieces(source: string, separator: string, from: number, to: number): readonly Piece[] {
  const found: Piece[] = [];
  let start = from;
  while (start <= to) {
    const next = indexOutside(source, separator, start, to);
    const end = next === -1 ? to : next;
    found.push(trimmed(source, start, end));
    start = end + 1;
  }
  return found;
}

function trimmed(source: string, from: number, to: number): Piece {
  const text = source.slice(from, to);
  const start = from + (text.length - text.trimStart().length);
  return { text: text.trim(), start, end: Math.max(start, from + text.trimEnd().length) };
}

/** The next position of a character outside of quotes; -1 if there is none. */
function indexOutside(source: string, wanted: string, from: number, to = source.length): number {
  let quoted = false;
  for (let at = from; at < to; at++) {
    if (source[at] === '"') quoted = !quoted;
    else if (!quoted && source[at] === wanted) return at;
  }
  return -1;
}

/** Replaces comments by blanks, so that positions stay the same. */
function blankComments(text: string): string {
  const parts: string[] = [];
  let at = 0;
  for (let open = text.indexOf("/*"); open !== -1; open = text.indexOf("/*", at)) {
    const close = text.indexOf("*/", open + 2);
    if (close === -1) break;
    parts.push(text.slice(at, open), " ".repeat(close + 2 - open));
    at = close + 2;
  }
  return parts.join("") + text.slice(at);
}

function unquote(text: string): string {
  const quoted = text.length >= 2 && /^(["']).*\1$/s.test(text);
  return quoted ? text.slice(1, -1) : text;
}

/**
 * The declarations by selector: a node looks up only the selectors that match it (stylesheet/D2).
 */
type StyleIndex = ReadonlyMap<string, ReadonlyMap<string, RankedValue>>;

interface RankedValue {
  readonly value: string;
  /** The specificity of its selector, then the position of its rule. */
  readonly rank: readonly [specificity: number, position: number];
}

/** The rules by selector. */
function indexStyles(rules: readonly StyleRule[]): StyleIndex {
  const index = new Map<string, Map<string, RankedValue>>();
  rules.forEach(({ selector, properties }, position) => {
    const key = selector.kind === "all" ? "all" : `${selector.kind} ${selector.name}`;
    const values = index.get(key) ?? new Map<string, RankedValue>();
    index.set(key, values);
    for (const { name, value } of properties) {
      values.set(name, { value, rank: [SPECIFICITY[selector.kind], position] });
    }
  });
  return index;
}

function styleOf(index: StyleIndex, node: StyledNode): ReadonlyMap<string, string> {
  const classes = node.classes.map((name) => `class ${name}`);
  const best = new Map<string, RankedValue>();
  for (const key of ["all", `shape ${node.shape}`, ...classes, `id ${node.id}`]) {
    for (const [name, found] of index.get(key) ?? []) {
      const known = best.get(name);
      if (known === undefined || outranks(found, known)) best.set(name, found);
    }
  }
  return new Map([...best].map(([name, { value }]) => [name, value]));
}

function outranks({ rank: [a, later] }: RankedValue, { rank: [b, earlier] }: RankedValue): boolean {
  return a > b || (a === b && later > earlier);
}
