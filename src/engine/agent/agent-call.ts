/**
 * Prepares the call of an agent for a step: the adapter, the offer for its conversation, and the
 * command that starts or continues it.
 *
 * Owns: the path from a plan's agent to an adapter's call.
 * Does not: know any one agent (runner/agents), or judge its answer (agent-stream.ts).
 * Invariants:
 * - engine/B3 The id of a conversation is in the journal before the process that may create it
 *   starts, wherever the agent lets us choose the id.
 */

import { writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { judgeOf } from "../../core/attempt/check.ts";
import { messagesFor, messagesIn } from "../../core/conversation/message.ts";
import type { AttemptRef, UsageBefore, VisitRef } from "../../core/event.ts";
import type { ConversationOffer } from "../../core/fact.ts";
import { attemptOf, findVisit, stepOf, type Visit, visitRef } from "../../core/run.ts";
import type { AgentDefinition, AgentSettings, Judge, Plan, Work } from "../../plan/plan.ts";
import type { AgentAdapter, AgentCall } from "../../runner/agents/adapter.ts";
import { agentHome } from "../../runner/agents/agent-home.ts";
import { agentAdapter } from "../../runner/agents/registry.ts";
import { holds } from "../../runner/agents/transcript.ts";
import { textOf } from "../../runner/file-text.ts";
import type { Launch } from "../../runner/process/step-process.ts";
import { assert } from "../../util/assert.ts";
import { defined } from "../../util/defined.ts";
import { isObject } from "../../util/json.ts";
import { quote } from "../../util/shell.ts";
import { type Evaluate, renderText } from "../../util/template.ts";
import {
  boundsOf,
  CONTEXT_FILE,
  environmentOf,
  evaluatorAt,
  type LaunchInput,
  prepareFolder,
  workDirOf,
} from "../launch.ts";
import { withDirectories } from "../sandbox.ts";
import { attemptDirOf, PROMPT_FILE } from "../state-dir.ts";
import { failureReport, promptText, type UnknownCalls } from "./agent-prompt.ts";
import { prepareRelay, readRelay, relayFileIn } from "./agent-relay.ts";
import { judgePrompt, VERDICT_SCHEMA } from "./judge.ts";

type AgentWork = Extract<Work, { kind: "agent" }>;

/** An agent step with the adapter that serves it. */
interface ServedStep {
  readonly adapter: AgentAdapter;
  readonly definition: AgentDefinition;
  readonly work: AgentWork;
  readonly settings: AgentSettings;
}

/** The adapter of a visit's step, or of its judge; undefined for other kinds of work. */
export function servedStep(plan: Plan, visit: Visit): ServedStep | undefined {
  const judge = judgeOf(visit);
  const work = judge === undefined ? stepOf(visit).work : judgeWork(judge);
  if (work.kind !== "agent") return undefined;
  const definition = plan.agents[work.agent];
  const adapter = definition === undefined ? undefined : agentAdapter(definition.adapter);
  if (definition === undefined || adapter === undefined) return undefined;
  if (judge === undefined) {
    return { adapter, definition, work, settings: { ...definition.settings, ...work.settings } };
  }
  // A judge passes nothing on, and it only reads.
  const { relay: _, ...others } = definition.settings;
  const permissions = adapter.readOnlyPermissions ?? "default";
  return { adapter, definition, work, settings: { ...others, ...work.settings, permissions } };
}

/** The adapter of a visit that is known to have one. */
export function agentStep(plan: Plan, visit: Visit): ServedStep {
  const served = servedStep(plan, visit);
  assert(served !== undefined, "only a step with an adapter talks to an agent");
  return served;
}

/** A judge as the work of an agent that answers with a verdict. */
function judgeWork({ agent, model }: Judge): AgentWork {
  const settings = { outputSchema: VERDICT_SCHEMA, ...defined({ model }) };
  return { kind: "agent", agent, prompt: "", settings };
}

/** The conversation of a visit's current attempt; a judge's attempt belongs to none. */
export function conversationOf(visit: Visit): Visit["conversation"] {
  return visit.submitted === undefined ? visit.conversation : undefined;
}

/** The facts about an agent's conversations that a visit can continue. */
export function conversationOffer(
  site: LaunchInput,
  place: VisitRef,
  session: string | undefined,
): ConversationOffer | undefined {
  const visit = findVisit(site.run, place);
  const served = visit && servedStep(site.plan, visit);
  if (visit === undefined || served === undefined) return undefined;
  const fresh = served.adapter.newSession();
  const at = { ...place, attempt: visit.attempts + 1 };
  const transcript = session === undefined ? undefined : transcriptOf(site, visit, at, session);
  const used = transcript === undefined ? undefined : usedIn(served.adapter, transcript);
  const heard = transcript === undefined ? [] : messagesHeard(site, visit, transcript);
  return {
    found: transcript !== undefined,
    ...defined({ fresh, used }),
    ...(heard.length === 0 ? {} : { heard }),
  };
}

/** The total usage of a conversation, by any program, where its transcript counts it. */
function usedIn(adapter: AgentAdapter, transcript: string): UsageBefore | undefined {
  const ledger = adapter.ledger?.(transcript);
  if (ledger === undefined) return undefined;
  const { inputTokens, cachedTokens, outputTokens, long } = ledger.usage;
  return { inputTokens, cachedTokens, outputTokens, turns: ledger.turns, ...defined({ long }) };
}

/** The messages of earlier prompts that a transcript contains, as far as it can be searched. */
function messagesHeard(site: LaunchInput, visit: Visit, transcript: string): readonly string[] {
  if (servedStep(site.plan, visit)?.adapter.unrecorded === undefined) return [];
  const sent = messagesFor(site.run, visitRef(visit)).filter((one) => one.sent !== undefined);
  return sent.map(({ id }) => id).filter((id) => holds(transcript, id));
}

/** The directory and the environment in which an agent looks for its conversations. */
export function agentPlace(
  site: LaunchInput,
  visit: Visit,
  at: AttemptRef,
): { readonly cwd: string; readonly env: Record<string, string> } {
  return { cwd: workDirOf(site, visit), env: environmentOf(site, visit, at) };
}

/** The transcript of a visit's conversation, if its agent keeps one. */
export function transcriptOf(
  site: LaunchInput,
  visit: Visit,
  at: AttemptRef,
  session: string,
): string | undefined {
  const { adapter } = servedStep(site.plan, visit) ?? {};
  return adapter?.transcript(session, agentPlace(site, visit, at));
}

/** The model of a visit's conversation, for agents whose streams do not name it. */
export function modelOf(
  site: LaunchInput,
  visit: Visit,
  at: AttemptRef,
  session: string,
): string | undefined {
  const { adapter } = servedStep(site.plan, visit) ?? {};
  return adapter?.modelIn?.(session, agentPlace(site, visit, at));
}

/** The launch of an agent's attempt; `calls` are the calls that its conversation lacks. */
export function prepareAgent(
  site: LaunchInput,
  visit: Visit,
  at: AttemptRef,
  calls: UnknownCalls,
): Launch {
  const served = agentStep(site.plan, visit);
  const checks = prepareFolder(site, visit, at);
  const judge = judgeOf(visit);
  const dir = attemptDirOf(site.dir, at);
  keepContext(site, visit, at);
  const { cwd, env } = agentPlace(site, visit, at);
  const promptFile = join(dir, PROMPT_FILE);
  const prompt =
    judge === undefined ? promptOf(site, visit, at, calls) : judgePrompt(site, visit, judge);
  writeFileSync(promptFile, prompt, { mode: 0o600 });
  const { adapter, definition } = served;
  const call = callOf(site, visit, served);
  const command = adapter.command({ ...call, promptFile, dir, cwd, env });
  for (const [name, content] of Object.entries(command.files)) {
    writeFileSync(join(dir, name), content, { mode: 0o600 });
  }
  const [program = adapter.name, ...args] = command.argv;
  const chosen = adapter.needsCommand ? program : (definition.command ?? program);
  const argv = [chosen, ...args].map(quote).join(" ");
  const first = command.before === undefined ? "" : `${command.before.map(quote).join(" ")} >&2\n`;
  const keeping = boundsOf(site, visit, at);
  const home = keeping.sandbox && agentHome(adapter.name);
  const own = home?.set?.(env);
  // The first process of a namespace receives only signals that it handles, so a shell is first.
  const work = keeping.isolate === true ? `${argv}\nexit $?\n` : `exec ${argv}\n`;
  return {
    dir,
    cwd,
    env: { ...env, PERDURE_PROMPT_FILE: promptFile, ...command.env, ...own },
    script: `${first}${work}`,
    stdin: promptFile,
    separateStderr: true,
    ...keeping,
    ...(keeping.sandbox && { sandbox: withDirectories(keeping.sandbox, call.directories ?? []) }),
    // A handover is not complete work, and judged work has already passed its checks.
    ...(visit.conversation?.conversation?.says === "relay" || judge !== undefined ? {} : checks),
  };
}

/** Keeps the values that the last attempt passed on: an agent that continues does not repeat them. */
function keepContext(site: LaunchInput, visit: Visit, at: AttemptRef): void {
  const { kind, says } = visit.conversation?.conversation ?? {};
  if (kind !== "continue" || says === "task" || at.attempt < 2) return;
  const before = attemptDirOf(site.dir, { ...at, attempt: at.attempt - 1 });
  const text = textOf(join(before, CONTEXT_FILE));
  if (text === undefined) return;
  writeFileSync(join(attemptDirOf(site.dir, at), CONTEXT_FILE), text, { mode: 0o600 });
}

function promptOf(site: LaunchInput, visit: Visit, at: AttemptRef, calls: UnknownCalls): string {
  const served = agentStep(site.plan, visit);
  const evaluate = evaluatorAt(site, visit);
  const cwd = workDirOf(site, visit);
  const { says = "task", why = "", kind } = visit.conversation?.conversation ?? {};
  const preamble = kind === "start" ? visit.briefing?.preamble : undefined;
  const { checkpoint, failure } = visit.conversation ?? {};
  const turnsLeft = turnsLeftOf(served.settings, visit);
  const native = served.adapter.enforces?.outputSchema !== false;
  const schema = native ? undefined : served.settings.outputSchema;
  return promptText({
    ...{ says, why, calls, messages: messagesIn(site.run, visit) },
    ...defined({ preamble, report: visit.report, schema }),
    task: renderText(served.work.prompt, evaluate),
    ...(failure === undefined ? {} : { failure: failureReport(failure, turnsLeft) }),
    relayFile: says === "relay" ? prepareRelay(cwd, at) : relative(cwd, relayFileIn(cwd, at)),
    ...(says === "relayed" && checkpoint !== undefined
      ? { checkpoint: readRelay(checkpoint) }
      : {}),
  });
}

function callOf(
  site: LaunchInput,
  visit: Visit,
  { adapter, definition, settings }: ServedStep,
): Omit<AgentCall, "promptFile" | "dir" | "cwd" | "env"> {
  const { model, system, permissions = "default", outputSchema, effort } = settings;
  const judges = visit.submitted !== undefined;
  const { session = judges ? adapter.newSession() : undefined, conversation } =
    conversationOf(visit) ?? {};
  const maxTurns = turnsLeftOf(settings, visit);
  return {
    ...{ kind: conversation?.kind ?? "start", permissions, args: definition.args },
    ...defined({ session, model, effort, maxTurns, command: definition.command }),
    ...(system === undefined ? {} : { system: renderText(system, evaluatorAt(site, visit)) }),
    ...accessOf(site, visit, settings),
    ...(outputSchema === undefined || conversation?.says === "relay" ? {} : { outputSchema }),
  };
}

/** The agent's own program with a visit's conversation, for a person. */
export interface OpenedAgent {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly transcript: string;
}

/** How a person opens a visit's conversation, or the reason why that is impossible. */
export function openAgent(site: LaunchInput, visit: Visit, session: string): OpenedAgent | string {
  const served = agentStep(site.plan, visit);
  const { adapter, definition } = served;
  if (adapter.open === undefined) return `${adapter.name} agents have no program of their own`;
  const at = attemptOf(visit);
  const transcript = transcriptOf(site, visit, at, session);
  if (transcript === undefined) return `its conversation ${session} is not on this machine`;
  adapter.repair?.(transcript);
  const { cwd, env } = agentPlace(site, visit, at);
  const { kind: _, ...call } = callOf(site, visit, served);
  const command = adapter.open({ ...call, session, cwd, env });
  const [program = adapter.name, ...words] = command.argv;
  const argv = [definition.command ?? program, ...words];
  return { argv, cwd, env: { ...env, ...command.env }, transcript };
}

/** The permissions of an agent: the author's, and those that a person has added. */
function accessOf(
  site: LaunchInput,
  visit: Visit,
  { tools, mcp, directories = [] }: AgentSettings,
): Pick<AgentCall, "allow" | "deny" | "mcp" | "directories"> {
  const evaluate = evaluatorAt(site, visit);
  const allow = [...(tools?.allow ?? []), ...(visit.permits?.allow ?? [])];
  const deny = tools?.deny ?? [];
  const from = site.run.created?.cwd ?? ".";
  return {
    ...(allow.length === 0 ? {} : { allow }),
    ...(deny.length === 0 ? {} : { deny }),
    ...(mcp === undefined ? {} : { mcp: rendered(mcp, evaluate) as AgentCall["mcp"] & object }),
    ...(directories.length === 0
      ? {}
      : { directories: directories.map((path) => resolve(from, renderText(path, evaluate))) }),
  };
}

/** Renders the templates in a value. */
function rendered(value: unknown, evaluate: Evaluate): unknown {
  if (typeof value === "string") return renderText(value, evaluate);
  if (Array.isArray(value)) return value.map((one) => rendered(one, evaluate));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, rendered(one, evaluate)]),
  );
}

/** How many turns the model has left; a kill does not return the used ones. */
export function turnsLeftOf(settings: AgentSettings, visit: Visit): number | undefined {
  const allowed = turnsAllowed(settings, visit);
  return allowed === undefined
    ? undefined
    : Math.max(1, allowed - (conversationOf(visit)?.turns ?? 0));
}

/** How many turns the author and a person allow together. */
export function turnsAllowed({ maxTurns }: AgentSettings, visit: Visit): number | undefined {
  return maxTurns === undefined ? undefined : maxTurns + (conversationOf(visit)?.turnsGranted ?? 0);
}

/** Repairs the transcript of a conversation before it continues. */
export function repairTranscript(site: LaunchInput, visit: Visit, at: AttemptRef): void {
  const { session, conversation } = conversationOf(visit) ?? {};
  if (session === undefined || conversation?.kind !== "continue") return;
  const transcript = transcriptOf(site, visit, at, session);
  if (transcript === undefined) return;
  servedStep(site.plan, visit)?.adapter.repair?.(transcript);
}
