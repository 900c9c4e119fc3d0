/** A question to the person at the terminal. */

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
