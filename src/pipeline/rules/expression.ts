/**
 * The rules on the references of expressions: variables, earlier steps, outputs, keys of the input.
 *
 * Owns: every rule on expressions and templates, with the position inside the text.
 * Does not: parse them (util/expression.ts, util/template.ts, util/shell.ts).
 */
import {
  EXPRESSION_VARIABLES,
  type Expression,
  parseExpression,
  type Reference,
} from "../../util/expression.ts";
import { isObject } from "../../util/json.ts";
import { checkShellTemplate, reparsedValues } from "../../util/shell.ts";
import { parseTemplate } from "../../util/template.ts";
import type { Path, Report } from "../diagnostic.ts";

/** Variables that exist only in loops and fan-outs. */
const REPEATED: ReadonlySet<string> = new Set(["item", "index", "loop_index"]);
/** Variables that exist only in the conditions of edges. */
const LEAVING: ReadonlySet<string> = new Set(["outcome", "preferred_label"]);
const VARIABLES = EXPRESSION_VARIABLES.filter((name) => !REPEATED.has(name) && !LEAVING.has(name));
const EXPRESSION_HELP = 'expressions are CEL, such as: input.n > 3 && context.risk != "high"';
const UNWRAP_HELP = "write the expression without ${{ and }}";
const SHELL_HELP = 'pass the value through `env` and use "$NAME" in the script';

/** The status that a run has reached, for its `finally` steps. */
export const RUN_STATUS = "run.status";

/** The names that the expressions of one list can refer to. */
export interface KnownNames {
  /** Position of each step by its id. */
  readonly steps: ReadonlyMap<string, number>;
  /** The output names of a step. */
  readonly outputsOf: (step: number) => readonly string[];
  /** False when the outputs of a step have a mistake of their own. */
  readonly outputsKnown: (step: number) => boolean;
  /** Absent when the graph has mistakes, so that they do not cause others. */
  readonly comesBefore?: ((first: number, second: number) => boolean) | undefined;
  /** The only keys that the input can have; absent when it may have others. */
  readonly inputKeys?: readonly string[] | undefined;
  /** True for a fan-out. */
  readonly fansOut: (step: number) => boolean;
  /** Variables of this list: `item`, `index`, and names that the author chose. */
  readonly variables: ReadonlySet<string>;
  /** The list around this one, and its step that contains this one. */
  readonly parent?: { readonly known: KnownNames; readonly step: number } | undefined;
}

/** The position of an expression: in a step, or in a setting of the pipeline. */
export interface ExpressionPosition {
  readonly path: Path;
  readonly step?: number;
  /** Evaluated after a step: it may use that step's own result, or the results of all steps. */
  readonly sees?: "own" | "all";
  /** The journal keeps its value, so it must not contain secrets of the environment. */
  readonly kept?: true;
}

/** The part of a report that these rules use; it may be about another file. */
type MistakeReport = Pick<Report, "add" | "suggest">;

/** Checks the texts of one file. */
export class ExpressionRules {
  readonly #report: MistakeReport;
  readonly #known: KnownNames;

  constructor(report: MistakeReport, known: KnownNames) {
    this.#report = report;
    this.#known = known;
  }

  /** The same rules where more variables exist. */
  withVariables(names: readonly string[]): ExpressionRules {
    const variables = new Set([...this.#known.variables, ...names]);
    return new ExpressionRules(this.#report, { ...this.#known, variables });
  }

  /** The same rules, whose mistakes go to another report. */
  into(report: MistakeReport): ExpressionRules {
    return new ExpressionRules(report, this.#known);
  }

  /** A text with `${{ }}`. */
  text(text: string, position: ExpressionPosition): void {
    const parsed = parseTemplate(text);
    if (!parsed.ok) {
      const { message, offset } = parsed;
      const help = "close it with }}, or write $${{ for a literal ${{";
      this.#report.add({
        rule: "bad-template",
        message,
        help,
        path: position.path,
        offset,
        length: 3,
      });
      return;
    }
    for (const part of parsed.parts) {
      if (part.kind === "expression") this.#expression(part.source, part.offset, position);
    }
  }

  /** All texts in a value, at any depth. */
  texts(value: unknown, position: ExpressionPosition): void {
    if (typeof value === "string") this.text(value, position);
    else if (Array.isArray(value) || isObject(value)) {
      for (const [key, inner] of Object.entries(value)) {
        const name = Array.isArray(value) ? Number(key) : key;
        this.texts(inner, { ...position, path: [...position.path, name] });
      }
    }
  }

  /** A shell command with `${{ }}`. */
  shell(text: string, position: ExpressionPosition): void {
    this.text(text, position);
    if (!parseTemplate(text).ok) return;
    for (const problem of checkShellTemplate(text)) {
      const [message, ...help] = problem.message.split("; ");
      this.#report.add({
        rule: "bad-shell-place",
        message: message ?? "",
        help: help.join("; ") || SHELL_HELP,
        path: position.path,
        offset: problem.offset,
      });
    }
    for (const { source, offset, by } of reparsedValues(text)) {
      const message = `\`${by}\` parses this value again, so it can become a command`;
      const help = reparsedHelp(by, `\${{ ${source.trim()} }}`);
      const place = { path: position.path, offset, length: source.length };
      this.#report.add({ rule: "reparsed-value", severity: "warning", message, help, ...place });
    }
  }

  /** A bare expression. */
  expression(text: string, position: ExpressionPosition): void {
    const { source, offset } = bareCondition(text);
    this.#expression(source, offset, position);
  }

  /** The condition of a step. */
  condition(text: string, position: ExpressionPosition): void {
    this.expression(text, position);
    if (bareCondition(text).source !== "false") return;
    const message = "this step is always skipped, because its condition is false";
    const help = "leave the step out, or give it a condition that can be true";
    const { path } = position;
    this.#report.add({ rule: "unreachable-step", severity: "warning", message, help, path });
  }

  #expression(source: string, base: number, position: ExpressionPosition): void {
    const parsed = parseExpression(source);
    if (!parsed.ok) {
      const offset = base + parsed.offset;
      const general = source.includes("${{") ? UNWRAP_HELP : EXPRESSION_HELP;
      const { message, help = general } = parsed;
      this.#report.add({ rule: "bad-expression", message, help, path: position.path, offset });
      return;
    }
    if (this.#dashedStep(source, base, position)) return;
    this.#unknownVariables(parsed.expression, base, position);
    for (const reference of parsed.expression.references)
      this.#reference(reference, base, position);
  }

  /** `outputs.my-step` is a subtraction in CEL; this rule reports it clearly. */
  #dashedStep(source: string, base: number, position: ExpressionPosition): boolean {
    for (const { text, before, step, name, index } of dashedIn(source)) {
      const found = this.#find(step ?? name, position);
      if (found === undefined) continue;
      if (step !== undefined && !found.known.outputsOf(found.at).includes(name)) continue;
      this.#report.add({
        rule: "dashed-step",
        message: `\`${text}\` reads as a subtraction`,
        help: `write ${before}["${name}"]`,
        path: position.path,
        offset: base + index,
        length: text.length,
      });
      return true;
    }
    return false;
  }

  #unknownVariables({ unknown }: Expression, base: number, { path }: ExpressionPosition): void {
    for (const { name, offset } of unknown) {
      if (this.#known.variables.has(name)) continue;
      const message = `unknown variable \`${name}\``;
      const candidates = [...VARIABLES, ...this.#known.variables];
      const help = this.#report.suggest(name, candidates, "variables");
      const place = { path, offset: base + offset, length: name.length };
      this.#report.add({ rule: "unknown-variable", message, help, ...place });
    }
  }

  #reference(reference: Reference, base: number, position: ExpressionPosition): void {
    const { variable, keys, computed } = reference;
    const [first] = keys;
    if (variable === "outputs" || variable === "results") this.#step(reference, base, position);
    else if (variable === "run" && first !== undefined) this.#runStatus(first, base, position);
    else if (REPEATED.has(variable)) this.#repeated(variable, base + reference.offset, position);
    else if (LEAVING.has(variable)) this.#leaving(variable, base + reference.offset, position);
    else if (variable === "env" && (position.sees !== undefined || position.kept === true)) {
      const message = position.kept
        ? "values that the journal keeps cannot use `env`"
        : "conditions after a step cannot use `env`";
      const help = position.kept
        ? "use `env` in the steps themselves"
        : "put the value into `context`, or use it in the `when` of a step";
      const place = { path: position.path, offset: base + reference.offset, length: 3 };
      this.#report.add({ rule: "no-env-here", message, help, ...place });
    } else if (variable === "env" && first === undefined && computed) {
      const message = "the name after `env` must be written out";
      const help = "write env.NAME, so that a resume on another machine knows what it needs";
      const place = { path: position.path, offset: base + reference.offset, length: 3 };
      this.#report.add({ rule: "computed-env", message, help, ...place });
    } else if (variable === "input" && first !== undefined) {
      const { inputKeys } = this.#known;
      if (inputKeys === undefined || inputKeys.includes(first.name)) return;
      const message = `the input has no key \`${first.name}\``;
      const help = this.#report.suggest(first.name, inputKeys, "`input` declares");
      this.#atKey({ rule: "unknown-input", message, help }, first, base, position);
    }
  }

  /** `run.status` is known when the run has reached its end. */
  #runStatus({ name, offset }: Key, base: number, { path }: ExpressionPosition): void {
    if (`run.${name}` !== RUN_STATUS || this.#known.variables.has(RUN_STATUS)) return;
    const message = `\`${RUN_STATUS}\` exists only in the steps of \`finally\``;
    const help = "elsewhere use results.<step>.status";
    const place = { path, offset: base + offset, length: name.length };
    this.#report.add({ rule: "unknown-variable", message, help, ...place });
  }

  #repeated(variable: string, offset: number, { path }: ExpressionPosition): void {
    if (this.#known.variables.has(variable)) return;
    const shown = variable === "loop_index" ? "loop.index" : variable;
    const where = { item: "a fan-out", index: "a fan-out or a loop" }[variable] ?? "a loop";
    const message = `\`${shown}\` exists only inside ${where}`;
    const help = `variables: ${VARIABLES.join(", ")}`;
    const place = { path, offset, length: shown.length };
    this.#report.add({ rule: "unknown-variable", message, help, ...place });
  }

  #leaving(variable: string, offset: number, { path, sees }: ExpressionPosition): void {
    if (sees === "own") return;
    const message = `\`${variable}\` exists only in the conditions of \`edges\``;
    const help = "elsewhere use results.<step>.outcome";
    const place = { path, offset, length: variable.length };
    this.#report.add({ rule: "unknown-variable", message, help, ...place });
  }

  /** The step of this name in this list or in a list around it. */
  #find(
    name: string,
    position: ExpressionPosition,
  ): { known: KnownNames; at: number; position: ExpressionPosition } | undefined {
    let known = this.#known;
    let seenFrom = position;
    for (;;) {
      const at = known.steps.get(name);
      if (at !== undefined) return { known, at, position: seenFrom };
      if (known.parent === undefined) return undefined;
      seenFrom = { path: position.path, step: known.parent.step };
      known = known.parent.known;
    }
  }

  #step({ variable, keys }: Reference, base: number, here: ExpressionPosition): void {
    const [first, second] = keys;
    if (first === undefined) return;
    const found = this.#find(first.name, here);
    if (found === undefined) {
      const help = this.#report.suggest(first.name, this.#known.steps.keys(), "steps");
      const message = `there is no step \`${first.name}\``;
      this.#atKey({ rule: "unknown-step", message, help }, first, base, here);
      return;
    }
    const { known, at, position } = found;
    this.#order(first, found, base);
    if (variable !== "outputs" || second === undefined || at === position.step) return;
    if (known.fansOut(at)) {
      const message = `step \`${first.name}\` has outputs for each of its items`;
      const help = `they are in results["${first.name}"].items`;
      this.#atKey({ rule: "unknown-output", message, help }, second, base, position);
      return;
    }
    const names = known.outputsOf(at);
    if (names.includes(second.name) || !known.outputsKnown(at)) return;
    const message = `step \`${first.name}\` has no output \`${second.name}\``;
    const help = this.#report.suggest(second.name, names, "its outputs");
    this.#atKey({ rule: "unknown-output", message, help }, second, base, position);
  }

  #order(
    key: Key,
    found: { known: KnownNames; at: number; position: ExpressionPosition },
    base: number,
  ): void {
    const { known, at, position } = found;
    const rule = "not-before";
    if (position.sees === "all" || (position.sees === "own" && position.step === at)) return;
    if (position.step === undefined) {
      const message = "a setting for all steps cannot use the result of one step";
      const help = "move it to the `env` of the steps that come after it";
      this.#atKey({ rule, message, help }, key, base, position);
    } else if (position.step === at) {
      const message = "a step cannot use its own result";
      const help = "its own outputs are in $PERDURE_OUTPUT_<NAME>";
      this.#atKey({ rule, message, help }, key, base, position);
    } else if (known.comesBefore?.(at, position.step) === false) {
      const message = `step \`${key.name}\` may not have finished when this step starts`;
      const help = `add \`${key.name}\` to the \`needs\` of this step`;
      this.#atKey({ rule, message, help }, key, base, position);
    }
  }

  #atKey(
    what: { rule: string; message: string; help: string },
    key: Key,
    base: number,
    { path }: ExpressionPosition,
  ): void {
    this.#report.add({ ...what, path, offset: base + key.offset, length: key.name.length });
  }
}

/** How to pass a value to a command that does not parse it. */
function reparsedHelp(by: string, value: string): string {
  const [name = "", option] = by.split(" ");
  if (name === "ssh") return `send it as input: printf %s ${value} | ssh HOST 'x=$(cat); ... "$x"'`;
  if (option === undefined) return 'pass it through `env`, and let the text name it: "$NAME"';
  if (!name.endsWith("sh")) return `pass it as an argument: ${by} '...' ${value}`;
  return `pass it as an argument: ${by} '... "$1"' ${name} ${value}`;
}

const DASHED_STEP = /\b(outputs|results)\.([A-Za-z_]\w*(?:-\w+)+)/g;
const DASHED_OUTPUT = /\b(outputs(?:\.(\w+)|\["([\w-]+)"\]))\.([A-Za-z_]\w*(?:-\w+)+)/g;

/** Names with a dash after a full stop: of steps, and of the outputs of a step. */
function dashedIn(source: string) {
  const steps = Array.from(source.matchAll(DASHED_STEP), (match) => {
    const [text, before = "", name = ""] = match;
    return { index: match.index, text, before, name, step: undefined };
  });
  const outputs = Array.from(source.matchAll(DASHED_OUTPUT), (match) => {
    const [text, before = "", plain, quoted, name = ""] = match;
    return { index: match.index, text, before, name, step: plain ?? quoted };
  });
  return [...steps, ...outputs];
}

interface Key {
  readonly name: string;
  readonly offset: number;
}

/** A condition without the optional `${{ }}` around it. */
export function bareCondition(text: string): { readonly source: string; readonly offset: number } {
  const parsed = parseTemplate(text.trim());
  const lead = text.length - text.trimStart().length;
  const [only] = parsed.ok && parsed.parts.length === 1 ? parsed.parts : [];
  if (only?.kind === "expression") return { source: only.source, offset: lead + only.offset };
  return { source: text.trim(), offset: lead };
}
