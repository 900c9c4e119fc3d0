/**
 * The check before the first step is paid for: the agents and programs that a plan names are installed,
 * the agents are logged in, the directories that they are given exist, and sandboxes can be made.
 *
 * Owns: the checks, the findings that stop a run, the remedies, and how each agent is installed and
 * logs in.
 * Does not: start an agent or read a secret; it only looks at directories and variables, and makes an
 *   empty sandbox.
 * Invariants:
 * - preflight/F1 Only a certain failure stops a run. A step that may be skipped, and a program that
 *   an earlier step names and so may install, give a warning. An unknown is a note.
 * - preflight/F2 A plan without agents costs nothing to fail, so only its sandboxes are checked.
 */
import { existsSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { mountPath } from "../engine/sandbox.ts";
import { edgeAt, graphsIn, graphsOf, indexOf, stepAt } from "../plan/graph-index.ts";
import { type AgentDefinition, checksOf, type Graph, type Plan, type Step } from "../plan/plan.ts";
import { type PriceList, windowOf } from "../runner/agents/usage.ts";
import { sandboxProblem } from "../runner/process/sandbox.ts";
import type { KnownAgent } from "../util/agent-access.ts";
import { agentsAsked } from "./prices.ts";
import { after, Refusal, when } from "./refusal.ts";

const EXECUTABLE = 0o111;

/** The result of one check. */
export interface Finding {
  /** `missing` stops a run, `doubtful` gives a warning, `unknown` a note. */
  readonly state: "there" | "missing" | "doubtful" | "unknown";
  readonly text: string;
  readonly remedy?: string;
}

interface PreflightOptions {
  /** The directory of the run. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The prices of models; if absent, prices are not checked. */
  readonly prices?: PriceList;
  /** Steps of the plan's own graph that will not run again. */
  readonly isDone?: (step: string) => boolean;
}

/** A step that has not run yet, and whether it certainly will. */
interface Ahead {
  readonly step: Step;
  readonly certain: boolean;
  /** The commands and prompts of the steps before it in the file, which may install something. */
  readonly before: string;
}

/** Checks everything that a plan needs, in the order of its steps. */
export function preflight(plan: Plan, site: PreflightOptions): readonly Finding[] {
  const ahead = graphsOf(plan).flatMap((graph) => [
    ...stepsAhead(graph, { certain: graph === plan.graph, before: "" }, site.isDone),
  ]);
  const hasAgents = ahead.some(({ step }) => step.work.kind === "agent");
  const found = new Map<string, Finding>();
  for (const one of ahead) {
    const others = hasAgents ? findingsOf(plan, one, site) : [];
    for (const finding of [...sandboxFindings(one, site), ...others]) {
      const known = found.get(finding.text);
      // Of several findings with one text, the worse one counts.
      if (known === undefined || known.state === "doubtful") found.set(finding.text, finding);
    }
  }
  return [...found.values()];
}

/** Throws a refusal that names what is missing and the remedy; returns the warnings. */
export function requireReady(
  plan: Plan,
  site: PreflightOptions,
  typed: readonly string[],
): readonly string[] {
  const found = preflight(plan, site);
  const missing = found.filter(({ state }) => state === "missing");
  const [first] = missing;
  if (first !== undefined) {
    const message = `nothing was started: ${missing.map(({ text }) => text).join("; ")}`;
    const remedies = missing.flatMap(({ remedy }) => remedy ?? []).join("; ");
    throw new Refusal("not-ready", message, [
      after(remedies, ...typed),
      when("if a step provides it", ...typed, "--no-preflight"),
    ]);
  }
  return found.filter(({ state }) => state === "doubtful").map(warning);
}

function warning({ text, remedy }: Finding): string {
  return `warning: ${text}${remedy === undefined ? "" : ` (${remedy})`}`;
}

/** The steps of a graph in order; the steps inside a step follow it. */
function* stepsAhead(
  graph: Graph,
  around: { readonly certain: boolean; readonly before: string },
  isDone: (step: string) => boolean = () => false,
): Generator<Ahead> {
  const sure = certainSteps(graph);
  let { before } = around;
  for (const [position, step] of graph.steps.entries()) {
    const certain = around.certain && sure.has(position) && step.when === undefined;
    if (!isDone(step.id)) {
      yield { step, certain, before };
      // A fan-out or a loop may have no item or iteration, and a join may need only one branch.
      const inside = certain && step.work.kind === "pipeline";
      for (const inner of graphsIn(step.work)) {
        yield* stepsAhead(inner, { certain: inside, before });
      }
    }
    before += `\n${textOf(step)}`;
  }
}

/** The command or the prompt of a step. */
function textOf({ work }: Step): string {
  return work.kind === "shell" ? work.run : work.kind === "agent" ? work.prompt : "";
}

/** The steps that a run reaches whatever its steps report, as long as they succeed. */
function certainSteps(graph: Graph): ReadonlySet<number> {
  const { entries, outgoing } = indexOf(graph);
  const certain = new Set(entries);
  for (const position of certain) {
    const edges = (outgoing[position] ?? []).map((index) => edgeAt(graph, index));
    const forward = edges.filter(({ on, back }) => on === "completed" && !back);
    const one = stepAt(graph, position).split === "one" && forward.length > 1;
    for (const { to, condition } of forward) if (!one && condition === undefined) certain.add(to);
  }
  return certain;
}

/** The sandbox of a step and its mounts. */
function sandboxFindings({ step, certain }: Ahead, site: PreflightOptions): readonly Finding[] {
  const { runsIn } = step;
  if (runsIn === undefined) return [];
  const state = certain ? "missing" : "doubtful";
  const name = runsIn.image === undefined ? "bubblewrap" : "docker or podman";
  const problem = sandboxProblem(runsIn);
  const paths = (runsIn.mounts ?? []).map((one) => mountPath(one, site.cwd, site.env.HOME));
  return [
    problem === undefined
      ? { state: "there", text: `${name} works (step ${step.id})` }
      : { state, text: `${problem} (step ${step.id})`, remedy: SANDBOX_REMEDIES[name] },
    ...paths.map((path): Finding => {
      if (existsSync(path)) return { state: "there", text: `the mount ${path} exists` };
      return { state: "doubtful", text: `there is no ${path} to mount (step ${step.id})` };
    }),
  ];
}

const SANDBOX_REMEDIES = {
  bubblewrap: "install the package bubblewrap and allow user namespaces",
  "docker or podman": "start docker, or install podman",
} as const;

function findingsOf(plan: Plan, ahead: Ahead, site: PreflightOptions): readonly Finding[] {
  const { step } = ahead;
  const { work } = step;
  const checked = checksOf(step).flatMap((one) => (one.kind === "command" ? [one.run] : []));
  const programs = [...(work.kind === "shell" ? [work.run] : []), ...checked].flatMap((text) =>
    programFinding(plan, ahead, site, text),
  );
  const agents = agentsAsked(step).flatMap(({ agent, settings }) => {
    const definition = plan.agents[agent];
    if (definition === undefined) return [];
    const called = { ...definition, settings: { ...definition.settings, ...settings } };
    return agentFindings(plan, ahead, called, site);
  });
  return [...agents, ...programs];
}

/** Words that a shell does not look for on the PATH. */
const BUILT_IN = new Set(
  (
    "alias bg break case cd command continue do done echo elif else esac eval exec exit export " +
    "false fg fi for function getopts hash if in jobs kill local printf pwd read readonly return " +
    "set shift source test then times trap true type ulimit umask unalias unset until wait while"
  ).split(" "),
);

/** The program that a shell text starts first, if the text is simple enough to tell. */
function plainProgram(text: string): string | undefined {
  const [, word = ""] = /^\s*([\w.+-]+)(?=\s|$)/.exec(text) ?? [];
  const simple = !/\n|\|\||\$\{\{/.test(text.trim());
  return word === "" || !simple || BUILT_IN.has(word) ? undefined : word;
}

function programFinding(
  plan: Plan,
  ahead: Ahead,
  site: PreflightOptions,
  text: string,
): readonly Finding[] {
  // The programs of an image are not on the PATH of this machine.
  if (ahead.step.runsIn?.image !== undefined) return [];
  const program = plainProgram(text);
  const path = program === undefined ? undefined : pathFor(plan, ahead.step, {}, site);
  if (program === undefined || path === undefined) return [];
  if (isOnPath(program, path)) return [{ state: "there", text: `${program} is on the PATH` }];
  const state = stateOf(ahead, program);
  const missing = `${program} is not on the PATH (step ${ahead.step.id})`;
  return [{ state, text: missing, remedy: `install ${program}` }];
}

/** A program is only doubtful if an earlier step names it and so may install it (preflight/F1). */
function stateOf({ certain, before }: Ahead, name: string): "missing" | "doubtful" {
  return certain && !before.includes(name) ? "missing" : "doubtful";
}

function agentFindings(
  plan: Plan,
  ahead: Ahead,
  definition: AgentDefinition,
  site: PreflightOptions,
): readonly Finding[] {
  const { adapter, env } = definition;
  const known = agentProgram(adapter);
  const set = { ...site.env, ...plan.env, ...env, ...ahead.step.env };
  const installed = installedFinding(plan, ahead, definition, site);
  const own = definition.command === undefined ? known : undefined;
  const there = installed === undefined || installed.state === "there";
  return [
    ...(installed === undefined ? [] : [installed]),
    ...(own === undefined || !there ? [] : [loginFinding(ahead, definition, own, set)]),
    ...modelFindings(definition, site),
    ...directoryFindings(ahead, definition, site),
  ];
}

function installedFinding(
  plan: Plan,
  ahead: Ahead,
  { adapter, command, env }: AgentDefinition,
  site: PreflightOptions,
): Finding | undefined {
  if (ahead.step.runsIn?.image !== undefined) return undefined;
  const known = agentProgram(adapter);
  const program = known === undefined ? plainProgram(command ?? "") : (command ?? adapter);
  const path = pathFor(plan, ahead.step, env, site);
  if (program === undefined || path === undefined) return undefined;
  if (program.includes("/") && !isAbsolute(program)) return undefined;
  const of = `agent of step ${ahead.step.id}`;
  if (isOnPath(program, path)) return { state: "there", text: `${program} is installed (${of})` };
  const state = stateOf(ahead, program);
  const where = program.includes("/") ? "missing" : "not on the PATH";
  const remedy =
    command === undefined && known !== undefined ? known.install : `install ${program}`;
  return { state, text: `${program} is ${where} (${of})`, remedy };
}

/** The PATH of a step; undefined when an expression sets it. */
function pathFor(
  plan: Plan,
  step: Step,
  agent: Readonly<Record<string, string>>,
  { env }: PreflightOptions,
): string | undefined {
  const path = step.env.PATH ?? agent.PATH ?? plan.env.PATH ?? env.PATH ?? "";
  return path.includes("${{") ? undefined : path;
}

/** True when a directory of the PATH, or an absolute path, has the program. */
export function isOnPath(program: string, path: string): boolean {
  if (isAbsolute(program)) return isExecutable(program);
  return path
    .split(delimiter)
    .some((folder) => folder !== "" && isExecutable(join(folder, program)));
}

/** True for an executable file. Most candidates on a PATH do not exist: that is no error. */
function isExecutable(file: string): boolean {
  try {
    const found = statSync(file, { throwIfNoEntry: false });
    return found?.isFile() === true && (found.mode & EXECUTABLE) !== 0;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    return false;
  }
}

/** Looks for a variable or a file to log in with; only the service knows whether it accepts it. */
function loginFinding(
  ahead: Ahead,
  { adapter, args }: AgentDefinition,
  { login }: AgentProgram,
  env: Readonly<Record<string, string | undefined>>,
): Finding {
  const home = env.HOME ?? homedir();
  const variable = login.variables.find((name) => (env[name] ?? "") !== "");
  if (variable !== undefined) return { state: "there", text: `${adapter}: ${variable} is set` };
  const file = login.files(env, home).find((path) => existsSync(path));
  if (file !== undefined) return { state: "there", text: `${adapter}: logged in (${file})` };
  const elsewhere = process.platform !== "linux" || login.elsewhere(env, home).some(existsSync);
  const text = `${adapter} is not logged in (agent of step ${ahead.step.id})`;
  // The author's own arguments may name another service.
  const custom = args.length > 0 || login.mayNeedNone.some((name) => (env[name] ?? "") !== "");
  if (elsewhere || custom || login.optional === true) {
    return { state: "unknown", text: `${adapter}: perdure cannot see whether it is logged in` };
  }
  return { state: ahead.certain ? "missing" : "doubtful", text, remedy: login.remedy };
}

function modelFindings(
  { settings: { model } }: AgentDefinition,
  { prices }: PreflightOptions,
): readonly Finding[] {
  if (model === undefined || prices === undefined) return [];
  if (prices.find(model) !== undefined)
    return [{ state: "there", text: `the price of ${model} is known` }];
  const window = windowOf(model) === undefined ? ", and neither is the size of its window" : "";
  return [{ state: "unknown", text: `the price of ${model} is not known${window}` }];
}

function directoryFindings(
  ahead: Ahead,
  { settings }: AgentDefinition,
  { cwd }: PreflightOptions,
): readonly Finding[] {
  const { id } = ahead.step;
  return (settings.directories ?? [])
    .filter((path) => !path.includes("${{"))
    .map((path): Finding => {
      const whole = resolve(cwd, path);
      if (existsSync(whole)) return { state: "there", text: `the directory ${path} exists` };
      const text = `there is no directory ${whole} (step ${id})`;
      return { state: stateOf(ahead, path), text, remedy: `mkdir -p ${whole}` };
    });
}

type Environment = Readonly<Record<string, string | undefined>>;

interface AgentProgram {
  readonly install: string;
  /** What the agent may do if the pipeline says nothing about permissions. */
  readonly byItself: string;
  readonly login: {
    /** Each of these variables is enough to log in. */
    readonly variables: readonly string[];
    /** Each of these files is enough to log in. */
    readonly files: (env: Environment, home: string) => readonly string[];
    /** Files of settings that may name another login. */
    readonly elsewhere: (env: Environment, home: string) => readonly string[];
    /** With one of these variables the agent may use a service that needs no login. */
    readonly mayNeedNone: readonly string[];
    /** The agent works without a login. */
    readonly optional?: true;
    readonly remedy: string;
  };
}

const claudeHome = (env: Environment, home: string): string =>
  env.CLAUDE_CONFIG_DIR ?? join(home, ".claude");
const codexHome = (env: Environment, home: string): string =>
  env.CODEX_HOME ?? join(home, ".codex");
const geminiHome = (env: Environment, home: string): string =>
  join(env.GEMINI_CLI_HOME ?? home, ".gemini");
const dataHome = (env: Environment, home: string): string =>
  env.XDG_DATA_HOME ?? join(home, ".local", "share");

/** The program of each known agent; the compiler asks for every row. */
const PROGRAMS: Readonly<Record<KnownAgent, AgentProgram>> = {
  claude: {
    install: "npm install -g @anthropic-ai/claude-code",
    byItself: "it may read; what it would have to ask for is denied",
    login: {
      variables: [
        ...["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
        ...["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"],
      ],
      files: (env, home) => [join(claudeHome(env, home), ".credentials.json")],
      elsewhere: (env, home) => [
        join(claudeHome(env, home), "settings.json"),
        "/etc/claude-code/managed-settings.json",
      ],
      mayNeedNone: ["ANTHROPIC_BASE_URL"],
      remedy: "claude auth login, or export ANTHROPIC_API_KEY=...",
    },
  },
  codex: {
    install: "npm install -g @openai/codex",
    byItself: "its sandbox is read-only: it can change no file",
    login: {
      variables: ["CODEX_API_KEY", "OPENAI_API_KEY"],
      files: (env, home) => [join(codexHome(env, home), "auth.json")],
      elsewhere: (env, home) => [join(codexHome(env, home), "config.toml")],
      mayNeedNone: ["OPENAI_BASE_URL"],
      remedy: "codex login, or export CODEX_API_KEY=...",
    },
  },
  gemini: {
    install: "npm install -g @google/gemini-cli",
    byItself: "it may read, in directories that it trusts; it has no shell",
    login: {
      variables: [
        ...["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"],
        ...["GOOGLE_GENAI_USE_GCA", "GOOGLE_APPLICATION_CREDENTIALS"],
      ],
      files: (env, home) => [join(geminiHome(env, home), "oauth_creds.json")],
      elsewhere: (env, home) => [
        join(geminiHome(env, home), "settings.json"),
        join(geminiHome(env, home), ".env"),
        join(home, ".env"),
        ".env",
      ],
      mayNeedNone: ["GOOGLE_GEMINI_BASE_URL"],
      remedy: "start `gemini` once and log in, or export GEMINI_API_KEY=...",
    },
  },
  opencode: {
    install: "npm install -g opencode-ai",
    byItself: "it may edit files and run commands in its directory",
    login: {
      variables: [],
      files: (env, home) => [join(dataHome(env, home), "opencode", "auth.json")],
      elsewhere: () => [],
      mayNeedNone: [],
      optional: true,
      remedy: "opencode auth login",
    },
  },
};

/** The program of an adapter; undefined for an adapter that starts any program. */
export function agentProgram(adapter: string): AgentProgram | undefined {
  return (PROGRAMS as Readonly<Record<string, AgentProgram>>)[adapter];
}
