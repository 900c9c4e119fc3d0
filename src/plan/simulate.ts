/**
 * A plan with simulated work: to see which path a pipeline takes without paying for it.
 *
 * Owns: the fields that a step keeps when its work is simulated.
 * Does not: run anything; simulated steps pass, with an answer that is marked as simulated.
 */
import {
  checksOf,
  type Graph,
  type Plan,
  type Simulated,
  type Simulation,
  type Step,
  type Work,
} from "./plan.ts";

/** The plan with its agents, or all its work, simulated. */
export function simulated(plan: Plan, what: Simulation): Plan {
  const end = plan.finally === undefined ? {} : { finally: simulatedGraph(plan.finally, what) };
  const graphs = { graph: simulatedGraph(plan.graph, what), ...end };
  if (what !== "all" || plan.workspace === undefined) return { ...plan, agents: {}, ...graphs };
  // No step changes files, so snapshots would be useless.
  const workspace = { ...plan.workspace, kind: "here", snapshots: false } as const;
  return { ...plan, agents: {}, workspace, ...graphs };
}

function simulatedGraph({ steps, edges }: Graph, what: Simulation): Graph {
  return { steps: steps.map((step) => simulatedStep(step, what)), edges };
}

function simulatedStep(step: Step, what: Simulation): Step {
  const work = simulatedWork(step, what);
  if (work.kind !== "pass" || step.work.kind === "pass") {
    return { ...step, work, ...withoutJudges(step) };
  }
  const kept = Object.entries(step).filter(([field]) => !OF_REAL_WORK.has(field));
  return { ...(Object.fromEntries(kept) as unknown as Step), work, outputs: {}, once: false };
}

/** The fields that mean nothing for a step whose work is simulated. */
const OF_REAL_WORK: ReadonlySet<string> = new Set<keyof Step>([
  "check",
  "probe",
  "own",
  "isolate",
  "leavesRunning",
  "notDone",
  "capture",
  "runsIn",
]);

/** A simulated judge passes everything. */
function withoutJudges(step: Step): Pick<Step, "check"> {
  const others = checksOf(step).filter(({ kind }) => kind !== "judge");
  return others.length === checksOf(step).length ? {} : { check: others };
}

function simulatedWork({ id, work }: Step, what: Simulation): Work {
  if (work.kind === "branches") {
    const branches = work.branches.map(({ graph, ...branch }) => ({
      ...branch,
      graph: simulatedGraph(graph, what),
    }));
    return { ...work, branches };
  }
  if ("graph" in work) return { ...work, graph: simulatedGraph(work.graph, what) };
  if (work.kind === "agent") {
    return simulatedPass({ prompt: work.prompt, answer: `[Simulated] Response for stage: ${id}` });
  }
  if (work.kind !== "shell" || what !== "all") return work;
  return simulatedPass({ answer: `[Simulated] Output of stage: ${id}` });
}

function simulatedPass(simulates: Simulated): Work {
  return { kind: "pass", simulates };
}
