/**
 * The rules on single keys of steps: which keys a kind of step may have (the table in keys.ts), the
 * fidelity and the threads of agent steps and of the edges that lead to them, where outputs and
 * directories are, which results can be reused, and what the steps of `finally` may be.
 *
 * Owns: these rules.
 * Does not: check the agent of a step (rules/agent.ts), or call the rules (validate.ts).
 */

import { posix } from "node:path";
import { parseTemplate } from "../../util/template.ts";
import type { Path, Report } from "../diagnostic.ts";
import type { KeyRow, StepKind } from "../key-row.ts";
import { ALL_STEP_KEYS, type PipelineShape, type StepShape } from "../schema.ts";
import { hasBody, isCut, pathIn, type StepList } from "../step-list.ts";
import { agentOf, conversationsOf } from "./agent.ts";
import { type ExpressionRules, type KnownNames, RUN_STATUS } from "./expression.ts";

/** The kind of a step, from the key that defines its work. */
export function kindOf(step: StepShape): StepKind {
  if (step.pass === true) return "pass";
  if (step.fail !== undefined) return "fail";
  if (step.gate !== undefined) return "gate";
  if (step.wait !== undefined) return "wait";
  if (hasBody(step)) return "group";
  const asks = step.prompt ?? step.prompt_file ?? step.agent;
  return asks !== undefined && step.run === undefined ? "agent" : "command";
}

interface Wording {
  readonly rule: string;
  readonly whose: string;
  readonly help: (key: string) => string;
}

const WORDINGS: Readonly<Partial<Record<StepKind, Wording>>> = {
  group: {
    rule: "body-setting",
    whose: "a step that contains steps",
    help: () => "move it to the inner steps",
  },
  gate: {
    rule: "gate-setting",
    whose: "a gate: it runs nothing",
    help: (key) =>
      key === "timeout" ? "put it into the gate: `gate: {ask: ..., timeout: 2h}`" : "leave it out",
  },
  wait: {
    rule: "gate-setting",
    whose: "a wait: it runs nothing",
    help: () => "leave it out",
  },
  pass: {
    rule: "pass-setting",
    whose: "a `pass` step: it runs nothing",
    help: (key) => `leave out \`${key}\`, or \`pass\``,
  },
  fail: {
    rule: "fail-setting",
    whose: "a `fail` step: it ends the run",
    help: (key) => `leave out \`${key}\`, or \`fail\``,
  },
};

/** Keys that define the work of a step. */
const WORK_KEYS: readonly string[] = ["run", "steps", "pipeline", "loop", "iterations", "wait"];

/** Adds a mistake for every key that has no effect on its kind of step. */
export function checkKeys(list: StepList, index: number, report: Report): void {
  const step = list.steps[index] as StepShape;
  const kind = kindOf(step);
  const wording = WORDINGS[kind];
  if (wording === undefined || isCut(list, index, "steps", "pipeline", "for_each")) return;
  for (const [key, row] of Object.entries<KeyRow>(ALL_STEP_KEYS)) {
    if (step[key as keyof StepShape] === undefined || row.on.includes(kind)) continue;
    const path = pathIn(list, index, key);
    if ((kind === "gate" || kind === "wait") && WORK_KEYS.includes(key)) {
      const message = `step \`${step.id}\` has both \`${kind}\` and \`${key}\``;
      report.add({ rule: "step-work", message, help: "split it into two steps", path, on: "key" });
    } else {
      const message = `\`${key}\` has no effect on ${wording.whose}`;
      report.add({ rule: wording.rule, message, help: wording.help(key), path, on: "key" });
    }
  }
}

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
    add("thread", message, "leave one of them out: both name the conversation that it shares");
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

/** Reports outputs outside of the workspace, for any values; a run checks the values. */
export function reportOutputsOutside(
  { cwd, outputs }: StepShape,
  path: Path,
  report: Report,
): void {
  const from = plainPath(cwd ?? ".");
  for (const [name, text] of Object.entries(outputs ?? {})) {
    const plain = plainPath(text);
    const outside = plain.startsWith("/") || /^\.\.(\/|$)/.test(posix.join(from, plain));
    if (!outside) continue;
    const message = `the output \`${name}\` is outside of the workspace`;
    const help = "name a file below the step's directory; copy other files into it";
    report.add({ rule: "output-outside", message, help, path: [...path, name] });
  }
}

/** Reports a directory outside of the workspace. */
export function reportDirectoryOutside(cwd: string | undefined, path: Path, report: Report): void {
  const plain = plainPath(cwd ?? ".");
  if (!plain.startsWith("/") && !/^\.\.(\/|$)/.test(posix.normalize(plain))) return;
  const message = `the directory \`${cwd}\` is outside of the workspace`;
  const help =
    "name a directory below the workspace, relative to it; `cd` in the script goes elsewhere";
  report.add({ rule: "cwd-outside", message, help, path });
}

/** A path with a plain name instead of each expression. */
function plainPath(text: string): string {
  const parsed = parseTemplate(text);
  if (!parsed.ok) return ".";
  return parsed.parts.map((part) => (part.kind === "text" ? part.text : "value")).join("");
}

/** Reports outputs with the same environment variable: `a-b` and `a_b`. */
export function reportOutputClashes(list: StepList, report: Report): void {
  const owners = new Map<string, string>();
  list.steps.forEach(({ id, outputs }, index) => {
    for (const name of Object.keys(outputs ?? {})) {
      const variable = `PERDURE_OUTPUT_${id}_${name}`.toUpperCase().replaceAll("-", "_");
      const owner = owners.get(variable);
      owners.set(variable, owner ?? `${id}.${name}`);
      if (owner === undefined) continue;
      const message = `$${variable} stands for both \`${owner}\` and \`${id}.${name}\``;
      const help = `rename one of them, or use \${{ outputs["${id}"]["${name}"] }} instead`;
      const path = pathIn(list, index, "outputs", name);
      report.add({ rule: "output-clash", severity: "warning", message, help, path, on: "key" });
    }
  });
}

/** Reports a step that cannot be cached, and checks the texts of its `cache`. */
export function checkCache(
  shape: PipelineShape,
  list: StepList,
  index: number,
  { rules, report }: { readonly rules: ExpressionRules; readonly report: Report },
): void {
  const step = list.steps[index] as StepShape;
  const { cache } = step;
  if (cache === undefined || cache === false) return;
  const reason = reasonAgainst(shape, step);
  if (reason !== undefined) {
    const [why, help] = reason;
    const message = `the result of step \`${step.id}\` cannot be reused: ${why}`;
    report.add({ rule: "cache", message, help, path: pathIn(list, index, "cache"), on: "key" });
  }
  if (cache === true || cache.key === undefined) return;
  rules.text(cache.key, { path: pathIn(list, index, "cache", "key"), step: index });
}

/** Why the result of a step cannot be reused, and what helps. */
function reasonAgainst(
  { workspace, defaults }: PipelineShape,
  step: StepShape,
): readonly [string, string] | undefined {
  const { once, leaves_running: leaves, session, fidelity = defaults?.fidelity } = step;
  if (once !== undefined && once !== false) {
    return ["it must happen once in each run", "leave out `cache`, or `once`"];
  }
  if (leaves === true) {
    return ["it leaves a process running", "leave out `cache`, or `leaves_running`"];
  }
  if (session !== undefined || (fidelity === "full" && step.run === undefined)) {
    const help = "leave out `cache`, or give the step a conversation of its own";
    return ["its agent continues a conversation of this run", help];
  }
  const isOff = typeof workspace === "object" && workspace.snapshots === false;
  if (!isOff) return undefined;
  const help = "remove `snapshots: false` from the pipeline's `workspace`";
  return ["that needs snapshots, and this pipeline turns them off", help];
}

/** Keys that would change the order of the steps, or repeat or merge their work. */
const FORBIDDEN = [
  ...["for_each", "loop", "iterations", "steps", "pipeline", "gate", "wait", "pass", "fail"],
  ...["needs", "join", "goto", "edges", "on_failure", "max_visits", "goal", "retry_target"],
  ...["once", "not_done", "workspace", "session"],
] as const;

/** What the expressions of `finally` can name: all steps have ended, or will not run any more. */
export function namesAtEnd(known: KnownNames): Pick<KnownNames, "variables" | "parent"> {
  const parent = { known: { ...known, comesBefore: undefined }, step: -1 };
  return { variables: new Set([RUN_STATUS]), parent };
}

/** Adds a mistake for every key that a step of `finally` cannot have. */
export function checkFinally(
  list: StepList,
  others: ReadonlyMap<string, number>,
  report: Report,
): void {
  list.steps.forEach((step, index) => {
    if (isCut(list, index)) return;
    for (const key of FORBIDDEN) {
      const value = step[key as keyof StepShape];
      if (value === undefined || (key === "on_failure" && value === "continue")) continue;
      const message = `a step of \`finally\` cannot have \`${key}\``;
      const help = "it is a command or a prompt, and starts when the one above it has ended";
      report.add({
        rule: "finally-step",
        message,
        help,
        path: pathIn(list, index, key),
        on: "key",
      });
    }
    if (others.has(step.id)) {
      const message = `\`${step.id}\` is already the id of another step`;
      const help = "choose another id: results and logs use it";
      report.add({ rule: "finally-step", message, help, path: pathIn(list, index, "id") });
    }
  });
}
