/**
 * `node test/agents/main.ts [--all | agent...]`: the tests with real agents. Installs the agents,
 * Claude Code, Codex and Gemini CLI (also behind ACP) unless others are named, and runs the suites.
 *
 * Does not: build the program; `npm run test:agents` does.
 */
import { spawn } from "node:child_process";
import { RETRIES } from "./agent-project.ts";
import {
  AGENT_NAMES,
  type AgentName,
  acpAdaptersOf,
  agentNamesIn,
  installAgent,
} from "./install.ts";

/** Those that every change is tested with; opencode takes half a minute to start. */
const USUAL: readonly AgentName[] = ["claude", "codex", "gemini"];

async function main(words: readonly string[]): Promise<number> {
  const named = words.includes("--all") ? AGENT_NAMES : agentNamesIn(words);
  const names = named.length === 0 ? USUAL : named;
  for (const name of [...names, ...acpAdaptersOf(names)]) await installAgent(name);
  // A suite for which none of the agents will do would fail for want of tests.
  const filter = names.some((name) => RETRIES[name] !== undefined)
    ? []
    : ["real.suite", "conversation.suite", "portable.suite", "failure.suite", "permission.suite"];
  const suites = spawn("vitest", ["run", "-c", "vitest.agents.config.ts", ...filter], {
    env: { ...process.env, PERDURE_TEST_AGENTS: names.join(",") },
    stdio: "inherit",
  });
  return new Promise((done, fail) => {
    suites.on("error", fail);
    suites.on("exit", (code) => done(code ?? 1));
  });
}

process.exitCode = await main(process.argv.slice(2));
