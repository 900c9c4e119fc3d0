/** A question to the person at the terminal. */
import { type OutputOptions, screenKind } from "./output-options.ts";

/** True when a person sees what is asked and can answer. */
export function canAsk(options: OutputOptions & { readonly detach?: boolean }): boolean {
  const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  return isTerminal && screenKind(options) === "live" && options.detach !== true;
}

import { terminalText } from "../view/display-text.ts";

/** Their answer in small letters; nothing when they leave. */
export async function ask(question: string): Promise<string> {
  const { createInterface } = await import("node:readline/promises");
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  // Ctrl-C and Ctrl-D answer as well: with nothing.
  const gone = new Promise<string>((answer) => {
    lines.once("SIGINT", () => answer(""));
    lines.once("close", () => answer(""));
  });
  try {
    return (await Promise.race([lines.question(terminalText(question)), gone]))
      .trim()
      .toLowerCase();
  } finally {
    lines.close();
  }
}
