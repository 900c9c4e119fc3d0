/** All agents, by name. A new agent is a folder and a line here. */
import { acp } from "./acp/acp.ts";
import type { AgentAdapter } from "./adapter.ts";
import { claude } from "./claude/claude.ts";
import { codex } from "./codex/codex.ts";
import { gemini } from "./gemini/gemini.ts";
import { opencode } from "./opencode/opencode.ts";

const ADAPTERS: readonly AgentAdapter[] = [claude, codex, gemini, opencode, acp];

/** The names of all agents, for messages and completion. */
export const AGENT_NAMES: readonly string[] = ADAPTERS.map(({ name }) => name);

/** The adapter of an agent, or undefined where there is none of that name. */
export function agentAdapter(name: string): AgentAdapter | undefined {
  return ADAPTERS.find((adapter) => adapter.name === name);
}
