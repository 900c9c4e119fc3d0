/**
 * Shell commands with expressions in them. A value is data, never syntax: the script assigns it to
 * a variable, quoted, and each `${{ }}` becomes a reference to that variable, quoted as the text
 * around it requires.
 *
 * Owns: rendering and checking of shell templates.
 * Does not: know the shell's grammar (shell-lexer.ts), or protect commands that parse their
 * arguments: `eval "${{ x }}"` and `sh -c '${{ x }}'` run the value.
 * Invariants:
 * - util/S1 A rendered script has exactly one line more than its template if it has expressions,
 *   and none otherwise, for all values.
 * - util/S2 Values are assigned, not exported, so the system's limit on arguments does not apply to
 *   them.
 */
import { HOLE, lexShell, type ShellPosition } from "./shell-lexer.ts";
import {
  type Evaluate,
  parseTemplate,
  TemplateError,
  type TemplatePart,
  templateParts,
  valueText,
} from "./template.ts";

/** A mistake in a template, at an offset of its text. */
interface TemplateProblem {
  readonly message: string;
  readonly offset: number;
}

/** An expression whose value another command parses again. */
interface ReparsedValue {
  readonly source: string;
  readonly offset: number;
  readonly by: string;
}

/** The value as one word of POSIX shell. */
export function quote(value: string): string {
  return `'${value.replaceAll("'", "'\\''")}'`;
}

/** The script with each value in a variable of its own. Throws TemplateError. */
export function renderShell(text: string, evaluate: Evaluate): string {
  const parts = templateParts(text);
  const positions = shellPositions(parts);
  const assignments: string[] = [];
  let script = "";
  let next = 0;
  for (const part of parts) {
    if (part.kind === "text") {
      script += part.text;
      continue;
    }
    const position = positions[next++] as ShellPosition;
    if (position.how === "comment") continue;
    if (position.how === "refused") throw new TemplateError(position.message, part.offset);
    const name = `__perdure_${assignments.length + 1}`;
    const value = checkedValue(valueText(evaluate(part.source)), position, part);
    assignments.push(`${name}=${quoteInLine(value)}`);
    script += reference(name, position);
  }
  if (next === 0) return script;
  return `${firstLine(assignments)}\n${script}`;
}

/** The mistakes of a shell template that do not depend on values. */
export function checkShellTemplate(text: string): readonly TemplateProblem[] {
  const parsed = parseTemplate(text);
  if (!parsed.ok) return [{ message: parsed.message, offset: parsed.offset }];
  const nul = text.indexOf(HOLE);
  if (nul !== -1) return [{ message: "a shell command cannot hold a NUL byte", offset: nul }];
  const positions = shellPositions(parsed.parts);
  return parsed.parts
    .filter((part) => part.kind === "expression")
    .flatMap(({ offset }, index) => {
      const position = positions[index];
      return position?.how === "refused" ? [{ message: position.message, offset }] : [];
    });
}

/** The expressions in texts that another command parses again, such as `sh -c`. */
export function reparsedValues(text: string): readonly ReparsedValue[] {
  const parsed = parseTemplate(text);
  if (!parsed.ok || text.includes(HOLE)) return [];
  const positions = shellPositions(parsed.parts);
  return parsed.parts
    .filter((part) => part.kind === "expression")
    .flatMap(({ source, offset }, index) => {
      const by = positions[index]?.parsedBy;
      return by === undefined ? [] : [{ source, offset, by }];
    });
}

function shellPositions(parts: readonly TemplatePart[]): readonly ShellPosition[] {
  if (!parts.some((part) => part.kind === "expression")) return [];
  for (const part of parts) {
    const nul = part.kind === "text" ? part.text.indexOf(HOLE) : -1;
    if (nul !== -1) {
      throw new TemplateError("a shell command cannot hold a NUL byte", part.offset + nul);
    }
  }
  return lexShell(parts.map((part) => (part.kind === "text" ? part.text : HOLE)).join(""));
}

function checkedValue(
  value: string,
  position: ShellPosition,
  part: TemplatePart & { source: string },
): string {
  const refuse = (why: string): never => {
    throw new TemplateError(`the value of \`${part.source}\` ${why}`, part.offset);
  };
  if (value.includes("\0")) refuse("holds a NUL byte, which a shell command cannot");
  if (!value.isWellFormed()) refuse("is not valid Unicode");
  // bash would run `$(...)` in an array subscript within the value.
  if (position.how === "number" && !/^-?\d{1,18}$/.test(value)) {
    refuse("stands where the shell computes, so it must be a whole number");
  }
  return value;
}

function reference(name: string, position: ShellPosition): string {
  if (position.how === "quoted") return `"\${${name}}"`;
  if (position.how === "single") return `'"\${${name}}"'`;
  return `\${${name}}`;
}

const NEWLINE = "__perdure_nl";

/** Quotes a value without a line break, so that the line numbers of the script stay correct. */
function quoteInLine(value: string): string {
  return quote(value).replaceAll("\n", `'"$${NEWLINE}"'`);
}

function firstLine(assignments: readonly string[]): string {
  const line = assignments.join("; ");
  if (!line.includes(NEWLINE)) return line;
  // $(...) drops line breaks at the end, hence the dot.
  return `${NEWLINE}=$(printf '\\n.'); ${NEWLINE}=\${${NEWLINE}%.}; ${line}`;
}
