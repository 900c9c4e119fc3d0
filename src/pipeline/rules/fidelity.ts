/**
 * The rules on the fidelity and the threads of agent steps.
 *
 * Owns: these rules, for steps and for the edges that lead to them.
 * Does not: write briefings (core/conversation/briefing.ts).
 */

import type { StepKind } from "../key-row.ts";
import type { Report } from "../report.ts";
import type { PipelineShape, StepShape } from "../schema.ts";
import type { Path } from "../source.ts";
import { hasBody, isCut, pathIn, type StepList } from "../step-list.ts";
import { agentOf, conversationsOf } from "./agent.ts";
import { kindOf } from "./key.ts";

const KEYS = ["fidelity", "thread", "resume_fidelity"] as const;
const EDGE_KEYS = ["fidelity", "thread"] as const;
/** rules/key.ts checks the others. */
const WITH_PROCESS: ReadonlySet<StepKind> = new Set(["command", "agent"]);

interface CheckedList {
  readonly shape: PipelineShape;
  readonly list: StepList;
  readonly ids: ReadonlyMap<string, number>;
  readonly report: Report;
}

/** Adds the mistakes in the fidelity of a list of steps. */
export function checkFidelity(checked: CheckedList): void {
  const { list } = checked;
  const edges = list.steps.flatMap((step) => step.edges ?? []);
  const full = new Set(edges.filter(({ fidelity }) => fidelity === "full").map(({ to }) => to));
  list.steps.forEach((step, index) => {
    if (isCut(list, index)) return;
    if (WITH_PROCESS.has(kindOf(step))) checkStep(checked, step, index, full);
    checkEdges(checked, step, index);
  });
}

/** Any agent can get a briefing; only an agent with an adapter can share a conversation. */
function checkStep(
  checked: CheckedList,
  step: StepShape,
  index: number,
  full: ReadonlySet<string>,
): void {
  const { shape, list, report } = checked;
  if (isCut(list, index, "run", "agent", "prompt", "prompt_file")) return;
  const agent = agentOf(shape, step);
  const add = (key: string, message: string, help: string): void => {
    const path = pathIn(list, index, key);
    report.add({ rule: "agent-setting", message, help, path, on: "key" });
  };
  const none = (key: string, whose: string): void => {
    add(key, `\`${key}\` has no effect on ${whose}`, "leave it out");
  };
  const given = KEYS.filter((key) => step[key] !== undefined);
  if (agent === undefined) {
    for (const key of given) none(key, "a step without an agent");
    return;
  }
  if (!conversationsOf(shape, list.cut, agent)) {
    for (const key of given) if (key !== "fidelity") none(key, "an agent that is only a command");
    if (step.fidelity === "full") {
      const message = "an agent that is only a command has no conversation to continue";
      add("fidelity", message, "write `summary:high`, or add an `adapter` to the agent");
    }
    return;
  }
  if (step.session !== undefined && step.thread !== undefined) {
    const message = `step \`${step.id}\` has both \`session\` and \`thread\``;
    add("thread", message, "both name the conversation that it shares: leave one out");
    return;
  }
  if (!full.has(step.id)) checkThread(checked, step, index);
}

/** A thread that nothing uses is a mistake without effect: a warning. */
function checkThread({ shape, list, report }: CheckedList, step: StepShape, index: number): void {
  if (step.thread === undefined || list.cut.has("defaults.fidelity")) return;
  if (isCut(list, index, "fidelity")) return;
  if ((step.fidelity ?? shape.defaults?.fidelity) === "full") return;
  const message = `the thread of step \`${step.id}\` is never used: it is for \`fidelity: full\``;
  const help = "add `fidelity: full`, or leave `thread` out";
  const path: Path = pathIn(list, index, "thread");
  report.add({ rule: "unused-thread", severity: "warning", message, help, path, on: "key" });
}

/** The settings of an edge are for the agent that it leads to. */
function checkEdges(
  { shape, list, ids, report }: CheckedList,
  step: StepShape,
  index: number,
): void {
  step.edges?.forEach((edge, position) => {
    const at = ids.get(edge.to);
    const target = at === undefined || isCut(list, at) ? undefined : list.steps[at];
    if (target === undefined || hasBody(target) || target.run === undefined) return;
    if (agentOf(shape, target) !== undefined) return;
    for (const key of EDGE_KEYS) {
      if (edge[key] === undefined) continue;
      const message = `\`${key}\` has no effect on step \`${edge.to}\`, which has no agent`;
      const path: Path = [...pathIn(list, index), "edges", position, key];
      report.add({ rule: "agent-setting", message, help: "leave it out", path, on: "key" });
    }
  });
}
