/**
 * Chooses the agent for the prompt of a DOT node, and its settings.
 *
 * Owns: the agent of the plan for a provider, model, effort and tool hooks.
 * Does not: know how agents are started (room `runner`).
 */

import type { DotNode, DotPipeline, DotSettings } from "../../pipeline/dot/model.ts";
import type { DotSpan } from "../../pipeline/dot/source.ts";
import { HOOK_FORBIDS } from "../../util/agent-access.ts";
import { defined } from "../../util/defined.ts";
import { canonicalJson } from "../../util/json.ts";
import type { AgentDefinition, AgentSettings, PlanReading, Work } from "../plan.ts";
import { literal } from "./prompt.ts";
import type { DotReport } from "./report.ts";

const AGENT_DEFAULT = "claude";

/** Providers by the agent that talks to their models. */
const PROVIDERS: ReadonlyMap<string, string> = new Map([
  ["anthropic", "claude"],
  ["claude", "claude"],
  ["openai", "codex"],
  ["codex", "codex"],
  ["gemini", "gemini"],
  ["google", "gemini"],
  ["opencode", "opencode"],
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

/** The agent without a provider or a known model. */
function usualAdapter(model: string | undefined): string {
  const byModel = MODELS.find(([pattern]) => model !== undefined && pattern.test(model));
  return byModel?.[1] ?? AGENT_DEFAULT;
}

/** The agents of a plan, added as nodes need them. */
export class DotAgents {
  readonly definitions: Record<string, AgentDefinition> = {};
  readonly #reading: PlanReading;

  constructor(reading: PlanReading) {
    this.#reading = reading;
  }

  /** The work of a node that prompts an agent; `prompt` is a template. */
  work(
    node: DotNode,
    { settings, attributes }: DotPipeline,
    prompt: string,
    report: DotReport,
  ): Work {
    const adapter = this.#adapterOf(node, report);
    const args = [
      ...effortArgs(adapter, node, attributes.get("model_stylesheet")?.key.span, report),
      ...hookArgs(adapter, node, settings, report),
    ];
    const own: AgentSettings = {
      ...defined({ model: node.llmModel }),
      ...(node.systemPrompt === undefined ? {} : { system: literal(node.systemPrompt) }),
      ...(node.maxTurns === undefined ? {} : { maxTurns: Math.max(1, node.maxTurns) }),
    };
    return { kind: "agent", agent: this.#claim(adapter, args), prompt, settings: own };
  }

  #adapterOf({ llmProvider, llmModel, attributes, span }: DotNode, report: DotReport): string {
    const provider = llmProvider?.trim().toLowerCase();
    const known = provider === undefined ? undefined : PROVIDERS.get(provider);
    if (known !== undefined) return known;
    const chosen = this.#reading.agent ?? usualAdapter(llmModel);
    if (provider !== undefined) {
      const place = attributes.get("llm_provider")?.value.span ?? span;
      const message = `no agent is known for the provider \`${llmProvider}\`; ${chosen} is used`;
      report.warn(place, "unknown-provider", message, "choose one: perdure run FILE --agent NAME");
    }
    return chosen;
  }

  #claim(adapter: string, args: readonly string[]): string {
    const { permissions } = this.#reading;
    const settings = permissions === undefined ? {} : { permissions };
    const definition: AgentDefinition = { adapter, args, env: {}, settings };
    const text = canonicalJson(definition);
    for (let number = 1; ; number++) {
      const name = number === 1 ? adapter : `${adapter}-${number}`;
      const taken = Object.hasOwn(this.definitions, name) ? this.definitions[name] : undefined;
      if (taken !== undefined && canonicalJson(taken) !== text) continue;
      this.definitions[name] = definition;
      return name;
    }
  }
}

function effortArgs(
  adapter: string,
  node: DotNode,
  stylesheet: DotSpan | undefined,
  report: DotReport,
): readonly string[] {
  const { reasoningEffort, attributes, span } = node;
  if (reasoningEffort === undefined) return [];
  const args = EFFORTS[adapter]?.(reasoningEffort);
  if (args !== undefined) return args;
  const place = attributes.get("reasoning_effort")?.value.span ?? stylesheet ?? span;
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
  settings: DotSettings,
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
