/**
 * Installs the agents and the ACP adapters that the tests with real agents run, each by exact
 * version, into a cache that git does not see.
 *
 * Owns: which version of which package is "the" agent, and where it lies. An installation is
 * `<cache>/<name>-<version>/bin/<name>`, so that its `bin` can be put on a PATH.
 * Does not: configure an agent, log in, or run it beyond `--version`.
 *
 * Invariants:
 * - install/A1 a directory of the cache is whole or absent: it is filled under another name,
 *   started once (`--version` must answer) and then renamed. Two installers at once are harmless.
 * - install/A2 nothing that a package brings is run at installation, and nothing below the repo
 *   changes but the cache.
 *
 * As a program: `node test/agents/install.ts claude codex` prints a JSON line for each.
 */
import { execFile } from "node:child_process";
import * as fs from "node:fs";
import { homedir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
/** Not under node_modules: whatever clears that would fetch a gigabyte again. */
const CACHE_DEFAULT = join(homedir(), ".cache", "perdure-agents");
/** The largest package has 150 MB to fetch. */
const INSTALL_MS_MAX = 600_000;
const START_MS_MAX = 60_000;
const PLATFORM = `${process.platform}-${process.arch}`;

export const AGENT_NAMES = ["claude", "codex", "opencode", "gemini"] as const;
export type AgentName = (typeof AGENT_NAMES)[number];
/** Programs that put an agent behind the Agent Client Protocol; they run the agent above. */
const ACP_ADAPTERS = { "claude-agent-acp": "claude", "codex-acp": "codex" } as const;
export type AcpAdapterName = keyof typeof ACP_ADAPTERS;
type PackageName = AgentName | AcpAdapterName;

interface AgentPackage {
  readonly version: string;
  /** What npm is asked for: the package that holds the native program, without its wrapper. */
  readonly spec: (version: string) => string;
  /** The program inside node_modules; one `*` stands for one directory. */
  readonly program: string;
}

const PACKAGES: Readonly<Record<PackageName, AgentPackage>> = {
  claude: {
    version: "2.1.325",
    spec: (version) => `@anthropic-ai/claude-code-${PLATFORM}@${version}`,
    program: `@anthropic-ai/claude-code-${PLATFORM}/claude`,
  },
  codex: {
    version: "0.166.0",
    // Codex publishes its native programs as versions of the wrapper's own package.
    spec: (version) => `@openai/codex@${version}-${PLATFORM}`,
    program: "@openai/codex/vendor/*/bin/codex",
  },
  opencode: {
    version: "1.18.33",
    spec: (version) => `opencode-${PLATFORM}@${version}`,
    program: `opencode-${PLATFORM}/bin/opencode`,
  },
  gemini: {
    version: "0.61.0",
    spec: (version) => `@google/gemini-cli@${version}`,
    program: "@google/gemini-cli/bundle/gemini.js",
  },
  "claude-agent-acp": {
    version: "0.99.1",
    spec: (version) => `@agentclientprotocol/claude-agent-acp@${version}`,
    program: "@agentclientprotocol/claude-agent-acp/dist/index.js",
  },
  "codex-acp": {
    version: "2.6.0",
    spec: (version) => `@agentclientprotocol/codex-acp@${version}`,
    program: "@agentclientprotocol/codex-acp/dist/index.js",
  },
};

/** The path of an agent's program, installed now if the cache does not have it. */
export async function installAgent(name: PackageName, version = versionOf(name)): Promise<string> {
  const home = homeOf(name, version);
  const program = join(home, "bin", name);
  if (fs.existsSync(program)) return program;
  fs.mkdirSync(dirname(home), { recursive: true });
  const draft = fs.mkdtempSync(`${home}.draft-`);
  try {
    await fetchPackage(PACKAGES[name].spec(version), draft);
    linkProgram(name, draft);
    await startedVersion(join(draft, "bin", name));
    publish(draft, home);
  } finally {
    fs.rmSync(draft, { recursive: true, force: true });
  }
  return program;
}

/** Words as names of agents; a word that is none is a mistake. */
export function agentNamesIn(words: readonly string[]): readonly AgentName[] {
  return words.map((word) => {
    const found = AGENT_NAMES.find((name) => name === word);
    if (found !== undefined) return found;
    throw new Error(`unknown agent ${word}; the agents are ${AGENT_NAMES.join(", ")}`);
  });
}

/** The ACP adapters of these agents. */
export function acpAdaptersOf(agents: readonly AgentName[]): readonly AcpAdapterName[] {
  const names = Object.keys(ACP_ADAPTERS) as AcpAdapterName[];
  return names.filter((name) => agents.includes(ACP_ADAPTERS[name]));
}

/** The version that our tests were written against. */
function versionOf(name: PackageName): string {
  return PACKAGES[name].version;
}

/** What a program says of itself; it fails if the program does not start. */
async function startedVersion(program: string): Promise<string> {
  const scratch = fs.mkdtempSync(`${dirname(dirname(program))}.home-`);
  try {
    const env = {
      PATH: `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
      HOME: scratch,
      TMPDIR: scratch,
      // Without these, opencode writes beside the real home and gemini starts itself twice.
      XDG_DATA_HOME: scratch,
      XDG_CACHE_HOME: scratch,
      GEMINI_CLI_NO_RELAUNCH: "true",
      DISABLE_AUTOUPDATER: "1",
      OPENCODE_DISABLE_AUTOUPDATE: "1",
    };
    const { stdout } = await run(program, ["--version"], { env, timeout: START_MS_MAX });
    return stdout.trim();
  } finally {
    fs.rmSync(scratch, { recursive: true, force: true });
  }
}

function homeOf(name: PackageName, version: string): string {
  const cache = process.env.PERDURE_AGENT_CACHE;
  return join(
    resolve(cache === undefined || cache === "" ? CACHE_DEFAULT : cache),
    `${name}-${version}`,
  );
}

async function fetchPackage(spec: string, draft: string): Promise<void> {
  // A manifest of its own keeps npm from walking up to the repo's.
  fs.writeFileSync(join(draft, "package.json"), '{ "private": true }\n');
  const options = ["--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund"];
  const args = ["install", "--prefix", draft, "--save-exact", "--loglevel=error", ...options, spec];
  await run("npm", args, { cwd: draft, timeout: INSTALL_MS_MAX });
}

/** Puts the program under its plain name; the link is relative, so it survives the rename. */
function linkProgram(name: PackageName, draft: string): void {
  const modules = join(draft, "node_modules");
  const [program] = fs.globSync(PACKAGES[name].program, { cwd: modules });
  if (program === undefined)
    throw new Error(`${name}: no ${PACKAGES[name].program} in its package`);
  const bin = join(draft, "bin");
  fs.mkdirSync(bin);
  fs.chmodSync(join(modules, program), 0o755);
  fs.symlinkSync(relative(bin, join(modules, program)), join(bin, name));
}

/** install/A1: whoever comes second finds the place taken and uses it. */
function publish(draft: string, home: string): void {
  try {
    fs.renameSync(draft, home);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw error;
  }
}

async function main(args: readonly string[]): Promise<void> {
  const names = args.length === 0 ? AGENT_NAMES : agentNamesIn(args);
  for (const name of [...names, ...acpAdaptersOf(names)]) {
    const program = await installAgent(name);
    console.log(JSON.stringify({ name, program, says: await startedVersion(program) }));
  }
}

if (import.meta.main) await main(process.argv.slice(2));
