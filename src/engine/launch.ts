/**
 * Turns an attempt into a process: renders commands, prompts and the environment.
 *
 * Owns: the environment of a step.
 * Does not: start the process (room `runner`), or write rendered text to the journal.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { judgeOf } from "../core/attempt/check.ts";
import { effectKey } from "../core/attempt/effect.ts";
import { withPreamble } from "../core/conversation/briefing.ts";
import { withReport } from "../core/conversation/failure-report.ts";
import type { AttemptRef, Output } from "../core/event.ts";
import type { Environment } from "../core/fact.ts";
import { currentVisit, type Run, stepOf, type Visit } from "../core/run.ts";
import { attemptText, stepPath } from "../core/step-path.ts";
import type { WorkspaceOf } from "../core/summary.ts";
import { environmentAround, environmentAt, repetitionOf, valuesAt } from "../core/values.ts";
import { SHARED, workspaceOf as workspaceKey } from "../core/workspace-files.ts";
import { ancestorsOf, indexOf } from "../plan/graph-index.ts";
import { type AgentDefinition, checksOf, type Plan, type Step } from "../plan/plan.ts";
import { agentHome } from "../runner/agents/agent-home.ts";
import { type Sandbox, sandboxProblem } from "../runner/process/sandbox.ts";
import { isolationProblem } from "../runner/process/start.ts";
import type { CheckScript, Launch, Limits } from "../runner/process/step-process.ts";
import { ATTEMPT_VARIABLE, RUN_VARIABLE } from "../runner/process/sweep.ts";
import { defined } from "../util/defined.ts";
import { ExpressionError, evaluateSource } from "../util/expression.ts";
import { renderShell } from "../util/shell.ts";
import { type Evaluate, renderText, TemplateError, valueText } from "../util/template.ts";
import { targetOutside } from "../workspace/artifact.ts";
import { stageVariables } from "./attractor-stage.ts";
import { STATUS_FILE } from "./evidence/status-file.ts";
import { isInherited, MountError, sandboxFor } from "./sandbox.ts";
import { attemptDirOf, ownPathOf, PROMPT_FILE, type RunDir } from "./state-dir.ts";

/** How many earlier steps are searched for outputs for the environment; expressions see all of them. */
const ANCESTORS_MAX = 1_000;
/** How many outputs of earlier steps the environment has at most. */
const ENV_OUTPUTS_MAX = 256;
/** The size limit of a step's output. */
const OUTPUT_BYTES_MAX = 1024 ** 3;
/** The time from SIGTERM to SIGKILL. */
const GRACE_MS = 10_000;

export interface LaunchInput {
  readonly plan: Plan;
  readonly run: Run;
  readonly dir: RunDir;
  readonly env: Environment;
  /** Variables with which the processes of an attempt join its trace. */
  readonly traceVariables?: (at: AttemptRef) => Readonly<Record<string, string>>;
  /** The file with the deadline of all steps of a fleet run. */
  readonly leash?: string | undefined;
}

/** The file to which an attempt writes its key-values. */
export const CONTEXT_FILE = "context";

/** Renders an attempt and creates its folder; throws ExpressionError or TemplateError. */
export function prepareLaunch(site: LaunchInput, visit: Visit, at: AttemptRef): Launch {
  const { work } = stepOf(visit);
  const dir = attemptDirOf(site.dir, at);
  const evaluate = evaluatorAt(site, visit);
  const cwd = workDirOf(site, visit);
  const env = environmentOf(site, visit, at);
  const checks = prepareFolder(site, visit, at);
  if (work.kind === "agent") {
    const agent = site.plan.agents[work.agent];
    const prompt = join(dir, PROMPT_FILE);
    const task = renderText(work.prompt, evaluate);
    const whole = withPreamble(visit.briefing?.preamble, withReport(visit.report, task));
    writeFileSync(prompt, whole, { mode: 0o600 });
    const script = renderShell(agent?.command ?? "", evaluate);
    return {
      dir,
      cwd,
      env: { ...env, PERDURE_PROMPT_FILE: prompt },
      script,
      ...checks,
      ...boundsOf(site, visit, at),
      stdin: prompt,
      separateStderr: true,
    };
  }
  const script = work.kind === "shell" ? renderShell(work.run, evaluate) : "";
  // The stdout of a DOT tool becomes a value of the context; its stderr does not.
  const separateStderr = site.plan.keys === "attractor" || stepOf(visit).capture !== undefined;
  return { dir, cwd, env, script, ...checks, ...boundsOf(site, visit, at), separateStderr };
}

/** The launch of the checks of an attempt, without its work. */
export function prepareChecks(site: LaunchInput, visit: Visit, at: AttemptRef): Launch {
  return {
    dir: attemptDirOf(site.dir, at),
    cwd: workDirOf(site, visit),
    env: environmentOf(site, visit, at),
    script: "",
    ...prepareFolder(site, visit, at),
    ...boundsOf(site, visit, at),
    separateStderr: false,
  };
}

/** Makes the folders of an attempt; returns those of its check commands. */
export function prepareFolder(
  site: LaunchInput,
  visit: Visit,
  at: AttemptRef,
): Pick<Launch, "checks"> {
  mkdirSync(attemptDirOf(site.dir, at), { recursive: true, mode: 0o700 });
  const outside = directoryOutside(site, visit) ?? outputOutside(site, visit);
  if (outside !== undefined) throw new LaunchError(outside);
  makeOutputFolders(Object.values(outputPaths(site, visit)));
  const checks = checksOf(stepOf(visit)).flatMap((check): readonly CheckScript[] => {
    if (check.kind !== "command") return [];
    const text = renderShell(check.run, evaluatorAt(site, visit));
    const script = `${withoutAgentEnv(site.plan, visit)}${text}`;
    return [check.onFail === "warn" ? { script, onlyWarns: true } : { script }];
  });
  return checks.length === 0 ? {} : { checks };
}

/** The environment of a check, without the agent's own keys. */
export function withoutAgentEnv(plan: Plan, visit: Visit): string {
  const { work, env } = stepOf(visit);
  const own = work.kind === "agent" ? Object.keys(plan.agents[work.agent]?.env ?? {}) : [];
  const names = own.filter((name) => !Object.hasOwn({ ...plan.env, ...env }, name));
  return names.length === 0 ? "" : `unset ${names.join(" ")}\n`;
}

/**
 * The leash of a step, if its run has one, and the sandbox or namespace of a step that asks for one;
 * refuses where the system has none.
 */
export function boundsOf(
  site: LaunchInput,
  visit: Visit,
  at: AttemptRef,
): Pick<Launch, "isolate" | "leash" | "sandbox"> {
  const held = defined({ leash: site.leash });
  const { isolate, runsIn } = stepOf(visit);
  if (runsIn !== undefined) return { sandbox: sandboxAt(site, visit, at, runsIn), ...held };
  if (isolate !== true) return held;
  const problem = isolationProblem();
  if (problem === undefined) return { isolate: true, ...held };
  const remedy = "allow user namespaces on this system, or take `isolate` out of the pipeline";
  throw new LaunchError(`it cannot be isolated: ${problem}; ${remedy}`);
}

function sandboxAt(
  site: LaunchInput,
  visit: Visit,
  at: AttemptRef,
  settings: NonNullable<Step["runsIn"]>,
): Sandbox {
  const problem = sandboxProblem(settings);
  if (problem !== undefined) throw new LaunchError(`it cannot run in its sandbox: ${problem}`);
  const agent = agentOf(site.plan, visit);
  try {
    return sandboxFor({
      settings,
      root: rootOf(site, visit),
      project: site.run.created?.cwd ?? ".",
      runDir: site.dir.root,
      attemptDir: attemptDirOf(site.dir, at),
      endsAtRoot: isFenced(site, visit),
      env: environmentOf(site, visit, at),
      explicit: { ...site.plan.env, ...agent?.env, ...stepOf(visit).env },
      agent: agent && agentHome(agent.adapter),
    });
  } catch (error) {
    if (error instanceof MountError) throw new LaunchError(error.message);
    throw error;
  }
}

/** The agent of a visit's step, or of its judge. */
function agentOf(plan: Plan, visit: Visit): AgentDefinition | undefined {
  const { work } = stepOf(visit);
  return plan.agents[judgeOf(visit)?.agent ?? (work.kind === "agent" ? work.agent : "")];
}

/** A mistake of a step that prevents its start. */
export class LaunchError extends Error {
  override readonly name = "LaunchError";
}

/** True for a mistake of the author that is only noticed when a step starts. */
export function isStepMistake(error: unknown): error is Error {
  return [ExpressionError, TemplateError, LaunchError].some((kind) => error instanceof kind);
}

function makeOutputFolders(paths: readonly string[]): void {
  for (const path of paths) {
    try {
      mkdirSync(dirname(path), { recursive: true });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new LaunchError(`the folder for its output ${path} cannot be made: ${why}`);
    }
  }
}

/** The limits of the process of a visit's step, or of its judge. */
export function limitsOf(visit: Visit): Limits {
  const step = stepOf(visit);
  return {
    ...{ outputBytesMax: OUTPUT_BYTES_MAX, graceMs: step.graceMs ?? GRACE_MS },
    ...defined({ timeoutMs: step.timeoutMs, idleTimeoutMs: step.idleTimeoutMs }),
    ...(step.leavesRunning === true && visit.submitted === undefined
      ? { leavesRunning: true }
      : {}),
  };
}

/** An id that is unique to the attempt, in this run and all others. */
export function attemptIdOf(runId: string, at: AttemptRef): string {
  return `${runId}/${attemptText(at)}`;
}

/** Evaluates expressions at a visit. */
export function evaluatorAt(site: LaunchInput, visit: Visit): Evaluate {
  const { plan, run, env } = site;
  return evaluatorIn(site, visit, environmentAt(plan, run, visit, env));
}

function evaluatorIn({ run }: LaunchInput, visit: Visit, env: Environment): Evaluate {
  const values = valuesAt(run, visit, env);
  return (source) => evaluateSource(source, values);
}

/** The directory in which a step works. */
export function workDirOf(site: LaunchInput, visit: Visit): string {
  const { cwd } = stepOf(visit);
  const root = rootOf(site, visit);
  return cwd === undefined ? root : resolve(root, renderText(cwd, evaluatorAt(site, visit)));
}

/** The workspaces of the visits of a run, for its summary. */
export function workspaceOf(dir: RunDir): WorkspaceOf {
  return (run, visit) => rootOf({ run, dir }, visit);
}

/** The root of the workspace of a step. */
export function rootOf({ run, dir }: Pick<LaunchInput, "run" | "dir">, visit: Visit): string {
  const workspace = workspaceKey(visit);
  if (workspace !== SHARED) return ownPathOf(dir, workspace);
  return run.workspace?.path ?? run.created?.cwd ?? ".";
}

/** Keeps git from using the project's repository for a workspace below it. */
function gitFence(site: LaunchInput, visit: Visit): Record<string, string> {
  return isFenced(site, visit) ? { GIT_CEILING_DIRECTORIES: site.dir.root } : {};
}

/** True for a workspace that is a directory of the run and not a part of the project's repository. */
function isFenced({ run }: LaunchInput, visit: Visit): boolean {
  const kind = run.workspace?.kind ?? "here";
  return workspaceKey(visit) !== SHARED || kind === "directory" || kind === "copy";
}

/** The paths of a step's outputs: name -> absolute path. */
export function outputPaths(site: LaunchInput, visit: Visit): Readonly<Record<string, string>> {
  const { outputs } = stepOf(visit);
  const evaluate = evaluatorAt(site, visit);
  const cwd = workDirOf(site, visit);
  return mapValues(outputs, (path) => resolve(cwd, renderText(path, evaluate)));
}

/** The fault of a `cwd` outside of the workspace; DOT pipelines may work in other directories. */
function directoryOutside(site: LaunchInput, visit: Visit): string | undefined {
  if (site.plan.keys === "attractor") return undefined;
  const cwd = workDirOf(site, visit);
  const within = relative(rootOf(site, visit), cwd);
  const isOutside = within === ".." || within.startsWith("../") || isAbsolute(within);
  return isOutside ? `its directory is outside of the workspace: ${cwd}` : undefined;
}

/** The fault of an output path that is outside of the step's workspace, possibly through a link. */
export function outputOutside(site: LaunchInput, visit: Visit): string | undefined {
  const root = rootOf(site, visit);
  for (const [name, path] of Object.entries(outputPaths(site, visit))) {
    const target = targetOutside([root], path);
    if (target !== undefined) return `its output "${name}" is outside of its workspace: ${target}`;
  }
  return undefined;
}

/** The environment of an attempt's process. */
export function environmentOf(
  site: LaunchInput,
  visit: Visit,
  at: AttemptRef,
): Record<string, string> {
  const { run } = site;
  const dir = attemptDirOf(site.dir, at);
  const { runsIn } = stepOf(visit);
  const agent = agentOf(site.plan, visit);
  const home = agent && agentHome(agent.adapter);
  const inherited = Object.entries(site.env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined &&
      !entry[0].startsWith("PERDURE_") &&
      (runsIn === undefined || isInherited(entry[0], runsIn, home)),
  );
  return {
    ...Object.fromEntries(inherited),
    ...site.traceVariables?.(at),
    ...variablesOf(site, visit),
    ...gitFence(site, visit),
    ...outputsBefore(visit),
    ...repetitionVariables(visit),
    ...prefixed("PERDURE_OUTPUT_", outputPaths(site, visit)),
    ...stageVariables(site, visit, join(dir, STATUS_FILE)),
    PERDURE: "1",
    PERDURE_STEP: stepPath(at),
    PERDURE_VISIT: String(at.visit),
    PERDURE_ATTEMPT: String(at.attempt),
    PERDURE_CONTEXT: join(dir, CONTEXT_FILE),
    PERDURE_STATUS_FILE: join(dir, STATUS_FILE),
    PERDURE_ATTEMPT_DIR: dir,
    PERDURE_IDEMPOTENCY_KEY: effectKey(run, visit),
    [RUN_VARIABLE]: run.id,
    [ATTEMPT_VARIABLE]: attemptIdOf(run.id, at),
  };
}

/** The variables that the author gives to a step. */
export function variablesOf(site: LaunchInput, visit: Visit): Record<string, string> {
  const { plan, run } = site;
  const step = stepOf(visit);
  const agent = agentOf(plan, visit)?.env;
  const outer = evaluatorIn(site, visit, site.env);
  const inner = evaluatorIn(site, visit, environmentAround(plan, run, visit, site.env));
  return {
    ...mapValues(plan.env, (value) => renderText(value, outer)),
    ...mapValues({ ...agent, ...step.env }, (value) => renderText(value, inner)),
  };
}

/** The item or iteration of a step in a fan-out or a loop. */
function repetitionVariables(visit: Visit): Record<string, string> {
  const { item, index } = repetitionOf(visit.record.scope);
  return {
    ...(item === undefined ? {} : { PERDURE_ITEM: valueText(item) }),
    ...(index === undefined ? {} : { PERDURE_INDEX: String(index) }),
  };
}

/** The outputs of the steps before this one and its parents: PERDURE_OUTPUT_<STEP>_<NAME>. */
function outputsBefore(visit: Visit): Record<string, string> {
  const found: Record<string, string> = {};
  let left = ENV_OUTPUTS_MAX;
  for (const [name, { path }] of earlierOutputs(visit)) {
    if (left-- <= 0) break;
    found[name] ??= path;
  }
  return found;
}

/** The outputs of the steps before a visit, by the names of their variables. */
export function* earlierOutputs(visit: Visit): Generator<readonly [string, Output]> {
  const { scope, position } = visit.record;
  if (indexOf(scope.graph).hasOutputs) {
    for (const ancestor of ancestorsOf(scope.graph, position, ANCESTORS_MAX)) {
      const state = currentVisit(scope.steps[ancestor])?.state;
      if (state?.status !== "completed") continue;
      for (const [name, output] of Object.entries(state.outputs)) {
        yield [variable(`PERDURE_OUTPUT_${scope.graph.steps[ancestor]?.id}_`, name), output];
      }
    }
  }
  if (scope.parent !== undefined) yield* earlierOutputs(scope.parent);
}

function prefixed(
  prefix: string,
  values: Readonly<Record<string, string>>,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [variable(prefix, name), value]),
  );
}

function variable(prefix: string, name: string): string {
  return `${prefix}${name}`.toUpperCase().replaceAll("-", "_");
}

function mapValues(
  values: Readonly<Record<string, string>>,
  change: (value: string) => string,
): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value)]));
}
