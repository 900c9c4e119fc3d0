/** Which agents this machine has: for `doctor`. */
import { execFile } from "node:child_process";
import { AGENT_NAMES, agentAdapter } from "../runner/agents/registry.ts";

/** How long an agent may take to say its version. */
const PATIENCE_MS = 15_000;

/** A line for each agent on PATH, with its version, and one for those that are not there. */
export async function agentLines(): Promise<readonly string[]> {
  // What has no program of its own cannot be looked for.
  const names = AGENT_NAMES.filter((name) => agentAdapter(name)?.needsCommand !== true);
  const found = await Promise.all(names.map(versionOf));
  const missing = names.filter((_, index) => found[index] === undefined);
  const lines = names.flatMap((name, index) => {
    const version = found[index];
    const continues = agentAdapter(name)?.continues === true;
    const talk = continues ? "its conversations can be continued" : "it starts anew each time";
    return version === undefined ? [] : [`✓ ${name} ${version}: ${talk}`];
  });
  return missing.length === 0 ? lines : [...lines, `· not on PATH: ${missing.join(", ")}`];
}

/** What an agent says of its version; undefined when there is no such program. */
function versionOf(name: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = execFile(name, ["--version"], { timeout: PATIENCE_MS }, (error, stdout) => {
      if (error === null) resolve(/\d+(\.\d+)+\S*/.exec(stdout)?.[0] ?? "of an unknown version");
      else resolve(error.code === "ENOENT" ? undefined : "which does not say its version");
    });
    child.stdin?.end();
  });
}
