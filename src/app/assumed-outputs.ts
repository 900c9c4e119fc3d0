/**
 * What steps hand on that a person takes as done (`resume --from-step`): the files that they declare
 * must be there, whoever wrote them.
 *
 * Owns: where those files are looked for, and the refusal when one is missing.
 * Does not: record them; the event of the rewind does.
 */
import { resolve } from "node:path";
import type { Output, RunRewound } from "../core/event.ts";
import { ROOT_SCOPE } from "../core/place.ts";
import { Refusal } from "../core/rewind.ts";
import { currentVisit, type Scope, type Visit } from "../core/run.ts";
import { LOSSES_MAX } from "../core/visit.ts";
import { evaluatorAt } from "../engine/launch.ts";
import { indexOf, stepAt } from "../plan/graph-index.ts";
import { ExpressionError } from "../util/expression.ts";
import { renderText, TemplateError } from "../util/template.ts";
import type { KnownRun } from "./known-run.ts";
import { runEnvironment } from "./run-environment.ts";

type Outputs = NonNullable<RunRewound["outputs"]>;

/** The outputs of these steps as they are now; throws a Refusal that names the first missing one. */
export async function assumedOutputs(
  known: KnownRun,
  steps: readonly string[],
  how: "look" | "keep",
): Promise<Outputs> {
  const root = known.run.scopes.get(ROOT_SCOPE);
  const found: Record<string, Record<string, Output>> = {};
  for (const step of root === undefined ? [] : steps) {
    const outputs: Record<string, Output> = {};
    for (const [name, path] of pathsOf(known, root, step)) {
      const file = await fileAt(known, path, how);
      if (file === undefined) {
        throw new Refusal(
          `step ${step} cannot be taken as done: its output "${name}" is missing; ` +
            `write ${path}, or go on from ${step}: perdure resume ${known.shortId} --from-step ${step}`,
        );
      }
      outputs[name] = file;
    }
    if (Object.keys(outputs).length > 0) found[step] = outputs;
  }
  return found;
}

async function fileAt(
  { dir }: KnownRun,
  path: string,
  how: "look" | "keep",
): Promise<Output | undefined> {
  if (how === "look") return (await import("../workspace/artifact.ts")).describeFile(path);
  return (await import("../workspace/artifact-store.ts")).keepArtifact(dir.artifacts, path);
}

function pathsOf(
  { plan, run, dir }: KnownRun,
  root: Scope | undefined,
  id: string,
): readonly (readonly [name: string, path: string])[] {
  const position = root === undefined ? undefined : indexOf(root.graph).byId.get(id);
  if (root === undefined || position === undefined) return [];
  const { outputs, cwd = "." } = stepAt(root.graph, position);
  const evaluate = evaluatorAt(
    { plan, run, dir, env: runEnvironment(run) },
    visitAt(root, position),
  );
  const top = run.workspace?.path ?? run.created?.cwd ?? ".";
  try {
    const place = resolve(top, renderText(cwd, evaluate));
    return Object.entries(outputs).map(
      ([name, path]) => [name, resolve(place, renderText(path, evaluate))] as const,
    );
  } catch (error) {
    if (!(error instanceof ExpressionError || error instanceof TemplateError)) throw error;
    throw new Refusal(`step ${id} cannot be taken as done: ${error.message}`);
  }
}

/** The visit that is taken as done; the one that it would have when it has none yet. */
function visitAt(scope: Scope, position: number): Visit {
  const none = { scope, position, visits: [], past: 0, unreachable: false, counted: false };
  const record = scope.steps[position] ?? none;
  const counts = { attempts: 0, failures: 0, losses: 0, pauses: 0, failuresMax: 1 };
  return (
    currentVisit(record) ?? {
      ...{ record, number: 1, state: { status: "waiting", for: "slot" }, lossesMax: LOSSES_MAX },
      ...counts,
    }
  );
}
