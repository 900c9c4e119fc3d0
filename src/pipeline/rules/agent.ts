/**
 * The rules on agents and on agent steps: their work, settings and conversations.
 *
 * Owns: these rules.
 * Does not: read the files that the settings name (rules/named-file.ts).
 */
import { ADAPTER_NAMES, PROTOCOL_ADAPTER, UNDECLARED_AGENTS } from "../../util/agent-access.ts";
import { ACCESS_KEYS, type AccessKey, AGENT_KEY_NAMES, inabilityOf } from "../agent-keys.ts";
import type { Path, Report } from "../diagnostic.ts";
import { reportJsonSchema } from "../json-schema.ts";
import type { PipelineShape, StepShape } from "../schema.ts";
import { stepInWords } from "../shape.ts";
import { isCut, pathIn, type StepList } from "../step-list.ts";
import type { ExpressionPosition, ExpressionRules } from "./expression.ts";
import { inFile, type NamedFiles } from "./named-file.ts";

type AgentShape = Exclude<NonNullable<PipelineShape["agents"]>[string], string>;

/** The agent of a step: the one that it names, or the default agent. */
export function agentOf(shape: PipelineShape, step: StepShape): string | undefined {
  const asks = step.prompt !== undefined || step.prompt_file !== undefined;
  return step.agent ?? (asks && step.run === undefined ? shape.defaults?.agent : undefined);
}

/** An agent is a command, or has an adapter. */
export function checkAgent(agent: AgentShape, path: Path, report: Report): void {
  if (agent.adapter === PROTOCOL_ADAPTER && agent.command === undefined) {
    const message = `\`adapter: ${PROTOCOL_ADAPTER}\` needs the \`command\` that starts the agent`;
    const help = 'add `command:`, for example "opencode acp" or "gemini --acp"';
    report.add({ rule: "agent-command", message, help, path: [...path, "adapter"] });
  }
  if (agent.adapter !== undefined) {
    for (const key of ACCESS_KEYS) {
      if (agent[key] !== undefined) checkAbility(agent.adapter, key, [...path, key], report);
    }
    return;
  }
  if (agent.command === undefined) {
    const message = "the agent has neither `command` nor `adapter`";
    const help = `add \`command:\` with a program, or \`adapter:\` with one of ${ADAPTER_NAMES.join(", ")}`;
    report.add({ rule: "agent-command", message, help, path, on: "key" });
  }
  for (const key of ["args", ...AGENT_KEY_NAMES] as const) {
    if (agent[key] === undefined) continue;
    const message = `\`${key}\` has no effect on an agent that is only a command`;
    const help = key === "args" ? "write them into `command`" : "add `adapter:`, or leave it out";
    report.add({ rule: "agent-setting", message, help, path: [...path, key], on: "key" });
  }
}

/** Adds the mistakes in the texts of an agent's settings. */
export function checkSettings(
  {
    system,
    system_file: name,
    output_schema: schema,
    mcp,
    directories,
  }: Pick<StepShape, "system" | "system_file" | "output_schema" | "mcp" | "directories">,
  position: ExpressionPosition,
  around: {
    readonly rules: ExpressionRules;
    readonly report: Report;
    readonly files: Pick<NamedFiles, "texts">;
  },
): void {
  const { rules, report, files } = around;
  const at = (key: string): ExpressionPosition => ({ ...position, path: [...position.path, key] });
  if (system !== undefined) rules.text(system, at("system"));
  const text = name === undefined ? undefined : files.texts.get(name);
  if (name !== undefined && text !== undefined) {
    rules.into(inFile(report, name, text)).text(text, at("system_file"));
  }
  if (name !== undefined && system !== undefined) {
    const message = "both `system` and `system_file` are given";
    const { path } = at("system_file");
    report.add({ rule: "system-file", message, help: "leave one of them out", path, on: "key" });
  }
  if (typeof mcp !== "string") rules.texts(mcp, at("mcp"));
  rules.texts(directories, at("directories"));
  if (typeof schema === "object") reportJsonSchema(schema, at("output_schema").path, report);
}

/** The default agent must exist. */
export function checkDefaultAgent(
  shape: PipelineShape,
  cut: ReadonlySet<string>,
  report: Report,
): void {
  const agent = shape.defaults?.agent;
  if (agent === undefined || cut.has("agents")) return;
  checkName(agent, ["defaults", "agent"], shape, report);
}

/** Reports an agent that is neither declared nor known; true when it is. */
export function checkName(
  agent: string,
  path: Path,
  shape: PipelineShape,
  report: Report,
): boolean {
  const known = [...Object.keys(shape.agents ?? {}), ...UNDECLARED_AGENTS];
  if (known.includes(agent)) return true;
  const help = report.suggest(agent, known, "declare it under `agents`; known agents");
  report.add({ rule: "unknown-agent", message: `there is no agent \`${agent}\``, help, path });
  return false;
}

/** A step runs either a command or an agent, with the keys that belong to it. */
export function checkWork(
  shape: PipelineShape,
  list: StepList,
  index: number,
  report: Report,
): void {
  const at = (key: string): Path => pathIn(list, index, key);
  const { cut } = list;
  const keys = [
    "run",
    "agent",
    "prompt",
    "prompt_file",
    "steps",
    "pipeline",
    "for_each",
    "gate",
    "wait",
  ];
  if (isCut(list, index, ...keys) || cut.has("defaults.agent")) return;
  const step = list.steps[index] as StepShape;
  const problem = workProblem(step, agentOf(shape, step));
  if (problem !== undefined) {
    const { key, on, ...words } = problem;
    report.add({ rule: "step-work", ...words, path: at(key), on });
  }
  checkAgentSettings(shape, list, index, report);
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
    message: `${stepInWords(id)} ${message}`,
    help,
    key,
    on: key === "id" ? "value" : "key",
  });
  if (run !== undefined && step.agent !== undefined) {
    return problem("has both `run` and `agent`", "split it into two steps", "agent");
  }
  if (run !== undefined && asks) {
    return problem(`has both \`run\` and \`${asking}\``, "split it into two steps", asking);
  }
  if (prompt !== undefined && prompt_file !== undefined) {
    return problem("has both `prompt` and `prompt_file`", "leave one of them out", "prompt_file");
  }
  if (run === undefined && agent === undefined) {
    if (asks) {
      const help = "add `agent:`, or `agent:` under `defaults:` for all steps";
      return problem(`has a \`${asking}\` but no agent`, help, asking);
    }
    const help = "add `run:` with a command, `agent:` and `prompt:`, or `gate:` with a question";
    return problem("has neither `run` nor `agent`", help, "id");
  }
  if (run === undefined && !asks) {
    return problem("names an agent but has no `prompt`", "add `prompt:`", "agent");
  }
  return undefined;
}

/** Settings of an agent need an agent that supports them. */
function checkAgentSettings(
  shape: PipelineShape,
  list: StepList,
  index: number,
  report: Report,
): void {
  const step = list.steps[index] as StepShape;
  const agent = agentOf(shape, step);
  if (conversationsOf(shape, list.cut, agent)) {
    checkAccess(shape, list, index, report);
    return;
  }
  for (const key of ["session", ...AGENT_KEY_NAMES] as const) {
    if (step[key] === undefined) continue;
    const whose =
      agent === undefined ? "a step without an agent" : "an agent that is only a command";
    const message = `\`${key}\` has no effect on ${whose}`;
    const path = pathIn(list, index, key);
    report.add({ rule: "agent-setting", message, help: "leave it out", path, on: "key" });
  }
  if (typeof step.retry !== "object" || step.retry.conversation === undefined) return;
  const message = "`conversation` has no effect on a step without a conversation";
  const path = pathIn(list, index, "retry", "conversation");
  report.add({ rule: "agent-setting", message, help: "leave it out", path, on: "key" });
}

/** The adapter of a step's agent must support each key (access/A1). */
function checkAccess(shape: PipelineShape, list: StepList, index: number, report: Report): void {
  const step = list.steps[index] as StepShape;
  const name = agentOf(shape, step) ?? "";
  const declared = shape.agents?.[name];
  const own: Partial<AgentShape> = typeof declared === "object" ? declared : {};
  const adapter = own.adapter ?? name;
  const at = (key: string): Path => pathIn(list, index, key);
  for (const key of ACCESS_KEYS) {
    if (step[key] !== undefined) checkAbility(adapter, key, at(key), report);
    else if (own[key] === undefined && shape.defaults?.[key] !== undefined) {
      checkAbility(adapter, key, ["defaults", key], report, `, which step \`${step.id}\` uses`);
    }
  }
  const level = step.permissions ?? own.permissions ?? shape.defaults?.permissions;
  if (adapter !== "codex" || level !== undefined || step.output_schema !== undefined) return;
  report.add({
    rule: "read-only-agent",
    severity: "warning",
    message: `step \`${step.id}\` cannot change files: by default, codex works in a read-only sandbox`,
    help: "add `permissions: edit` or `all`, or `permissions: plan` if it should only read",
    path: step.agent === undefined ? at("id") : at("agent"),
  });
}

function checkAbility(
  adapter: string,
  key: AccessKey,
  path: Path,
  report: Report,
  whose = "",
): void {
  const inability = inabilityOf(adapter, key);
  if (inability === undefined) return;
  const message = `\`${key}\` has no effect on ${adapter}${whose}: ${inability.why}`;
  report.add({ rule: "agent-setting", message, help: inability.help, path, on: "key" });
}

/** Whether the agent has an adapter, as far as the file shows. */
export function conversationsOf(
  shape: PipelineShape,
  cut: ReadonlySet<string>,
  agent: string | undefined,
): boolean {
  if (agent === undefined) return false;
  const declared = shape.agents?.[agent];
  if (declared === undefined || cut.has(`agents.${agent}`)) return true;
  return typeof declared !== "string" && declared.adapter !== undefined;
}

/** Steps in one conversation have one agent and run one after the other, in the file's order. */
export function checkSessions(
  shape: PipelineShape,
  list: StepList,
  comesBefore: ((first: number, second: number) => boolean) | undefined,
  report: Report,
): void {
  const last = new Map<string, number>();
  list.steps.forEach((step, index) => {
    const { session } = step;
    if (session === undefined || isCut(list, index)) return;
    // Another rule reports that a session has no effect on this step.
    if (!conversationsOf(shape, list.cut, agentOf(shape, step))) return;
    const before = last.get(session);
    last.set(session, index);
    const other = before === undefined ? undefined : list.steps[before];
    if (before === undefined || other === undefined) return;
    const order = orderOf(comesBefore, before, index);
    const problem = sharing(shape, other, step, order);
    if (problem === undefined) return;
    report.add({ rule: "shared-session", ...problem, path: pathIn(list, index, "session") });
  });
}

type Order = "in-order" | "reversed" | "at-once";

function orderOf(
  comesBefore: ((first: number, second: number) => boolean) | undefined,
  before: number,
  index: number,
): Order {
  if (comesBefore === undefined || comesBefore(before, index)) return "in-order";
  return comesBefore(index, before) ? "reversed" : "at-once";
}

/** The mistakes of two steps in one conversation. */
function sharing(
  shape: PipelineShape,
  other: StepShape,
  step: StepShape,
  order: Order,
): { readonly message: string; readonly help: string } | undefined {
  const both = `steps \`${other.id}\` and \`${step.id}\` share a session`;
  if (agentOf(shape, other) !== agentOf(shape, step)) {
    return { message: `${both} but not an agent`, help: "give each agent a session of its own" };
  }
  if (order === "in-order") return undefined;
  return order === "reversed"
    ? { message: `${both} but run in reverse order`, help: `put \`${step.id}\` above it` }
    : {
        message: `${both} but may run at the same time`,
        help: `add \`needs: ${other.id}\` to \`${step.id}\``,
      };
}
