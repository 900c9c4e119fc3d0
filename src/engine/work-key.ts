/**
 * The key of an attempt's work: a hash of everything that its result depends on, as far as Perdure
 * knows it. Two attempts with the same key do the same work on the same files.
 *
 * Owns: what counts (docs/adr/0050-reuse.md), and the version of that choice.
 * Does not: read files of the workspace; its snapshot stands for them.
 * Invariants:
 * - work-key/K1 No secret is part of a key: its value is masked before anything is hashed, so that
 *   nobody can confirm a guess, and a new token does not run a step again.
 * - work-key/K2 Whatever is not known to be the same makes another key. The id of the run and the
 *   directories of its workspace are the only values of a run that do not count.
 */
import { isAbsolute, join, relative, resolve } from "node:path";
import { stepOf, type Visit } from "../core/run.ts";
import { repetitionOf } from "../core/values.ts";
import { workDefinition } from "../plan/fingerprint.ts";
import { ancestorsOf, graphsIn } from "../plan/graph-index.ts";
import { checksOf, type Step } from "../plan/plan.ts";
import { canonicalJson, type Json, sha256 } from "../util/json.ts";
import { redactJson, redactorOf } from "../util/secrets.ts";
import { renderShell } from "../util/shell.ts";
import { renderText } from "../util/template.ts";
import { secretsOf } from "./evidence/evidence.ts";
import {
  earlierOutputs,
  evaluatorAt,
  type LaunchInput,
  outputPaths,
  rootOf,
  variablesOf,
  workDirOf,
} from "./launch.ts";

/** The version of the choice; a new one makes all earlier results unknown. */
const KEY_VERSION = 1;

/** The key of the work of a visit; throws ExpressionError or TemplateError. */
export function workKey(site: LaunchInput, visit: Visit, filesHash: string): string {
  const { plan } = site;
  const step = stepOf(visit);
  const { work } = step;
  const evaluate = evaluatorAt(site, visit);
  const agent = work.kind === "agent" ? plan.agents[work.agent] : undefined;
  const checks = checksOf(step).flatMap((check) =>
    check.kind === "command" ? [renderShell(check.run, evaluate)] : [],
  );
  const { item, loop_index: iteration } = repetitionOf(visit.record.scope);
  const whole = {
    definition: workDefinition(plan, step),
    agent,
    asked: {
      run: work.kind === "shell" ? renderShell(work.run, evaluate) : undefined,
      prompt: work.kind === "agent" ? renderText(work.prompt, evaluate) : undefined,
      preamble: visit.briefing?.preamble,
      command: renderShell(agent?.command ?? "", evaluate),
      checks,
      key: renderText(step.cache?.key ?? "", evaluate),
    },
    env: variablesOf(site, visit),
    cwd: workDirOf(site, visit),
    outputs: outputPaths(site, visit),
    before: Object.fromEntries(
      Array.from(earlierOutputs(visit), ([name, { sha256: hash }]) => [name, hash]),
    ),
    repetition: { item, iteration, visit: visit.number },
    files: filesHash,
    platform: `${process.platform} ${process.arch}`,
  };
  const hidden = redactJson(redactorOf(secretsOf(site).flatMap(({ texts }) => texts)), whole);
  const text = withoutPlaces(
    site,
    visit,
    canonicalJson(JSON.parse(JSON.stringify(hidden)) as Json),
  );
  return sha256(`${KEY_VERSION}\n${text}`);
}

/**
 * The outputs of the step and of the steps that are not before it, below its workspace: they are
 * products of earlier runs, and not what the work starts from. Those of steps before it count.
 */
export function productsOf(site: LaunchInput, visit: Visit): readonly string[] {
  const root = rootOf(site, visit);
  const found = new Set(Object.values(outputPaths(site, visit)));
  for (let at: Visit | undefined = visit; at !== undefined; at = at.record.scope.parent) {
    const { scope, position } = at.record;
    const before = new Set(ancestorsOf(scope.graph, position, Number.POSITIVE_INFINITY));
    const others = scope.graph.steps.filter((_, index) => !before.has(index));
    for (const path of others.flatMap(plainOutputs)) found.add(resolve(root, path));
  }
  const within = [...found].map((path) => relative(root, path));
  return within.filter((path) => !path.startsWith("..") && !isAbsolute(path)).sort();
}

/** The paths of the outputs of a step and of the steps in it, where no expression decides them. */
function plainOutputs({ outputs, cwd = ".", work }: Step): readonly string[] {
  const own = Object.values(outputs).map((path) => join(cwd, path));
  const inner = graphsIn(work).flatMap(({ steps }) => steps.flatMap(plainOutputs));
  return [...own.filter((path) => !path.includes("${{")), ...inner];
}

/** The text with the same words for the directories of each run. */
function withoutPlaces(site: LaunchInput, visit: Visit, text: string): string {
  const inJson = (path: string): string => JSON.stringify(path).slice(1, -1);
  const shared = site.run.workspace?.path ?? site.run.created?.cwd ?? ".";
  return [rootOf(site, visit), shared, site.dir.root]
    .sort((one, other) => other.length - one.length)
    .reduce((at, place) => at.replaceAll(inJson(place), "<workspace>"), text);
}
