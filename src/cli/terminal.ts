/**
 * The terminal: its width, its colours, the screen that the options choose, and questions to the person
 * there. The gates of a run have their own prompt (screen/question-prompt.ts).
 */

import type { Confirm } from "../app/drive/screen.ts";
import { plainStyle, type Style, type Tone, terminalText, wrapAdvice } from "../view/text.ts";

const CODES: Readonly<Record<Tone, string>> = {
  good: "32",
  bad: "31",
  busy: "36",
  wait: "33",
  dim: "2",
  strong: "1",
};

const ansiStyle: Style = (tone, text) =>
  text === "" ? "" : `\u001b[${CODES[tone]}m${text}\u001b[0m`;

type Environment = Readonly<Record<string, string | undefined>>;

/** The style for a stream. FORCE_COLOR outweighs NO_COLOR, as in Node itself. */
export function terminalStyle(env: Environment, stream: { readonly isTTY?: boolean }): Style {
  return wantsColour(env, stream.isTTY === true) ? ansiStyle : plainStyle;
}

/** The style for stdout. */
export function stdoutStyle(): Style {
  return terminalStyle(process.env, process.stdout);
}

/** The width of the terminal on stdout; undefined where stdout is none. */
export function stdoutWidth(): number | undefined {
  const { isTTY, columns } = process.stdout;
  return isTTY && columns > 0 ? columns : undefined;
}

function wantsColour(env: Environment, isTerminal: boolean): boolean {
  const { FORCE_COLOR: force, NO_COLOR: no } = env;
  if (force !== undefined) return force !== "0" && force !== "false";
  if (no !== undefined && no !== "") return false;
  return isTerminal && env.TERM !== "dumb";
}

/** How a run is shown. */
export type ScreenKind = "live" | "plain" | "json" | "quiet";

export interface OutputOptions {
  readonly json?: boolean;
  readonly plain?: boolean;
  readonly quiet?: boolean;
}

/** The screen for these options: live on a terminal, lines elsewhere. */
export function screenKind(options: OutputOptions): ScreenKind {
  if (wantsJson(options)) return "json";
  if (options.quiet === true) return "quiet";
  const terminal = process.stdout.isTTY === true && process.env.TERM !== "dumb";
  return options.plain !== true && terminal ? "live" : "plain";
}

/** True when the output is for a program. */
export function wantsJson({ json }: OutputOptions): boolean {
  return json === true;
}

type AskOptions = OutputOptions & { readonly detach?: boolean };

/** True when a person sees the question and can answer. */
export function canAsk(options: AskOptions): boolean {
  // Node opens the standard input when it is first named, which takes time.
  const isTerminal = process.stdout.isTTY === true && process.stdin.isTTY === true;
  return isTerminal && screenKind(options) === "live" && options.detach !== true;
}

/** Asks the person to agree; undefined when nobody can answer. */
export function confirmation(options: AskOptions): Confirm | undefined {
  return canAsk(options) ? confirmed : undefined;
}

async function confirmed(message: string, offer?: string): Promise<boolean> {
  if (offer === undefined) return (await ask(`${message} [y/N] `)).startsWith("y");
  const key = offer.slice(0, 1);
  const answer = await ask(`${message}.\n[${key}]${offer.slice(1)}, or [a]bort? `);
  return answer.startsWith(key);
}

/** Asks a question; returns the answer in lower case, which is empty when the person leaves. */
export async function ask(question: string): Promise<string> {
  const { createInterface } = await import("node:readline/promises");
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  // Ctrl-C and Ctrl-D are an empty answer.
  const left = new Promise<string>((answer) => {
    lines.once("SIGINT", () => answer(""));
    lines.once("close", () => answer(""));
  });
  const { columns } = process.stdout;
  const rows = terminalText(question)
    .split("\n")
    .flatMap((line) => wrapAdvice(line, columns));
  try {
    return (await Promise.race([lines.question(rows.join("\n")), left])).trim().toLowerCase();
  } finally {
    lines.close();
  }
}
