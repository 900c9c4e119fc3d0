/**
 * `perdure mcp`: serves an agent over stdin and stdout with the Model Context Protocol.
 *
 * Does not: serve (`mcp`, which is a program of its own in `dist`, so that no other command loads it).
 */
import { createRequire } from "node:module";
import type { serve } from "../../mcp/main.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { printError } from "../print.ts";

const FOR_AGENTS =
  "This serves an agent, which starts it by itself: claude mcp add perdure -- perdure mcp";

/** Serves until the client closes its end. */
export async function mcpCommand(options: { readonly readOnly?: boolean }): Promise<ExitCode> {
  if (process.stdin.isTTY) printError(FOR_AGENTS);
  const mcp = createRequire(import.meta.url)("./mcp.js") as { readonly serve: typeof serve };
  await mcp.serve({ directory: process.cwd(), readOnly: options.readOnly === true });
  return EXIT.done;
}
