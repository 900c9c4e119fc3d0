/** Finds the functions of a formatted TypeScript source by their indentation. */

/** A function: its first line, counted from 1, and its number of lines without the last brace. */
export interface SourceFunction {
  readonly line: number;
  readonly lines: number;
}

const HEAD = /^( *)(export )?(private |static |async )*(function\b|#?\w+\(.*\).* \{$)/;
/** A statement, or a call that takes a function: its last line is not a lone brace. */
const NO_FUNCTION = /^\s*(if|for|while|switch|return|it|describe)\b|=> \{$/;

/** Lists the functions and methods whose body has lines of its own. */
export function functionsIn(lines: readonly string[]): readonly SourceFunction[] {
  const found: SourceFunction[] = [];
  lines.forEach((line, index) => {
    const head = HEAD.exec(line);
    if (head === null || NO_FUNCTION.test(line)) return;
    const end = lines.findIndex((later, at) => at > index && later === `${head[1] ?? ""}}`);
    if (end > index) found.push({ line: index + 1, lines: end - index });
  });
  return found;
}
