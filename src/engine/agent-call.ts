/**
 * A step that talks to an agent: which adapter serves it, what can be had of its conversation, and
 * the command that starts or continues it.
 *
 * Owns: from a plan's agent to an adapter's call.
 * Does not: know any one agent (runner/agents) or judge what it said (agent-verdict.ts).
 * Invariants:
 * - B3 The id of a conversation is in the journal before the process that may create it starts,
 *   wherever the agent lets us choose it.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AttemptRef, Place } from "../core/event.ts";
import type { ConversationOffer } from "../core/fact.ts";
import { findVisit, stepOf, type Visit } from "../core/run.ts";
import type { AgentDefinition, AgentSettings, Plan, Work } from "../plan/plan.ts";
import type { AgentAdapter, AgentCall } from "../runner/agents/adapter.ts";
import { continuePrompt } from "../runner/agents/continue-prompt.ts";
import { agentAdapter } from "../runner/agents/registry.ts";
import type { AgentReport } from "../runner/agents/report.ts";
import type { Launch } from "../runner/step-process.ts";
import { quote } from "../util/shell.ts";
import { renderText } from "../util/template.ts";
import {
  environmentOf,
  evaluatorAt,
  type LaunchSite,
  PROMPT_FILE,
  prepareFolder,
  workDirOf,
} from "./launch.ts";
import { attemptDirOf } from "./state-dir.ts";

type AgentWork = Extract<Work, { kind: "agent" }>;

/** An agent step with the adapter that serves it. */
export interface ServedStep {
  readonly adapter: AgentAdapter;
  readonly definition: AgentDefinition;
  readonly work: AgentWork;
  readonly settings: AgentSettings;
}

/** The adapter of a visit's step; undefined for every other kind of work. */
export function servedStep(plan: Plan, visit: Visit): ServedStep | undefined {
  const { work } = stepOf(visit);
  if (work.kind !== "agent") return undefined;
  const definition = plan.agents[work.agent];
  const adapter = definition === undefined ? undefined : agentAdapter(definition.adapter);
  if (definition === undefined || adapter === undefined) return undefined;
  return { adapter, definition, work, settings: { ...definition.settings, ...work.settings } };
}

/** What can be had of an agent's conversations at a place. */
export function conversationOffer(
  site: LaunchSite,
  place: Place,
  session: string | undefined,
): ConversationOffer | undefined {
  const visit = findVisit(site.run, place);
  const served = visit && servedStep(site.plan, visit);
  if (visit === undefined || served === undefined) return undefined;
  const { adapter } = served;
  const env = environmentOf(site, visit, { ...place, attempt: visit.attempts + 1 });
  const cwd = workDirOf(site, visit);
  const fresh = adapter.newSession();
  const found = session !== undefined && adapter.transcript(session, { cwd, env }) !== undefined;
  return fresh === undefined ? { found } : { fresh, found };
}

/** What an attempt of an agent step starts; `before` is the report of the attempt it continues. */
export function prepareAgent(
  site: LaunchSite,
  visit: Visit,
  at: AttemptRef,
  before: AgentReport | undefined,
): Launch {
  const check = prepareFolder(site, visit, at);
  const served = servedStep(site.plan, visit);
  const dir = attemptDirOf(site.dir, at);
  const evaluate = evaluatorAt(site, visit);
  const env = environmentOf(site, visit, at);
  const cwd = workDirOf(site, visit);
  const promptFile = join(dir, PROMPT_FILE);
  const { work } = stepOf(visit);
  const task = work.kind === "agent" ? renderText(work.prompt, evaluate) : "";
  const continues = visit.continues === true;
  const prompt = continues ? continuePrompt(task, before ?? { openTools: [] }) : task;
  writeFileSync(promptFile, prompt, { mode: 0o600 });
  const base = { dir, cwd, stdin: promptFile, separateStderr: true, ...check } as const;
  if (served === undefined) return { ...base, env, script: "" };
  const { adapter, definition, settings } = served;
  const { model, system, permissions = "default", maxTurns } = settings;
  const call: AgentCall = {
    kind: continues ? "continue" : "start",
    ...(visit.session === undefined ? {} : { session: visit.session }),
    promptFile,
    dir,
    cwd,
    env,
    ...(model === undefined ? {} : { model }),
    ...(system === undefined ? {} : { system: renderText(system, evaluate) }),
    permissions,
    ...(maxTurns === undefined ? {} : { maxTurns }),
    args: definition.args,
  };
  const command = adapter.command(call);
  for (const [name, content] of Object.entries(command.files)) {
    writeFileSync(join(dir, name), content, { mode: 0o600 });
  }
  const [program = adapter.name, ...args] = command.argv;
  const argv = [definition.command ?? program, ...args].map(quote).join(" ");
  const first = command.before === undefined ? "" : `${command.before.map(quote).join(" ")} >&2\n`;
  const variables = { ...env, PERDURE_PROMPT_FILE: promptFile, ...command.env };
  return { ...base, env: variables, script: `${first}exec ${argv}\n` };
}

/** Mends the transcript of a conversation that is about to be continued. */
export function repairTranscript(site: LaunchSite, visit: Visit, at: AttemptRef): void {
  const served = servedStep(site.plan, visit);
  if (visit.session === undefined || visit.continues !== true) return;
  const where = { cwd: workDirOf(site, visit), env: environmentOf(site, visit, at) };
  const transcript = served?.adapter.transcript(visit.session, where);
  if (transcript !== undefined) served?.adapter.repair?.(transcript);
}
