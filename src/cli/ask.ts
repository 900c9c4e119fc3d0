/** Asks the person at the terminal; the gates of a run have their own prompt (screen/). */
import type { Confirm } from "../app/drive/screen.ts";
import { terminalText, wrapAdvice } from "../view/text.ts";
import { type OutputOptions, screenKind } from "./screen/output-options.ts";

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

/** The answer in lower case; empty when the person leaves. */
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
