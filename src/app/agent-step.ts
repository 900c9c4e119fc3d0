/**
 * The step of a run whose agent a person wants to talk to.
 *
 * Owns: finding it by the name that the person gave.
 * Does not: talk to the agent (commands/say.ts, commands/open.ts).
 */
import { parsePlace, stepPath } from "../core/place.ts";
import { findRecord, type Run, type Scope, type StepRecord } from "../core/run.ts";
import { indexOf } from "../plan/graph-index.ts";
import type { Plan, Step } from "../plan/plan.ts";
import { nearest } from "../util/nearest.ts";
import type { KnownRun } from "./known-run.ts";
import { command, Refusal } from "./refusal.ts";

/** A step with an agent that has conversations. */
export interface AgentStep {
  readonly scope: string;
  readonly step: string;
  /** `review`, or `each@1.1[3]/review`. */
  readonly path: string;
  /** What was done for it; absent before its first visit. */
  readonly record?: StepRecord;
}

/** The step of that name. Throws a refusal that names what could have been meant. */
export function agentStepAt(known: KnownRun, name: string): AgentStep {
  const { plan, run, shortId } = known;
  if (known.cleanedAt !== undefined) {
    const message = `run ${shortId} cannot continue: its files were removed`;
    throw new Refusal("files-removed", message, command("why", shortId));
  }
  const { scope, step: id } = parsePlace(name);
  const found = [...stepsNamed(run, scope, id)];
  const [first, second] = found;
  if (first === undefined) throw unknownStep(known, name);
  if (second !== undefined) {
    const paths = found.map((one) => stepPath({ scope: one.scope.id, step: id })).join(", ");
    throw new Refusal("ambiguous-step", `${name} may be one of ${paths}: say which`);
  }
  if (!hasConversations(plan, first.step)) {
    const message = `step ${name} of run ${shortId} has no agent with a conversation`;
    throw new Refusal("no-conversation", message, command("show", shortId));
  }
  const record = findRecord(first.scope, id);
  const place = { scope: first.scope.id, step: id };
  return { ...place, path: stepPath(place), ...(record === undefined ? {} : { record }) };
}

interface Candidate {
  readonly scope: Scope;
  readonly step: Step;
}

/** The step in that scope; its id alone is enough for a step of an instance that is the only one. */
function* stepsNamed(run: Run, scopeId: string, id: string): Generator<Candidate> {
  const exact = run.scopes.get(scopeId);
  const own = exact && stepIn(exact, id);
  if (exact !== undefined && own !== undefined) return yield { scope: exact, step: own };
  if (scopeId !== "") return;
  for (const scope of run.scopes.values()) {
    const step = stepIn(scope, id);
    if (step !== undefined) yield { scope, step };
  }
}

function stepIn({ graph }: Scope, id: string): Step | undefined {
  const position = indexOf(graph).byId.get(id);
  return position === undefined ? undefined : graph.steps[position];
}

function hasConversations(plan: Plan, { work }: Step): boolean {
  if (work.kind !== "agent") return false;
  const adapter = plan.agents[work.agent]?.adapter;
  return adapter !== undefined && adapter !== "command";
}

function unknownStep({ plan, run, shortId }: KnownRun, name: string): Refusal {
  const ids = [...run.scopes.values()].flatMap(({ graph }) =>
    graph.steps.filter((step) => hasConversations(plan, step)).map(({ id }) => id),
  );
  const meant = nearest(name, ids);
  const hint = meant === undefined ? "" : `; did you mean ${meant}?`;
  const message = `run ${shortId} has no step ${name}${hint}`;
  return new Refusal("unknown-step", message, command("show", shortId));
}
