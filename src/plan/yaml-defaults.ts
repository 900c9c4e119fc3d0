/**
 * What the steps of a plan have in common, so that a YAML file says it once, under `defaults`.
 *
 * Owns: finding it, and what of a step is different from it.
 * Does not: print.
 */
import type { StepShape } from "../pipeline/schema.ts";
import { durationText } from "../util/duration.ts";
import { canonicalJson } from "../util/json.ts";
import { LOOP_VISITS_MAX, RETRY_DEFAULT } from "./build-graph.ts";
import { graphsIn } from "./graph-index.ts";
import type { Graph, Plan, RetryPolicy, Step } from "./plan.ts";
import { isTried, WALK_RETRY, WALK_VISITS_MAX } from "./walk.ts";
import { END } from "./written-edges.ts";

/** What a step has without saying it. */
export interface YamlDefaults {
  readonly walk: boolean;
  readonly maxParallel: number;
  readonly env: Readonly<Record<string, string>>;
  readonly agent?: string;
  readonly retry: RetryPolicy;
  readonly visitsMax: number;
}

type RetryShape = NonNullable<StepShape["retry"]>;

/** What all steps of a plan have in common. */
export function yamlDefaults(plan: Plan): YamlDefaults {
  const walk = plan.keys !== undefined;
  const steps = [...allSteps(plan.graph)];
  const leaves = steps.filter(({ work }) => work.kind === "shell" || work.kind === "agent");
  const agent = usualOf(
    leaves.flatMap(({ work }) => (work.kind === "agent" ? [work.agent] : [])),
    0,
  );
  const tried = walk ? steps.filter(({ work }) => isTried(work)) : leaves;
  const usual = walk ? WALK_RETRY : RETRY_DEFAULT;
  const visited = steps.filter(({ id }) => !id.startsWith(END));
  return {
    walk,
    maxParallel: plan.maxParallel,
    env: commonEnv(leaves),
    ...(agent === undefined ? {} : { agent }),
    retry:
      usualOf(
        tried.map(({ retry }) => retry).filter(({ on }) => on === usual.on),
        1 / 2,
      ) ?? usual,
    visitsMax: walk
      ? (usualOf(
          visited.map(({ visitsMax }) => visitsMax),
          1 / 2,
        ) ?? WALK_VISITS_MAX)
      : LOOP_VISITS_MAX,
  };
}

function* allSteps({ steps }: Graph): Generator<Step> {
  for (const step of steps) {
    yield step;
    for (const graph of graphsIn(step.work)) yield* allSteps(graph);
  }
}

/** The value that most have, if more than a share of all do, and more than one. */
function usualOf<T>(values: readonly T[], share: number): T | undefined {
  const groups = [...Map.groupBy(values, (value) => canonicalJson(value)).values()];
  const [most = []] = groups.sort((one, other) => other.length - one.length);
  return most.length > Math.max(1, values.length * share) ? most[0] : undefined;
}

function commonEnv(steps: readonly Step[]): YamlDefaults["env"] {
  const [first, ...others] = steps;
  if (others.length === 0) return {};
  return Object.fromEntries(
    Object.entries(first?.env ?? {}).filter(([name, value]) =>
      others.every(({ env }) => env[name] === value),
    ),
  );
}

/** The retry rule of a step, as far as it has one of its own. */
export function retryShape(step: Step, defaults: YamlDefaults): RetryShape | undefined {
  const { walk, retry: usual } = defaults;
  const { work, retry } = step;
  const leaf = work.kind === "shell" || work.kind === "agent";
  const base = walk ? (isTried(work) ? usual : WALK_RETRY) : leaf ? usual : RETRY_DEFAULT;
  if (canonicalJson(retry) === canonicalJson(base)) return undefined;
  return policyShape(retry, base, walk && work.kind === "shell");
}

/** The default rule of a file; undefined for the built-in one. */
export function defaultRetry({ walk, retry }: YamlDefaults): RetryShape | undefined {
  const base = walk ? WALK_RETRY : RETRY_DEFAULT;
  return canonicalJson(retry) === canonicalJson(base) ? undefined : policyShape(retry, base, false);
}

/** `tried`: who says how many tries a command of a walk gets means any failure. */
function policyShape(retry: RetryPolicy, base: RetryPolicy, tried: boolean): RetryShape {
  const { attempts, on, onResume, conversation } = retry;
  const same = attempts === base.attempts && !(tried && on === "any" && base.on !== "any");
  const usual = tried && !same ? "any" : base.on;
  const backoff = backoffShape(retry.backoff, base.backoff);
  const long = {
    ...(same ? {} : { attempts }),
    ...(on === usual || on === undefined ? {} : { on }),
    ...(backoff === undefined ? {} : { backoff }),
    ...(onResume === base.onResume ? {} : { on_resume: onResume }),
    ...(conversation === base.conversation
      ? {}
      : { conversation: conversation ?? ("continue" as const) }),
  };
  return !same && Object.keys(long).length === 1 ? attempts : long;
}

function backoffShape(one: RetryPolicy["backoff"], base: RetryPolicy["backoff"]) {
  const long = {
    ...(one.initialMs === base.initialMs ? {} : { initial: durationText(one.initialMs) }),
    ...(one.factor === base.factor ? {} : { factor: one.factor }),
    ...(one.maxMs === base.maxMs ? {} : { max: durationText(one.maxMs) }),
    ...(one.jitter === base.jitter ? {} : { jitter: one.jitter }),
  };
  const keys = Object.keys(long);
  if (keys.length === 0) return undefined;
  return keys.length === 1 && keys[0] === "initial" ? durationText(one.initialMs) : long;
}
