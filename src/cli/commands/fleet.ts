/**
 * The commands of a fleet: its store, its workers, and what it runs.
 *
 * Owns: the values of their options.
 * Does not: store or drive a run.
 */
import { resolve } from "node:path";
import { loadFleet } from "../../app/fleet/fleet-access.ts";
import { parseInput } from "../../app/pipeline/input.ts";
import { userStatePath } from "../../app/project/user-state.ts";
import { advice, Refusal } from "../../app/refusal.ts";
import { filesOption } from "../../app/rewind/rewind-files.ts";
import { prepareRun } from "../../app/start.ts";
import type * as fleet from "../../fleet/main.ts";
import { parseDuration } from "../../util/duration.ts";
import { LABEL, LABEL_FORM } from "../../util/label.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import {
  fleetJson,
  fleetLines,
  scheduleLines,
  scheduleListJson,
  storeJson,
  storeLines,
} from "../../view/fleet-overview.ts";
import { commandText } from "../../view/text.ts";
import { print, printDocument, printError } from "../print.ts";
import { stdoutStyle, stdoutWidth } from "../terminal.ts";
import { pipelineOf, type RunOptions } from "./run.ts";

const CONCURRENCY_DEFAULT = 4;
const CONCURRENCY_MAX = 1_000;
const PRIORITY_MAX = 1_000_000;

interface SubmitOptions extends RunOptions {
  readonly requires?: string;
  readonly priority?: string;
  readonly schedule?: boolean;
  readonly json?: boolean;
}

/** Gives a new run of a pipeline to the fleet. */
export async function submitCommand(file: string, options: SubmitOptions): Promise<ExitCode> {
  const { plan, sha256, file: named, path, typed } = await pipelineOf(file, options);
  const given = parseInput(options, plan.inputSchema);
  const cwd = process.cwd();
  const start = { file: named, typed, preflight: false, elsewhere: true, cwd };
  const { input, priceLines } = await prepareRun(plan, given, start);
  const requires = [...(plan.requires ?? []), ...labelsIn("--requires", options.requires)];
  const priority = numberIn("--priority", options.priority ?? "0", -PRIORITY_MAX, PRIORITY_MAX);
  const { concurrency: limit } = plan;
  const submission = {
    plan,
    origin: { file: path, fileSha256: sha256, input, args: process.argv.slice(2), cwd },
    queue: {
      ...{ requires: [...new Set(requires)], priority },
      ...(limit === undefined ? {} : { group: { name: limit.group, max: limit.max } }),
    },
  };
  if (options.schedule === true) return schedulePipeline(named, submission, options);
  const runId = resultOf(await loadFleet<typeof fleet>().submit(cwd, submission));
  if (options.json === true) {
    printDocument("submitted", { run_id: runId, requires: [...new Set(requires)], priority });
    return EXIT.done;
  }
  print(`Run ${runId} of ${plan.name} is queued`);
  for (const line of priceLines) print(line);
  print("See the fleet: perdure workers");
  return EXIT.done;
}

/** Gives a pipeline to the fleet, which starts it on its schedule. */
async function schedulePipeline(
  file: string,
  submission: Parameters<typeof fleet.schedule>[1],
  { json }: SubmitOptions,
): Promise<ExitCode> {
  const { schedule: cron } = submission.plan;
  if (cron === undefined) {
    const message = `${file} has no schedule`;
    throw new Refusal("bad-option", message, advice('add `on: {schedule: "0 3 * * *"}` to it'));
  }
  const name = resultOf(await loadFleet<typeof fleet>().schedule(process.cwd(), submission, cron));
  if (json === true) printDocument("scheduled", { name, schedule: cron });
  else print(`The fleet starts ${name} at ${cron} (UTC). See it: perdure schedules`);
  return EXIT.done;
}

interface SchedulesOptions {
  readonly remove?: string;
  readonly json?: boolean;
}

/** Shows the pipelines that the fleet starts on a schedule, or removes one of them. */
export async function schedulesCommand({ remove, json }: SchedulesOptions): Promise<ExitCode> {
  const schedules = resultOf(await loadFleet<typeof fleet>().schedules(remove));
  if (json === true) printDocument("schedules", scheduleListJson(schedules));
  else for (const line of scheduleLines(schedules, stdoutStyle(), stdoutWidth())) print(line);
  return EXIT.done;
}

interface StoreOptions {
  readonly lease?: string;
  readonly json?: boolean;
}

/** Sets up the store of the fleet. */
export async function storeCommand(_action: string, options: StoreOptions): Promise<ExitCode> {
  const { lease } = options;
  const leaseMs = lease === undefined ? undefined : parseDuration(lease);
  if (lease !== undefined && leaseMs === undefined) {
    throw new Refusal("bad-option", `--lease takes a duration such as 30s, not "${lease}"`);
  }
  const setUp = resultOf(await loadFleet<typeof fleet>().init(leaseMs));
  if (options.json === true) printDocument("store", storeJson(setUp));
  else for (const line of storeLines(setUp)) print(line);
  return EXIT.done;
}

interface MoveOptions {
  readonly files?: string;
  readonly json?: boolean;
}

/** Moves a run of this machine to the fleet. */
export async function pushCommand(run: string, options: MoveOptions): Promise<ExitCode> {
  const moved = resultOf(await loadFleet<typeof fleet>().push(process.cwd(), run));
  const { shortId, pipeline, place, isThere } = moved;
  if (printedMove(moved, options)) return EXIT.done;
  if (isThere) print(`Run ${shortId} of ${pipeline} is already in the fleet at ${place}`);
  else print(`Run ${shortId} of ${pipeline} is now in the fleet at ${place}`);
  print(`Follow it: ${commandText("attach", shortId)}`);
  return EXIT.done;
}

/** Moves a run of the fleet to this machine. */
export async function pullCommand(run: string, options: MoveOptions): Promise<ExitCode> {
  const files = filesOption(options.files);
  const moved = resultOf(await loadFleet<typeof fleet>().pull(process.cwd(), run, files));
  const { shortId, pipeline, place, isThere } = moved;
  if (printedMove(moved, options)) return EXIT.done;
  print(`Run ${shortId} of ${pipeline} is ${isThere ? "already " : ""}here, in ${place}`);
  print(`Continue it here: ${commandText("resume", shortId)}`);
  return EXIT.done;
}

function printedMove(
  { runId, place, isThere }: { runId: string; place: string; isThere: boolean },
  { json }: MoveOptions,
): boolean {
  if (json !== true) return false;
  printDocument("moved", { run_id: runId, place, was_there: isThere });
  return true;
}

/** Shows the workers of the fleet, its queues and its dead letters. */
export async function workersCommand(options: { readonly json?: boolean }): Promise<ExitCode> {
  const overview = resultOf(await loadFleet<typeof fleet>().overview());
  if (options.json === true) printDocument("workers", fleetJson(overview));
  else for (const line of fleetLines(overview, stdoutStyle(), stdoutWidth())) print(line);
  return EXIT.done;
}

interface WorkerOptions {
  readonly concurrency?: string;
  readonly labels?: string;
  readonly directory?: string;
  readonly supervised?: boolean;
}

/** Drives runs of the fleet until a signal ends the worker. */
export async function workerCommand(options: WorkerOptions): Promise<ExitCode> {
  if (process.platform !== "linux") {
    const message = "a worker needs Linux, because the leash of its steps reads /proc/uptime";
    throw new Refusal("bad-option", message);
  }
  const wanted = options.concurrency ?? String(CONCURRENCY_DEFAULT);
  const concurrency = numberIn("--concurrency", wanted, 1, CONCURRENCY_MAX);
  const labels = [...new Set(labelsIn("--labels", options.labels))];
  const directory = resolve(options.directory ?? userStatePath("worker"));
  if (options.supervised === true) {
    resultOf(await loadFleet<typeof fleet>().work({ directory, concurrency, labels }));
    return EXIT.done;
  }
  const argv = [process.execPath, ...process.argv.slice(1), "--supervised"];
  const status = await loadFleet<typeof fleet>().supervise({ argv, say: printError });
  return status === 0 ? EXIT.done : EXIT.error;
}

function labelsIn(option: string, text = ""): readonly string[] {
  const labels = text.split(",").filter((label) => label !== "");
  const bad = labels.find((label) => !LABEL.test(label));
  if (bad === undefined) return labels;
  const message = `${option}: "${bad}" is not a label: use ${LABEL_FORM} characters`;
  throw new Refusal("bad-option", message);
}

function numberIn(option: string, text: string, min: number, max: number): number {
  const number = Number(text);
  if (Number.isSafeInteger(number) && number >= min && number <= max) return number;
  const message = `${option} takes a whole number from ${min} to ${max}, not "${text}"`;
  throw new Refusal("bad-option", message);
}

/** The value of a result; throws its refusal. */
function resultOf<T>(result: fleet.FleetResult<T>): T {
  if (result.ok) return result.value;
  const { code, message, next } = result.refusal;
  throw new Refusal(code, message, next);
}
