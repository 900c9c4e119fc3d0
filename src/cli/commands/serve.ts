/**
 * `perdure ui`, `perdure mcp` and `perdure service`: start the server of the dashboard, the one for an
 * agent, or the service that continues runs, and wait until somebody ends it.
 *
 * Owns: loading a server, opening the browser, and the signals that end the dashboard and the service.
 * Does not: serve (`web` and `mcp`, which are programs of their own in `dist`, so that no other command
 * loads them), or look after runs (app/service).
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { setTimeout } from "node:timers/promises";
import { actThrough } from "../../app/drive/owner.ts";
import { loadFleet, storeAddress } from "../../app/fleet/fleet-access.ts";
import { userStatePath, writeUserState } from "../../app/project/user-state.ts";
import { Refusal } from "../../app/refusal.ts";
import { ServiceLoop } from "../../app/service/service.ts";
import { installUnit, serviceStanding, uninstallUnit } from "../../app/service/unit.ts";
import type * as fleet from "../../fleet/main.ts";
import type { serve as serveAgent } from "../../mcp/main.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { reportText, serviceJson, serviceLines } from "../../view/service-text.ts";
import { isoText } from "../../view/text.ts";
import type { serve } from "../../web/main.ts";
import { print, printDocument, printError } from "../print.ts";
import { type OutputOptions, wantsJson } from "../terminal.ts";

interface UiOptions {
  readonly port?: string;
  readonly listen?: string;
  readonly token?: string;
  readonly readOnly?: boolean;
  readonly open: boolean;
}

/** Serves the dashboard until a signal ends it. */
export async function uiCommand(options: UiOptions): Promise<ExitCode> {
  const ended = once(endedBySignal(), "abort");
  const web = createRequire(import.meta.url)("./web.js") as { readonly serve: typeof serve };
  const { port, listen, token } = options;
  const readOnly = options.readOnly === true;
  const from = process.cwd();
  const hasStore = (await storeAddress(from)) !== undefined;
  const readFleet = hasStore ? () => loadFleet<typeof fleet>().overview() : undefined;
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

/** The page that redirects the browser to the address. */
const BROWSER_FILE = "open.html";

/**
 * Opens an address that contains a secret. Everybody on this machine can read the arguments of a
 * program, so the browser gets the name of a page that redirects to the address.
 */
function openInBrowser(url: string): void {
  const { DISPLAY, WAYLAND_DISPLAY } = process.env;
  const isMac = process.platform === "darwin";
  if (!isMac && DISPLAY === undefined && WAYLAND_DISPLAY === undefined) return;
  const refresh = `<meta http-equiv="refresh" content="0; url=${url.replaceAll("&", "&amp;")}">`;
  try {
    writeUserState([BROWSER_FILE], `<!doctype html><title>perdure</title>${refresh}\n`);
  } catch {
    // The address is on the terminal.
    return;
  }
  const opener = isMac ? "open" : "xdg-open";
  const child = spawn(opener, [userStatePath(BROWSER_FILE)], { detached: true, stdio: "ignore" });
  child.on("error", () => undefined);
  child.unref();
}

/** Aborted when a signal asks this process to end. */
function endedBySignal(): AbortSignal {
  const ended = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => ended.abort());
  }
  return ended.signal;
}

const FOR_AGENTS =
  "An agent starts this server by itself. Set it up: claude mcp add perdure -- perdure mcp";

/** Serves an agent over stdin and stdout until the client closes its end. */
export async function mcpCommand(options: { readonly readOnly?: boolean }): Promise<ExitCode> {
  if (process.stdin.isTTY) printError(FOR_AGENTS);
  const mcp = createRequire(import.meta.url)("./mcp.js") as { readonly serve: typeof serveAgent };
  await mcp.serve({ directory: process.cwd(), readOnly: options.readOnly === true });
  return EXIT.done;
}

/** How long the service waits between two checks of all projects. */
const PASS_EVERY_MS = 20_000;

interface ServiceOptions extends OutputOptions {
  /** `run` checks all projects once and exits. */
  readonly once?: boolean;
}

/** Carries out an action of `perdure service`, and reports the state of the service. */
export async function serviceCommand(action: string, options: ServiceOptions): Promise<ExitCode> {
  const say = wantsJson(options) ? printError : print;
  if (action === "install") install(say);
  if (action === "uninstall") uninstall(say);
  if (action === "run") await serveRuns(say, options);
  if (wantsJson(options)) {
    const standing = await serviceStanding(process.cwd(), Date.now());
    printDocument("service", serviceJson(standing));
  } else if (action === "status") {
    for (const line of serviceLines(await serviceStanding(process.cwd(), Date.now()))) print(line);
  }
  return EXIT.done;
}

type Say = (line: string) => void;

function install(say: Say): void {
  const { unit, isStarted, endsAtLogout } = installUnit();
  say(`Wrote ${unit}`);
  if (!isStarted)
    say("This user has no systemd here. Run the service yourself: perdure service run");
  else say("The service runs. Look at it: perdure service status");
  if (endsAtLogout)
    say("The service ends when you log out, unless you run: loginctl enable-linger");
}

function uninstall(say: Say): void {
  const unit = uninstallUnit();
  say(unit === undefined ? "The service is not installed." : `Removed ${unit}. Runs continue.`);
}

/** Serves until a signal comes. */
async function serveRuns(say: Say, options: ServiceOptions): Promise<void> {
  // Runs of the fleet have workers; what is started here is local.
  delete process.env.PERDURE_STORE;
  actThrough("perdure service");
  const signal = endedBySignal();
  const service = new ServiceLoop(process.cwd(), (report) => {
    const line = `${isoText(Date.now())} ${reportText(report)}`;
    if (report.kind === "problem") printError(line);
    else say(line);
  });
  try {
    do {
      await service.pass(Date.now());
      if (options.once !== true) await setTimeout(PASS_EVERY_MS, undefined, { signal });
    } while (options.once !== true && !signal.aborted);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    await service.close();
  }
}
