/**
 * `perdure ui` and `perdure mcp`: start the server of the dashboard, or the one for an agent, and wait
 * until somebody ends it.
 *
 * Owns: loading the server; of the dashboard its first line, opening the browser, and the signals that
 * end it.
 * Does not: serve (`web` and `mcp`, which are programs of their own in `dist`, so that no other command
 * loads them).
 */
import { createRequire } from "node:module";
import { openInBrowser } from "../../app/browser.ts";
import { storeAddress } from "../../app/fleet/store-address.ts";
import { Refusal } from "../../app/refusal.ts";
import type { serve as serveAgent } from "../../mcp/main.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import type { serve } from "../../web/main.ts";
import { loadFleet } from "../fleet-program.ts";
import { print, printError } from "../print.ts";

interface UiOptions {
  readonly port?: string;
  readonly listen?: string;
  readonly token?: string;
  readonly readOnly?: boolean;
  readonly open: boolean;
}

/** Serves the dashboard until a signal ends it. */
export async function uiCommand(options: UiOptions): Promise<ExitCode> {
  const ended = signalled();
  const web = createRequire(import.meta.url)("./web.js") as { readonly serve: typeof serve };
  const { port, listen, token } = options;
  const readOnly = options.readOnly === true;
  const from = process.cwd();
  const hasStore = (await storeAddress(from)) !== undefined;
  const readFleet = hasStore ? () => loadFleet().overview() : undefined;
  const served = await web.serve({ from, port, listen, token, readOnly, readFleet });
  if (!served.ok) {
    const { code, message, next } = served.refusal;
    throw new Refusal(code, message, next);
  }
  print(served.url);
  printError(
    "Open this address in a browser of this machine; Ctrl-C ends the server, not the runs.",
  );
  if (options.open && process.stdout.isTTY) openInBrowser(served.url);
  await ended;
  await served.close();
  return EXIT.done;
}

function signalled(): Promise<void> {
  return new Promise((done) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.once(signal, () => done());
    }
  });
}

const FOR_AGENTS =
  "This serves an agent, which starts it by itself: claude mcp add perdure -- perdure mcp";

/** Serves an agent over stdin and stdout until the client closes its end. */
export async function mcpCommand(options: { readonly readOnly?: boolean }): Promise<ExitCode> {
  if (process.stdin.isTTY) printError(FOR_AGENTS);
  const mcp = createRequire(import.meta.url)("./mcp.js") as { readonly serve: typeof serveAgent };
  await mcp.serve({ directory: process.cwd(), readOnly: options.readOnly === true });
  return EXIT.done;
}
