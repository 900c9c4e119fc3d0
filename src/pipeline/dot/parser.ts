/**
 * Parses the tokens of a DOT file into a tree.
 *
 * Owns: the grammar of the Attractor subset, its leniency (commas and semicolons are optional,
 * attribute lists may be several or empty, a subgraph may be an end of an edge), and the recovery
 * after a mistake, so that one pass finds all mistakes.
 * Does not: know the meaning of attributes, or whether a node exists (model.ts, lint.ts).
 * Invariants:
 * - parser/D2 Linear time, pipeline/D3 never throws (lexer.ts). Every iteration of a loop here
 *   takes a token or ends.
 * - pipeline/D4 The printed text of a tree without errors parses to the same tree.
 */
import type {
  DotAttribute,
  DotEdgeStatement,
  DotGraph,
  DotNodeRef,
  DotStatement,
  DotSubgraph,
  DotText,
} from "./ast.ts";
import { lexDot, type Token } from "./lexer.ts";
import { type DotReport, type DotSpan, spanFrom } from "./source.ts";

/** How deep subgraphs may be nested. */
export const DOT_NESTING_MAX = 64;
/** How many syntax errors are reported for one file. */
const SYNTAX_MISTAKES_MAX = 100;
const TOO_MANY_MISTAKES = "further mistakes are not shown";
/** How much of a name a message repeats. */
const SHOWN_MAX = 40;

/** The graphs of a file, as far as it can be parsed; the report gets all syntax errors. */
export function parseDot(report: DotReport): readonly DotGraph[] {
  const { tokens, cut } = lexDot(report);
  return new DotParser(report, tokens, cut).graphs();
}

type Kind = Token["kind"];

class DotParser {
  readonly #report: DotReport;
  readonly #tokens: readonly Token[];
  /** The text ends inside a quote or bracket, which the lexer has reported. */
  #cut: boolean;
  #at = 0;
  #errors = 0;
  #directed = true;

  constructor(report: DotReport, tokens: readonly Token[], cut: boolean) {
    this.#report = report;
    this.#tokens = tokens;
    this.#cut = cut;
  }

  graphs(): readonly DotGraph[] {
    const graphs: DotGraph[] = [];
    while (!this.#is("end")) {
      if (this.#take(";") !== undefined) continue;
      if (this.#atGraph()) graphs.push(this.#graph());
      else this.#skipToGraph(graphs.length > 0);
    }
    if (graphs.length === 0 && this.#errors === 0 && !this.#cut) {
      const help = "a pipeline is written `digraph name { ... }`";
      this.#error(this.#token.span, "there is no digraph in this file", help);
    }
    const [, second] = graphs;
    if (second !== undefined) {
      const help = "put every pipeline into a file of its own";
      this.#dialect(second.head, "only the first graph of a file is a pipeline", help);
    }
    return graphs;
  }

  #atGraph(): boolean {
    return this.#is("word") && /^(strict|digraph|graph)$/i.test(this.#token.text);
  }

  #skipToGraph(after: boolean): void {
    const { span, text, kind } = this.#token;
    const what = shown(text, kind);
    if (after) this.#error(span, `${what} follows the end of the graph`, "look for an extra `}`");
    else this.#error(span, `expected a graph, but found ${what}`, "begin with `digraph name {`");
    do this.#next();
    while (!this.#is("end") && !(this.#token.startsLine && this.#atGraph()));
  }

  #graph(): DotGraph {
    const first = this.#next();
    const strict = first.text.toLowerCase() === "strict";
    if (strict) {
      const help = "leave `strict` out";
      this.#dialect(first.span, "`strict` has no meaning here: edges are never merged", help);
    }
    const keyword = strict ? this.#token : first;
    if (strict && this.#atGraph()) this.#next();
    this.#directed = keyword.text.toLowerCase() !== "graph";
    if (!this.#directed) {
      this.#error(keyword.span, "a pipeline is a directed graph", "write `digraph` and `->`");
    }
    const name = this.#name();
    const head = spanFrom(first.span, name?.span ?? keyword.span);
    const open = this.#token;
    if (this.#take("{") === undefined) {
      this.#error(open.span, `expected a \`{\` before ${shown(open.text, open.kind)}`);
    }
    const statements = this.#statements(open, 1);
    const directed = this.#directed;
    const span = spanFrom(first.span, this.#before.span);
    return { strict, directed, ...(name === undefined ? {} : { name }), statements, head, span };
  }

  /** Statements up to and including the `}` that belongs to `open`. */
  #statements(open: Token, depth: number): readonly DotStatement[] {
    const statements: DotStatement[] = [];
    while (!this.#is("end")) {
      if (this.#take("}") !== undefined) return statements;
      if (this.#take(";") !== undefined) continue;
      const statement = this.#statement(depth);
      if (statement === undefined) this.#recover();
      else statements.push(statement);
    }
    this.#neverClosed(open, "}");
    return statements;
  }

  /** Undefined after a mistake that makes the rest of the statement unreadable. */
  #statement(depth: number): DotStatement | undefined {
    const { kind, text, span } = this.#token;
    if (kind === "word" && this.#peek(1) === "[") {
      if (text === "graph" || text === "node" || text === "edge") {
        this.#next();
        const attributes = this.#attributeLists();
        return { kind: "defaults", of: text, attributes, span: this.#from(span) };
      }
    }
    if (this.#named() && this.#peek(this.#nameLength()) === "=") {
      const attribute = this.#attribute();
      return attribute && { kind: "assignment", attribute, span: this.#from(span) };
    }
    const first = this.#end(depth);
    if (first === undefined) return undefined;
    if (this.#is("->") || this.#is("--")) return this.#edge(first, depth);
    if (first.kind === "subgraph") return first;
    const attributes = this.#attributeLists();
    return { kind: "node", node: first, attributes, span: this.#from(span) };
  }

  #edge(first: DotNodeRef | DotSubgraph, depth: number): DotEdgeStatement | undefined {
    const ends = [first];
    while (this.#is("->") || this.#is("--")) {
      const edge = this.#next();
      if (edge.kind === "--" && this.#directed) {
        this.#error(edge.span, "`--` has no direction", "write `->`");
      }
      const end = this.#end(depth);
      if (end === undefined) return undefined;
      ends.push(end);
    }
    const attributes = this.#attributeLists();
    return { kind: "edge", ends, attributes, span: this.#from(first.span) };
  }

  /** One end of an edge, or the node of a node statement. */
  #end(depth: number): DotNodeRef | DotSubgraph | undefined {
    if (this.#is("{") || (this.#is("word") && this.#token.text === "subgraph")) {
      return this.#subgraph(depth);
    }
    const name = this.#name();
    if (name === undefined) {
      this.#unexpected();
      return undefined;
    }
    const ports: DotText[] = [];
    while (this.#take(":") !== undefined) {
      const port = this.#name();
      if (port === undefined) {
        this.#unexpected("a port should follow `:`");
        return undefined;
      }
      ports.push(port);
    }
    const [port] = ports;
    if (port !== undefined) {
      this.#dialect(
        port.span,
        "the language does not have ports; this one is ignored",
        "leave it out",
      );
    }
    return { kind: "ref", name, ports, span: this.#from(name.span) };
  }

  #subgraph(depth: number): DotSubgraph | undefined {
    const first = this.#token;
    const name = this.#take("{") === undefined ? this.#subgraphHead() : undefined;
    if (this.#before.kind !== "{") {
      this.#unexpected("`subgraph` needs a `{`");
      return undefined;
    }
    if (depth >= DOT_NESTING_MAX) {
      const message = `subgraphs are nested more than ${DOT_NESTING_MAX} deep`;
      this.#error(first.span, message);
      this.#skipBraces();
      return undefined;
    }
    const statements = this.#statements(this.#before, depth + 1);
    const span = this.#from(first.span);
    return { kind: "subgraph", ...(name === undefined ? {} : { name }), statements, span };
  }

  #subgraphHead(): DotText | undefined {
    this.#next();
    const name = this.#name();
    this.#take("{");
    return name;
  }

  /** Skips to the brace that closes the one before, and takes it. */
  #skipBraces(): void {
    for (let open = 1; open > 0 && !this.#is("end"); this.#next()) {
      if (this.#is("{")) open++;
      else if (this.#is("}")) open--;
    }
  }

  #attributeLists(): readonly DotAttribute[] {
    const attributes: DotAttribute[] = [];
    for (let open = this.#take("["); open !== undefined; open = this.#take("[")) {
      this.#attributeList(open, attributes);
    }
    return attributes;
  }

  #attributeList(open: Token, attributes: DotAttribute[]): void {
    while (this.#take("]") === undefined) {
      if (this.#take(",") !== undefined || this.#take(";") !== undefined) continue;
      if (this.#leftList()) {
        this.#neverClosed(open, "]");
        return;
      }
      if (this.#named()) {
        const attribute = this.#attribute();
        if (attribute !== undefined) attributes.push(attribute);
      } else {
        this.#unexpected("an attribute is written `key=value`");
      }
    }
  }

  /** True where an attribute list cannot continue: its `]` is missing. */
  #leftList(): boolean {
    if (this.#is("end") || this.#is("{") || this.#is("}")) return true;
    if (!this.#named() || !this.#token.startsLine) return false;
    const behind = this.#peek(this.#nameLength());
    return behind === "->" || behind === "--" || behind === "[";
  }

  /** `key = value`; the caller has seen a name. */
  #attribute(): DotAttribute | undefined {
    const key = this.#name();
    if (key === undefined) return undefined;
    if (this.#take("=") === undefined) {
      const help = "write `key=value`; a text with blanks or quotes in it needs quotes around it";
      this.#error(key.span, `the attribute ${shown(key.text, "word")} has no value`, help);
      if (this.#is("string")) this.#next();
      return undefined;
    }
    const value = this.#value();
    if (value === undefined) {
      if (this.#is("end") && this.#cut) return undefined;
      const message = `the attribute ${shown(key.text, "word")} has no value after its \`=\``;
      this.#error(key.span, message, 'write `key="value"`');
      return undefined;
    }
    return { key, value, span: spanFrom(key.span, value.span) };
  }

  #value(): DotText | undefined {
    const html = this.#take("html");
    if (html !== undefined) return { form: "html", text: html.text, span: html.span };
    return this.#name();
  }

  #named(): boolean {
    return this.#is("word") || this.#is("string");
  }

  /** A word, or a string, or strings that are joined: `"a" + "b"`. */
  #name(): DotText | undefined {
    const word = this.#take("word");
    if (word !== undefined) return { form: "word", text: word.text, span: word.span };
    const first = this.#take("string");
    if (first === undefined) return undefined;
    const texts = [first.text];
    while (this.#is("+") && this.#peek(1) === "string") {
      this.#next();
      texts.push(this.#next().text);
    }
    return { form: "string", text: texts.join(""), span: this.#from(first.span) };
  }

  /** The number of tokens of the name that starts here. */
  #nameLength(): number {
    let length = 1;
    while (
      this.#is("string") &&
      this.#peek(length) === "+" &&
      this.#peek(length + 1) === "string"
    ) {
      length += 2;
    }
    return length;
  }

  /** After a mistake: skips to the probable start of the next statement. */
  #recover(): void {
    while (!this.#is("end") && !this.#is("}") && !this.#is(";")) {
      if (this.#token.startsLine) return;
      if (this.#is("[")) this.#attributeLists();
      else this.#next();
    }
  }

  #unexpected(message?: string): void {
    const { span, text, kind } = this.#token;
    if (kind === "end" && this.#cut) return;
    const what = shown(text, kind);
    this.#error(span, `${what} is not allowed here`, message ?? helpFor(text));
    // Reported tokens are skipped, except those that end a list or a graph.
    if (kind !== "}" && kind !== ";") this.#next();
  }

  #neverClosed(open: Token, sign: string): void {
    if (this.#cut) return;
    this.#error(open.span, `this \`${open.text}\` is never closed`, `close it with \`${sign}\``);
    if (this.#is("end")) this.#cut = true;
  }

  #error(span: DotSpan, message: string, help?: string): void {
    const count = ++this.#errors;
    if (count > SYNTAX_MISTAKES_MAX) return;
    if (count < SYNTAX_MISTAKES_MAX) this.#report.error(span, "dot-syntax", message, help);
    else this.#report.error(span, "dot-syntax", TOO_MANY_MISTAKES, "fix those above first");
  }

  #dialect(span: DotSpan, message: string, help: string): void {
    this.#report.warn(span, "dot-dialect", message, help);
  }

  get #token(): Token {
    return this.#tokens[this.#at] as Token;
  }

  get #before(): Token {
    return this.#tokens[Math.max(0, this.#at - 1)] as Token;
  }

  #is(kind: Kind): boolean {
    return this.#token.kind === kind;
  }

  #peek(ahead: number): Kind {
    return this.#tokens[this.#at + ahead]?.kind ?? "end";
  }

  #next(): Token {
    const token = this.#token;
    if (token.kind !== "end") this.#at++;
    return token;
  }

  #take(kind: Kind): Token | undefined {
    return this.#is(kind) ? this.#next() : undefined;
  }

  #from(start: DotSpan): DotSpan {
    return spanFrom(start, this.#before.span);
  }
}

function shown(text: string, kind: Kind): string {
  if (kind === "end") return "the end of the file";
  if (kind === "string") return "this text";
  return `\`${text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}...` : text}\``;
}

function helpFor(text: string): string {
  if (text === "'") return 'a text needs double quotes: `"..."`';
  if (text === "=") return "the name of the attribute is missing";
  if (text === "->" || text === "--") return "an edge is written `from -> to`";
  return "a statement is a node `a [...]`, an edge `a -> b`, or an attribute `key=value`";
}
