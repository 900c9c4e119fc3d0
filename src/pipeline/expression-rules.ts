/**
 * What the expressions of a file may name: variables, steps that come before, outputs, input keys.
 *
 * Owns: every rule about expressions and templates, with the place inside the text.
 * Does not: parse them (util/expression.ts, util/template.ts, util/shell.ts).
 */
import {
  EXPRESSION_VARIABLES,
  type Expression,
  parseExpression,
  type Reference,
} from "../util/expression.ts";
import { checkShellTemplate } from "../util/shell.ts";
import { parseTemplate } from "../util/template.ts";
import type { MistakeReport } from "./report.ts";
import type { Path } from "./yaml-source.ts";

const VARIABLES = EXPRESSION_VARIABLES.filter((name) => name !== "item" && name !== "index");
const EXPRESSION_HELP = 'expressions are CEL, such as: input.n > 3 && context.risk != "high"';
const UNWRAP_HELP = "write the expression without ${{ and }}";
const SHELL_HELP = 'pass the value through `env` and use "$NAME" in the script';

/** What the expressions of one file can refer to. */
export interface Referable {
  /** Position of each step by its id. */
  readonly steps: ReadonlyMap<string, number>;
  /** The output names of a step. */
  readonly outputsOf: (step: number) => readonly string[];
  /** False when the outputs of a step are themselves a mistake. */
  readonly outputsKnown: (step: number) => boolean;
  /** Absent when the graph has mistakes, which must not cause others. */
  readonly comesBefore?: ((first: number, second: number) => boolean) | undefined;
  /** The only keys that the input can have; absent when it may have others. */
  readonly inputKeys?: readonly string[] | undefined;
}

/** Where an expression stands: in a step, or in what counts for every step. */
export interface Site {
  readonly path: Path;
  readonly step?: number;
}

/** Checks the texts of one file. */
export class ExpressionRules {
  readonly #report: MistakeReport;
  readonly #known: Referable;

  constructor(report: MistakeReport, known: Referable) {
    this.#report = report;
    this.#known = known;
  }

  /** A text with `${{ }}`. */
  text(text: string, site: Site): void {
    const parsed = parseTemplate(text);
    if (!parsed.ok) {
      const { message, offset } = parsed;
      const help = "close it with }}, or write $${{ for a literal ${{";
      this.#report.add({ rule: "bad-template", message, help, path: site.path, offset, length: 3 });
      return;
    }
    for (const part of parsed.parts) {
      if (part.kind === "expression") this.#expression(part.source, part.offset, site);
    }
  }

  /** A shell command with `${{ }}`. */
  shell(text: string, site: Site): void {
    this.text(text, site);
    if (!parseTemplate(text).ok) return;
    for (const problem of checkShellTemplate(text)) {
      const [message, ...help] = problem.message.split("; ");
      this.#report.add({
        rule: "bad-shell-place",
        message: message ?? "",
        help: help.join("; ") || SHELL_HELP,
        path: site.path,
        offset: problem.offset,
      });
    }
  }

  /** A condition: a bare expression. */
  condition(text: string, site: Site): void {
    const { source, offset } = bareCondition(text);
    this.#expression(source, offset, site);
    if (source !== "false") return;
    const message = "this step is always skipped, because its condition is false";
    const help = "leave the step out, or give it a condition that can be true";
    const { path } = site;
    this.#report.add({ rule: "unreachable-step", severity: "warning", message, help, path });
  }

  #expression(source: string, base: number, site: Site): void {
    const parsed = parseExpression(source);
    if (!parsed.ok) {
      const offset = base + parsed.offset;
      const help = source.includes("${{") ? UNWRAP_HELP : EXPRESSION_HELP;
      const { message } = parsed;
      this.#report.add({ rule: "bad-expression", message, help, path: site.path, offset });
      return;
    }
    if (this.#dashedStep(source, base, site)) return;
    this.#unknownVariables(parsed.expression, base, site);
    for (const reference of parsed.expression.references) this.#reference(reference, base, site);
  }

  /** `outputs.my-step` is a subtraction to CEL; without this, two riddles would be reported. */
  #dashedStep(source: string, base: number, site: Site): boolean {
    for (const match of source.matchAll(/\b(outputs|results)\.([A-Za-z_]\w*(?:-\w+)+)/g)) {
      const [text, variable, id = ""] = match;
      if (!this.#known.steps.has(id)) continue;
      this.#report.add({
        rule: "dashed-step",
        message: `\`${text}\` reads as a subtraction`,
        help: `write ${variable}["${id}"]`,
        path: site.path,
        offset: base + match.index,
        length: text.length,
      });
      return true;
    }
    return false;
  }

  #unknownVariables({ unknown }: Expression, base: number, { path }: Site): void {
    for (const { name, offset } of unknown) {
      const message = `unknown variable \`${name}\``;
      const help = this.#report.suggest(name, VARIABLES, "variables");
      const place = { path, offset: base + offset, length: name.length };
      this.#report.add({ rule: "unknown-variable", message, help, ...place });
    }
  }

  #reference(reference: Reference, base: number, site: Site): void {
    const { variable, keys, computed } = reference;
    const [first] = keys;
    if (variable === "outputs" || variable === "results") this.#step(reference, base, site);
    else if (variable === "item" || variable === "index") {
      const message = `\`${variable}\` exists only inside a fan-out`;
      const place = { path: site.path, offset: base + reference.offset, length: variable.length };
      const help = `variables: ${VARIABLES.join(", ")}`;
      this.#report.add({ rule: "unknown-variable", message, help, ...place });
    } else if (variable === "env" && first === undefined && computed) {
      const message = "the name after `env` must be written out";
      const help = "write env.NAME, so that a resume on another machine knows what it needs";
      const place = { path: site.path, offset: base + reference.offset, length: 3 };
      this.#report.add({ rule: "computed-env", message, help, ...place });
    } else if (variable === "input" && first !== undefined) {
      const { inputKeys } = this.#known;
      if (inputKeys === undefined || inputKeys.includes(first.name)) return;
      const message = `the input has no key \`${first.name}\``;
      const help = this.#report.suggest(first.name, inputKeys, "`input` declares");
      this.#atKey({ rule: "unknown-input", message, help }, first, base, site);
    }
  }

  #step({ variable, keys }: Reference, base: number, site: Site): void {
    const [first, second] = keys;
    if (first === undefined) return;
    const at = this.#known.steps.get(first.name);
    if (at === undefined) {
      const help = this.#report.suggest(first.name, this.#known.steps.keys(), "steps");
      const message = `there is no step \`${first.name}\``;
      this.#atKey({ rule: "unknown-step", message, help }, first, base, site);
      return;
    }
    this.#order(first, at, base, site);
    if (variable !== "outputs" || second === undefined || at === site.step) return;
    const names = this.#known.outputsOf(at);
    if (names.includes(second.name) || !this.#known.outputsKnown(at)) return;
    const message = `step \`${first.name}\` has no output \`${second.name}\``;
    const help = this.#report.suggest(second.name, names, "its outputs");
    this.#atKey({ rule: "unknown-output", message, help }, second, base, site);
  }

  #order(key: Key, at: number, base: number, site: Site): void {
    const rule = "not-before";
    if (site.step === undefined) {
      const message = "what counts for every step cannot use the result of one";
      const help = "move it to the `env` of the steps that come after it";
      this.#atKey({ rule, message, help }, key, base, site);
    } else if (site.step === at) {
      const message = "a step cannot use its own result";
      const help = "its own outputs are in $PERDURE_OUTPUT_<NAME>";
      this.#atKey({ rule, message, help }, key, base, site);
    } else if (this.#known.comesBefore?.(at, site.step) === false) {
      const message = `step \`${key.name}\` is not always over before this one starts`;
      const help = `add \`${key.name}\` to the \`needs\` of this step`;
      this.#atKey({ rule, message, help }, key, base, site);
    }
  }

  #atKey(
    what: { rule: string; message: string; help: string },
    key: Key,
    base: number,
    { path }: Site,
  ): void {
    this.#report.add({ ...what, path, offset: base + key.offset, length: key.name.length });
  }
}

interface Key {
  readonly name: string;
  readonly offset: number;
}

/** A condition without the `${{ }}` that some write around the whole of it. */
export function bareCondition(text: string): { readonly source: string; readonly offset: number } {
  const parsed = parseTemplate(text.trim());
  const lead = text.length - text.trimStart().length;
  const [only] = parsed.ok && parsed.parts.length === 1 ? parsed.parts : [];
  if (only?.kind === "expression") return { source: only.source, offset: lead + only.offset };
  return { source: text.trim(), offset: lead };
}
