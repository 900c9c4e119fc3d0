/** The adapters, by the names of util/agent-access.ts; the compiler asks for one for each name. */
import type { ADAPTER_NAMES } from "../../util/agent-access.ts";
import { acp } from "./acp/acp.ts";
import type { AgentAdapter } from "./adapter.ts";
import { claude } from "./claude/claude.ts";
import { codex } from "./codex/codex.ts";
import { gemini } from "./gemini/gemini.ts";
import { opencode } from "./opencode/opencode.ts";
import { standIn } from "./stand-in/stand-in.ts";

const ADAPTERS: Readonly<Record<(typeof ADAPTER_NAMES)[number], AgentAdapter>> = {
  claude,
  codex,
  gemini,
  opencode,
  acp,
  "stand-in": standIn,
};

/** The adapter of an agent, or undefined where there is none of that name. */
export function agentAdapter(name: string): AgentAdapter | undefined {
  return Object.values(ADAPTERS).find((adapter) => adapter.name === name);
}
