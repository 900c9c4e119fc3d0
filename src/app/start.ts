/**
 * Starts a run: checks the needs of its plan, and stores it in the journal. From then on it can be
 * resumed.
 *
 * Owns: the checks before a new run, and its first event.
 * Does not: drive it (drive.ts).
 */

import { randomUUID } from "node:crypto";
import { dirname } from "node:path";
import type { EventOf } from "../core/event.ts";
import { initialSummary } from "../core/summary.ts";
import type { StateDir } from "../engine/state-dir.ts";
import type { NewRun } from "../journal/run-log.ts";
import { envNamesOf } from "../plan/build.ts";
import { graphsOf } from "../plan/graph-index.ts";
import { freeze, type Plan } from "../plan/plan.ts";
import { parseTraceparent, telemetrySettings } from "../telemetry/settings.ts";
import { defined } from "../util/defined.ts";
import type { Json } from "../util/json.ts";
import { secretInputs } from "../util/secrets.ts";
import { isSecret, rememberedAtStart } from "./drive/run-environment.ts";
import { hideSecrets } from "./output/secret-mask.ts";
import { addEnvironmentFiles, projectDirectory } from "./pipeline/configuration-file.ts";
import { fitInput, refuseUnknownKeys } from "./pipeline/input.ts";
import { checkPrices, pricesAtStart } from "./prices.ts";
import { livenessOf, type Project, shortIdOf } from "./project/project.ts";
import { after, Refusal } from "./refusal.ts";

/** The origin of a run. */
export type RunOrigin = Pick<
  EventOf<"run.created">,
  "file" | "fileSha256" | "input" | "args" | "cwd" | "logs"
>;

/** Creates a run of a plan in the journal; returns its id. */
export async function createRun(
  { journal, dir }: Project,
  plan: Plan,
  { runId = randomUUID(), ...origin }: RunOrigin & { readonly runId?: string },
): Promise<string> {
  await journal.log.create({ ...(await newRunOf(dir, plan, origin)), runId });
  return runId;
}

/** A new run of a plan, for a journal that does not have it yet. */
export async function newRunOf(dir: StateDir, plan: Plan, origin: RunOrigin): Promise<NewRun> {
  const { text: planText, fingerprint } = freeze(plan);
  return {
    runId: randomUUID(),
    planText,
    created: {
      type: "run.created",
      pipeline: plan.name,
      ...origin,
      project: dirname(dir.root),
      fingerprint,
      envNames: envNamesOf(plan),
      ...rememberedAtStart(plan),
      ...(await pricesAtStart(plan)),
      ...traceAround(),
    },
    time: Date.now(),
    summary: initialSummary(plan),
  };
}

/** The trace in which this process was started, if the spans of its runs are exported. */
function traceAround(): Pick<EventOf<"run.created">, "traceparent"> {
  const { TRACEPARENT: traceparent = "" } = process.env;
  if (telemetrySettings(process.env)?.traces === undefined) return {};
  return parseTraceparent(traceparent) === undefined ? {} : { traceparent };
}

interface StartOptions {
  /** The pipeline file as the person named it. */
  readonly file: string;
  /** The command that starts the run. */
  readonly typed: readonly string[];
  readonly cwd: string;
  /** False skips the preflight. */
  readonly preflight?: boolean | undefined;
  /** Another machine runs it and has the secrets, so they are not needed here. */
  readonly elsewhere?: boolean | undefined;
}

/** A run that may be created. */
interface PreparedRun {
  /** The input, with the defaults of its schema. */
  readonly input: Json;
  /** The warnings of the preflight. */
  readonly warnings: readonly string[];
  /** Lines for a person about prices that the limit needs. */
  readonly priceLines: readonly string[];
}

/** Checks everything that a new run of a plan needs. Creates nothing. */
export async function prepareRun(
  plan: Plan,
  given: Json,
  { file, typed, cwd, preflight, elsewhere = false }: StartOptions,
): Promise<PreparedRun> {
  const { inputSchema: schema } = plan;
  addEnvironmentFiles(plan, projectDirectory(cwd), typed);
  hideSecrets([...secretInputs(given, plan.secrets).values()].flat());
  refuseUnknownKeys(given, schema, file);
  const input = await fitInput(given, schema, file);
  const isNeeded = (name: string): boolean =>
    !elsewhere || !isSecret(plan, name, process.env[name]);
  checkEnvironment(envNamesOf(plan).filter(isNeeded), typed);
  const priceLines = await checkPrices(plan, plan.budget ?? {}, typed);
  const warnings = await readiness(plan, defined({ preflight }), typed, cwd);
  return { input, warnings, priceLines };
}

/** Refuses to start without the variables that the plan's expressions name. */
export function checkEnvironment(names: readonly string[], typed: readonly string[]): void {
  const missing = names.filter((name) => process.env[name] === undefined);
  if (missing.length === 0) return;
  const message = `the pipeline relies on ${missing.join(", ")} in the environment`;
  const values = missing.map((name) => `${name}=...`).join(" ");
  throw new Refusal("missing-variables", message, after(`export ${values}`, ...typed));
}

/**
 * Runs the preflight, unless the person declined it; returns warnings. A plan without agents costs
 * nothing to fail, so it has no preflight.
 */
export async function readiness(
  plan: Plan,
  {
    preflight,
    isDone,
  }: { readonly preflight?: boolean; readonly isDone?: (step: string) => boolean },
  typed: readonly string[],
  cwd = process.cwd(),
): Promise<readonly string[]> {
  const hasSandboxes = graphsOf(plan).some(({ steps }) => steps.some(({ runsIn }) => runsIn));
  const isSimple = Object.keys(plan.agents).length === 0 && !hasSandboxes;
  if (preflight === false || isSimple) return [];
  const { requireReady } = await import("./preflight.ts");
  return requireReady(plan, { cwd, env: process.env, ...defined({ isDone }) }, typed);
}

/** An unfinished run of the same file. */
export interface EarlierRun {
  readonly runId: string;
  readonly shortId: string;
  readonly stepsCompleted: number;
  readonly stepsTotal: number;
  /** True when another process drives it. */
  readonly owned: boolean;
}

/** The newest unfinished run of a file, if there is one. */
export async function unfinishedRunOf(
  { journal }: Project,
  file: string,
): Promise<EarlierRun | undefined> {
  const status = ["queued", "running", "waiting", "interrupted"] as const;
  const unfinished = await journal.log.list({ file, status, limit: 1 });
  const [last] = unfinished.filter(({ cleanedAt }) => cleanedAt === undefined);
  if (last === undefined) return undefined;
  const { runId, stepsCompleted, stepsTotal } = last;
  const shortId = await shortIdOf(journal, runId);
  return { runId, shortId, stepsCompleted, stepsTotal, owned: livenessOf(last.lease) === "owned" };
}
