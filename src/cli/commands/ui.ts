/**
 * `perdure ui`: starts the server of the dashboard and waits until somebody ends it.
 *
 * Owns: loading the server, its first line, opening the browser, and the signals that end it.
 * Does not: serve (`web`, which is a program of its own in `dist`, so that no other command loads it).
 */
import { createRequire } from "node:module";
import { openInBrowser } from "../../app/browser.ts";
import { storeAddress } from "../../app/fleet/store-address.ts";
import { Refusal } from "../../app/refusal.ts";
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
  const readFleet = storeAddress() === undefined ? undefined : () => loadFleet().overview();
  const from = process.cwd();
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
