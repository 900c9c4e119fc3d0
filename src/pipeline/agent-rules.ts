/**
 * The rules on agents and on the steps that ask them: what they are asked, with which settings, and
 * in which conversation.
 *
 * Owns: these rules, and reading the prompts that stand in files of their own.
 * Does not: judge what stands in a prompt (expression-rules.ts).
 */
import type { MistakeReport, Report } from "./report.ts";
import {
  ADAPTERS,
  AGENT_SETTINGS,
  KNOWN_AGENTS,
  type PipelineShape,
  PROTOCOL_ADAPTER,
  type StepShape,
} from "./schema.ts";
import type { ReadShape } from "./shape.ts";
import type { Path } from "./yaml-source.ts";

export type AgentShape = Exclude<NonNullable<PipelineShape["agents"]>[string], string>;

/** Who is asked by a step: the agent that it names, or that of all steps with a prompt. */
export function agentOf(shape: PipelineShape, step: StepShape): string | undefined {
  const asks = step.prompt !== undefined || step.prompt_file !== undefined;
  return step.agent ?? (asks && step.run === undefined ? shape.defaults?.agent : undefined);
}

/** The prompts that stand in files: position of the step -> text. */
export function readPrompts(
  { shape, cut }: ReadShape,
  readNamed: (name: string) => string | undefined,
  report: Report,
): ReadonlyMap<number, string> {
  const prompts = new Map<number, string>();
  shape.steps.forEach(({ prompt_file: name }, index) => {
    if (name === undefined || cut.has(`steps.${index}`)) return;
    const text = readNamed(name);
    if (text !== undefined && text.trim() !== "") {
      prompts.set(index, text);
      return;
    }
    const [message, help] =
      text === undefined
        ? [`there is no file \`${name}\``, "the path is relative to the pipeline's file"]
        : [`the file \`${name}\` is empty`, "write into it what the agent is asked to do"];
    report.add({ rule: "prompt-file", message, help, path: ["steps", index, "prompt_file"] });
  });
  return prompts;
}

/** A report about another file, which stands behind one value of this one. */
export function inFile(report: Report, name: string, text: string): MistakeReport {
  return {
    suggest: (...args) => report.suggest(...args),
    add: ({ rule, message, help, severity = "error", path, offset = 0 }) => {
      const line = text.slice(0, offset).split("\n").length;
      report.add({ rule, message: `${name}, line ${line}: ${message}`, help, severity, path });
    },
  };
}

/** An agent is any command, or one that an adapter knows how to talk to. */
export function checkAgent(agent: AgentShape, path: Path, report: Report): void {
  if (agent.adapter === PROTOCOL_ADAPTER && agent.command === undefined) {
    const message = `\`adapter: ${PROTOCOL_ADAPTER}\` needs the \`command\` that starts the agent`;
    const help = 'add `command:`, for example "opencode acp" or "gemini --acp"';
    report.add({ rule: "agent-command", message, help, path: [...path, "adapter"] });
  }
  if (agent.adapter !== undefined) return;
  if (agent.command === undefined) {
    const message = "the agent has neither `command` nor `adapter`";
    const help = `add \`command:\` with a program, or \`adapter:\` with one of ${ADAPTERS.join(", ")}`;
    report.add({ rule: "agent-command", message, help, path, on: "key" });
  }
  for (const key of ["args", ...AGENT_SETTINGS] as const) {
    if (agent[key] === undefined) continue;
    const message = `\`${key}\` means nothing to an agent that is only a command`;
    const help = key === "args" ? "write them into `command`" : "add `adapter:`, or leave it out";
    report.add({ rule: "agent-setting", message, help, path: [...path, key], on: "key" });
  }
}

/** The agent of all steps must be there. */
export function checkDefaultAgent({ shape, cut }: ReadShape, report: Report): void {
  const agent = shape.defaults?.agent;
  if (agent === undefined || cut.has("agents")) return;
  checkName(agent, ["defaults", "agent"], shape, report);
}

function checkName(agent: string, path: Path, shape: PipelineShape, report: Report): void {
  const known = [...Object.keys(shape.agents ?? {}), ...KNOWN_AGENTS];
  if (known.includes(agent)) return;
  const help = report.suggest(agent, known, "declare it under `agents`; there are");
  report.add({ rule: "unknown-agent", message: `there is no agent \`${agent}\``, help, path });
}

/** A step runs a command or asks an agent: one of them, and all that belongs to it. */
export function checkWork(read: ReadShape, index: number, report: Report): void {
  const { shape, cut } = read;
  const at = (key: string): Path => ["steps", index, key];
  const keys = ["run", "agent", "prompt", "prompt_file"];
  if (keys.some((key) => cut.has(`steps.${index}.${key}`)) || cut.has("defaults.agent")) return;
  const step = shape.steps[index] as StepShape;
  const problem = workProblem(step, agentOf(shape, step));
  if (problem !== undefined) {
    const { key, on, ...words } = problem;
    report.add({ rule: "step-work", ...words, path: at(key), on });
  }
  checkAgentSettings(read, index, report);
  if (step.agent !== undefined && !cut.has("agents")) {
    checkName(step.agent, at("agent"), shape, report);
  }
}

interface WorkProblem {
  readonly message: string;
  readonly help: string;
  readonly key: string;
  readonly on: "key" | "value";
}

function workProblem(step: StepShape, agent: string | undefined): WorkProblem | undefined {
  const { id, run, prompt, prompt_file } = step;
  const asking = prompt === undefined ? "prompt_file" : "prompt";
  const asks = prompt !== undefined || prompt_file !== undefined;
  const problem = (message: string, help: string, key: string): WorkProblem => ({
    message: `step \`${id}\` ${message}`,
    help,
    key,
    on: key === "id" ? "value" : "key",
  });
  if (run !== undefined && step.agent !== undefined) {
    return problem("has both `run` and `agent`", "make two steps of it", "agent");
  }
  if (run !== undefined && asks) {
    const help = "name the `agent` that it is for, or leave it out";
    return problem(`has a \`${asking}\` but no agent`, help, asking);
  }
  if (prompt !== undefined && prompt_file !== undefined) {
    return problem("has both `prompt` and `prompt_file`", "leave one of them out", "prompt_file");
  }
  if (run === undefined && agent === undefined) {
    if (asks) {
      const help = "add `agent:`, or `agent:` under `defaults:` for all steps";
      return problem(`has a \`${asking}\` but no agent`, help, asking);
    }
    const help = "add `run:` with a command, or `agent:` and `prompt:`";
    return problem("has neither `run` nor `agent`", help, "id");
  }
  if (run === undefined && !asks) {
    return problem("asks an agent but has no `prompt`", "add `prompt:`", "agent");
  }
  return undefined;
}

/** Settings of an agent's call need an agent that understands them. */
function checkAgentSettings(read: ReadShape, index: number, report: Report): void {
  const step = read.shape.steps[index] as StepShape;
  const agent = agentOf(read.shape, step);
  if (talks(read, agent)) return;
  for (const key of ["session", ...AGENT_SETTINGS] as const) {
    if (step[key] === undefined) continue;
    const whose = agent === undefined ? "a step without an agent" : "an agent that is a command";
    const message = `\`${key}\` means nothing to ${whose}`;
    const path = ["steps", index, key];
    report.add({ rule: "agent-setting", message, help: "leave it out", path, on: "key" });
  }
}

/** Whether an adapter talks to the agent, as far as the file says what it is. */
function talks({ shape, cut }: ReadShape, agent: string | undefined): boolean {
  if (agent === undefined) return false;
  const declared = shape.agents?.[agent];
  if (declared === undefined || cut.has(`agents.${agent}`)) return true;
  return typeof declared !== "string" && declared.adapter !== undefined;
}

/** Steps in one conversation have one agent and run one after the other, in the file's order. */
export function checkSessions(
  read: ReadShape,
  comesBefore: ((first: number, second: number) => boolean) | undefined,
  report: Report,
): void {
  const { shape, cut } = read;
  const last = new Map<string, number>();
  shape.steps.forEach((step, index) => {
    const { session } = step;
    if (session === undefined || cut.has(`steps.${index}`)) return;
    // It was told already that a session means nothing to such a step.
    if (!talks(read, agentOf(shape, step))) return;
    const before = last.get(session);
    last.set(session, index);
    const problem = before === undefined ? undefined : sharing(shape, before, index, comesBefore);
    if (problem === undefined) return;
    report.add({ rule: "shared-session", ...problem, path: ["steps", index, "session"] });
  });
}

/** What is wrong with two steps in one conversation. */
function sharing(
  shape: PipelineShape,
  before: number,
  index: number,
  comesBefore: ((first: number, second: number) => boolean) | undefined,
): { readonly message: string; readonly help: string } | undefined {
  const other = shape.steps[before] as StepShape;
  const step = shape.steps[index] as StepShape;
  const both = `steps \`${other.id}\` and \`${step.id}\` share a session`;
  if (agentOf(shape, other) !== agentOf(shape, step)) {
    return { message: `${both} but not an agent`, help: "give each agent a session of its own" };
  }
  if (comesBefore === undefined || comesBefore(before, index)) return undefined;
  return comesBefore(index, before)
    ? { message: `${both} but run in another order`, help: `put \`${step.id}\` above it` }
    : {
        message: `${both} but may run at once`,
        help: `add \`needs: ${other.id}\` to \`${step.id}\``,
      };
}
