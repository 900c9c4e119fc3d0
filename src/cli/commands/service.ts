/** `perdure service`: keeps runs going without a terminal. */
import { setTimeout } from "node:timers/promises";
import { actThrough } from "../../app/drive/owner.ts";
import { ServiceLoop } from "../../app/service/service.ts";
import { installUnit, serviceStanding, uninstallUnit } from "../../app/service/unit.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { reportText, serviceJson, serviceLines } from "../../view/service-text.ts";
import { isoText } from "../../view/text.ts";
import { print, printDocument, printError } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

/** How long the service waits between two looks at all projects. */
const PASS_EVERY_MS = 20_000;

interface ServiceOptions extends OutputOptions {
  /** `run` looks once and ends. */
  readonly once?: boolean;
}

/** Carries out one of the words after `perdure service`; then says how the service stands. */
export async function serviceCommand(action: string, options: ServiceOptions): Promise<ExitCode> {
  const say = wantsJson(options) ? printError : print;
  if (action === "install") install(say);
  if (action === "uninstall") uninstall(say);
  if (action === "run") await serve(say, options);
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
  if (!isStarted) say("There is no systemd for this user here. Run it: perdure service run");
  else say("The service runs. Look at it: perdure service status");
  if (endsAtLogout) say("It ends when you log out, unless you type: loginctl enable-linger");
}

function uninstall(say: Say): void {
  const unit = uninstallUnit();
  say(unit === undefined ? "It is not installed." : `Removed ${unit}. Runs continue.`);
}

/** Serves until a signal comes. */
async function serve(say: Say, { once = false }: ServiceOptions): Promise<void> {
  // Runs of the fleet have workers; what is started here is local.
  delete process.env.PERDURE_STORE;
  actThrough("perdure service");
  const ended = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => ended.abort());
  }
  const service = new ServiceLoop(process.cwd(), (report) => {
    const line = `${isoText(Date.now())} ${reportText(report)}`;
    if (report.kind === "problem") printError(line);
    else say(line);
  });
  try {
    do {
      await service.pass(Date.now());
      if (!once) await setTimeout(PASS_EVERY_MS, undefined, { signal: ended.signal });
    } while (!once && !ended.signal.aborted);
  } catch (error) {
    if (!ended.signal.aborted) throw error;
  } finally {
    await service.close();
  }
}
