/**
 * Chooses the agent for the prompt of a DOT node, and its settings.
 *
 * Owns: the agent of the plan for a provider, model, effort and tool hooks.
 * Does not: know how agents are started (room `runner`).
 */

import type { DotNode, DotPipeline } from "../../pipeline/dot/model.ts";
import type { DotReport, DotSpan } from "../../pipeline/dot/source.ts";
import { HOOK_FORBIDS } from "../../util/agent-access.ts";
import { defined } from "../../util/defined.ts";
import { claimAgent } from "../build.ts";
import type { AgentDefinition, AgentSettings, PlanReading, Work } from "../plan.ts";
import { literal } from "./prompt.ts";

const AGENT_DEFAULT = "claude";

/** Providers by the agent that talks to their models. */
const PROVIDERS: ReadonlyMap<string, string> = new Map([
  ["anthropic", "claude"],
  ["claude", "claude"],
  ["openai", "codex"],
  ["codex", "codex"],
  ["openai-codex", "codex"],
  ["gemini", "gemini"],
  ["google", "gemini"],
  ["opencode", "opencode"],
]);

/** Providers whose models opencode calls, by its names for them. */
const OPENCODE_PROVIDERS: ReadonlyMap<string, string> = new Map([
  ["kimi", "moonshotai"],
  ["moonshot", "moonshotai"],
  ["moonshotai", "moonshotai"],
  ["zai", "zai"],
  ["zhipu", "zhipuai"],
  ["minimax", "minimax"],
  ["cerebras", "cerebras"],
  ["deepseek", "deepseek"],
  ["groq", "groq"],
  ["inception", "inception"],
  ["mistral", "mistral"],
  ["openrouter", "openrouter"],
  ["xai", "xai"],
]);

/** Without a provider, the name of the model identifies it. */
const MODELS: readonly (readonly [RegExp, string])[] = [
  [/^(claude|opus|sonnet|haiku)/i, "claude"],
  [/^(gpt|o\d|codex)/i, "codex"],
  [/^gemini/i, "gemini"],
];

/** The arguments by which each agent takes an effort; other agents have none. */
const EFFORTS: Readonly<Record<string, (effort: string) => readonly string[]>> = {
  claude: (effort) => ["--effort", effort],
  codex: (effort) => ["-c", `model_reasoning_effort=${JSON.stringify(effort)}`],
};

/** The agent of a model, if its name identifies it. */
function adapterFor(model: string | undefined): string | undefined {
  return MODELS.find(([pattern]) => model !== undefined && pattern.test(model))?.[1];
}

/** The agents of a plan, added as nodes need them. */
export class DotAgents {
  readonly definitions: Record<string, AgentDefinition> = {};
  readonly #reading: PlanReading;

  constructor(reading: PlanReading) {
    this.#reading = reading;
  }

  /** The work of a node that prompts an agent; `prompt` is a template. */
  work(named: DotNode, pipeline: DotPipeline, prompt: string, report: DotReport): Work {
    const { settings, attributes } = pipeline;
    const node = withDefaults(named, settings);
    const { adapter, model } = this.#chosen(node, pipeline, report);
    const elsewhere =
      attributes.get("reasoning_effort")?.value.span ??
      attributes.get("model_stylesheet")?.key.span;
    const args = [
      ...effortArgs(adapter, node, elsewhere, report),
      ...hookArgs(adapter, node, settings, report),
      ...oneCallArgs(adapter, node),
      ...budgetArgs(adapter, node, report),
    ];
    const own: AgentSettings = {
      ...defined({ model }),
      ...toolSettings(adapter, node, report),
      ...(node.systemPrompt === undefined ? {} : { system: literal(node.systemPrompt) }),
      ...(node.maxTurns === undefined ? {} : { maxTurns: Math.max(1, node.maxTurns) }),
    };
    return { kind: "agent", agent: this.#claim(adapter, args), prompt, settings: own };
  }

  /** The agent for a node, and the model by the name that this agent has for it. */
  #chosen(
    { llmProvider, llmModel: model, attributes, span }: DotNode,
    pipeline: DotPipeline,
    report: DotReport,
  ): { readonly adapter: string; readonly model: string | undefined } {
    const provider = llmProvider?.trim().toLowerCase();
    const known = PROVIDERS.get(provider ?? "");
    if (known !== undefined) return { adapter: known, model };
    const { agent, simulate } = this.#reading;
    const named = OPENCODE_PROVIDERS.get(provider ?? "");
    if (agent === undefined && named !== undefined && model !== undefined) {
      return { adapter: "opencode", model: model.includes("/") ? model : `${named}/${model}` };
    }
    const chosen = agent ?? adapterFor(model) ?? AGENT_DEFAULT;
    if (provider !== undefined && agent === undefined) {
      const written = attributes.get("llm_provider") ?? pipeline.attributes.get("llm_provider");
      const place = written?.value.span ?? span;
      const message =
        named === undefined
          ? `no agent is known for the provider \`${llmProvider}\``
          : `opencode needs a model for the provider \`${llmProvider}\``;
      const help = "choose an agent: perdure run FILE --agent NAME";
      // Another provider would be paid for what the author wanted of this one.
      if (simulate === undefined) report.error(place, "unknown-provider", message, help);
      else report.warn(place, "unknown-provider", message, help);
    }
    return { adapter: chosen, model };
  }

  #claim(adapter: string, args: readonly string[]): string {
    const { permissions } = this.#reading;
    const settings = permissions === undefined ? {} : { permissions };
    const definition: AgentDefinition = { adapter, args, env: {}, settings };
    const nameAt = (number: number) => (number === 1 ? adapter : `${adapter}-${number}`);
    return claimAgent(this.definitions, definition, nameAt);
  }
}

/**
 * The node with the agent settings of its graph where it has none; those of a stylesheet are its own.
 * The model of a node says more about its provider than the graph does.
 */
function withDefaults(
  node: DotNode,
  { llmModel, reasoningEffort, ...graph }: DotPipeline["settings"],
): DotNode {
  const llmProvider = adapterFor(node.llmModel) ?? graph.llmProvider;
  return { ...defined({ llmModel, llmProvider, reasoningEffort }), ...node };
}

function effortArgs(
  adapter: string,
  node: DotNode,
  elsewhere: DotSpan | undefined,
  report: DotReport,
): readonly string[] {
  const { reasoningEffort, attributes, span } = node;
  if (reasoningEffort === undefined) return [];
  const args = EFFORTS[adapter]?.(reasoningEffort);
  if (args !== undefined) return args;
  const place = attributes.get("reasoning_effort")?.value.span ?? elsewhere ?? span;
  const message = `${adapter} has no setting for how hard to think; \`reasoning_effort\` is ignored`;
  report.warn(place, "unsupported", message);
  return [];
}

/** A hook of Claude Code forbids a call with exit status 2; in the language any but 0 does. */
const PRE_HOOK_BEGIN = "( ";
const PRE_HOOK_END = `\n) || { echo '${HOOK_FORBIDS}' >&2; exit 2; }`;

/** The commands around each tool call of the model. */
function hookArgs(
  adapter: string,
  node: DotNode,
  settings: DotPipeline["settings"],
  report: DotReport,
): readonly string[] {
  const pre = node.toolHookPre ?? settings.toolHookPre;
  const post = node.toolHookPost ?? settings.toolHookPost;
  if (pre === undefined && post === undefined) return [];
  if (adapter !== "claude") {
    const place = node.attributes.get("tool_hooks.pre")?.span ?? node.span;
    const message = `${adapter} has no hooks around its tool calls; those of \`${node.id}\` do not run`;
    report.warn(place, "unsupported", message, "they run where the provider is anthropic");
    return [];
  }
  const hook = (command: string) => [{ matcher: "*", hooks: [{ type: "command", command }] }];
  const hooks = {
    ...(pre === undefined ? {} : { PreToolUse: hook(`${PRE_HOOK_BEGIN}${pre}${PRE_HOOK_END}`) }),
    ...(post === undefined ? {} : { PostToolUse: hook(post) }),
  };
  return ["--settings", JSON.stringify({ hooks })];
}

/** A model that is called once has no tools. */
function oneCallArgs(adapter: string, { oneCall }: DotNode): readonly string[] {
  return oneCall && adapter === "claude" ? ["--tools", "", "--strict-mcp-config"] : [];
}

/** What an agent may do: the tools that its node names, or nothing but read. */
function toolSettings(
  adapter: string,
  { id, oneCall, allowedTools, attributes, span }: DotNode,
  report: DotReport,
): Pick<AgentSettings, "permissions" | "tools"> {
  if (oneCall) {
    if (adapter === "claude") return {};
    const message = `${adapter} always has tools; in \`${id}\` it may only read`;
    const place = attributes.get("codergen_mode") ?? attributes.get("shape");
    report.warn(place?.span ?? span, "unsupported", message);
    return { permissions: "plan" };
  }
  if (allowedTools === undefined) return {};
  if (adapter !== "codex") return { tools: { allow: allowedTools, deny: [] } };
  const place = attributes.get("allowed_tools")?.span ?? span;
  const message = `${adapter} takes no list of tools; \`allowed_tools\` of \`${id}\` is ignored`;
  report.warn(place, "unsupported", message);
  return {};
}

function budgetArgs(
  adapter: string,
  { id, maxBudgetUsd, attributes, span }: DotNode,
  report: DotReport,
): readonly string[] {
  if (maxBudgetUsd === undefined) return [];
  if (adapter === "claude") return ["--max-budget-usd", String(maxBudgetUsd)];
  const place = attributes.get("max_budget_usd")?.span ?? span;
  const message = `${adapter} has no budget for one stage; \`max_budget_usd\` of \`${id}\` is ignored`;
  const help = "set `max_budget_usd` on the graph: it is for the whole run";
  report.warn(place, "unsupported", message, help);
  return [];
}
