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
import { join, relative } from "node:path";
import type { AttemptRef, Place } from "../core/event.ts";
import type { ConversationOffer } from "../core/fact.ts";
import { findVisit, stepOf, type Visit } from "../core/run.ts";
import type { AgentDefinition, AgentSettings, Plan, Work } from "../plan/plan.ts";
import type { AgentAdapter, AgentCall } from "../runner/agents/adapter.ts";
import { agentAdapter } from "../runner/agents/registry.ts";
import type { AgentReport } from "../runner/agents/report.ts";
import type { Launch } from "../runner/step-process.ts";
import { assert } from "../util/assert.ts";
import { quote } from "../util/shell.ts";
import { renderText } from "../util/template.ts";
import { promptText } from "./agent-prompt.ts";
import { prepareRelay, readRelay, relayFileIn } from "./agent-relay.ts";
import {
  environmentOf,
  evaluatorAt,
  isolated,
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
  const fresh = served.adapter.newSession();
  const at = { ...place, attempt: visit.attempts + 1 };
  const found = session !== undefined && transcriptOf(site, visit, at, session) !== undefined;
  return fresh === undefined ? { found } : { fresh, found };
}

/** The transcript of a conversation of a visit, if its agent has one. */
export function transcriptOf(
  site: LaunchSite,
  visit: Visit,
  at: AttemptRef,
  session: string,
): string | undefined {
  const where = { cwd: workDirOf(site, visit), env: environmentOf(site, visit, at) };
  return servedStep(site.plan, visit)?.adapter.transcript(session, where);
}

/** What an attempt of an agent step starts; `before` is the report of the attempt it continues. */
export function prepareAgent(
  site: LaunchSite,
  visit: Visit,
  at: AttemptRef,
  before: AgentReport | undefined,
): Launch {
  const served = servedStep(site.plan, visit);
  assert(served !== undefined, "only a step with an adapter talks to an agent");
  const check = prepareFolder(site, visit, at);
  const dir = attemptDirOf(site.dir, at);
  const env = environmentOf(site, visit, at);
  const cwd = workDirOf(site, visit);
  const promptFile = join(dir, PROMPT_FILE);
  writeFileSync(promptFile, promptOf(site, visit, at, before), { mode: 0o600 });
  const { adapter, definition } = served;
  const command = adapter.command({ ...callOf(site, visit, served), promptFile, dir, cwd, env });
  for (const [name, content] of Object.entries(command.files)) {
    writeFileSync(join(dir, name), content, { mode: 0o600 });
  }
  const [program = adapter.name, ...args] = command.argv;
  const chosen = adapter.needsCommand ? program : (definition.command ?? program);
  const argv = [chosen, ...args].map(quote).join(" ");
  const first = command.before === undefined ? "" : `${command.before.map(quote).join(" ")} >&2\n`;
  const keeping = isolated(visit);
  // The first process of a namespace gets no signal that it does not handle, so that is a shell.
  const work = keeping.isolate === true ? `${argv}\nexit $?\n` : `exec ${argv}\n`;
  return {
    dir,
    cwd,
    env: { ...env, PERDURE_PROMPT_FILE: promptFile, ...command.env },
    script: `${first}${work}`,
    stdin: promptFile,
    separateStderr: true,
    ...keeping,
    // What is only handed over is not done yet.
    ...(visit.talk?.conversation?.says === "relay" ? {} : check),
  };
}

function promptOf(
  site: LaunchSite,
  visit: Visit,
  at: AttemptRef,
  before: AgentReport | undefined,
): string {
  const served = servedStep(site.plan, visit);
  const evaluate = evaluatorAt(site, visit);
  const cwd = workDirOf(site, visit);
  const { says = "task", why = "", kind } = visit.talk?.conversation ?? {};
  const preamble = kind === "start" ? visit.telling?.preamble : undefined;
  const { checkpoint } = visit.talk ?? {};
  const native = served?.adapter.takes?.outputSchema !== false;
  const schema = native ? undefined : served?.settings.outputSchema;
  return promptText({
    says,
    why,
    ...(preamble === undefined ? {} : { preamble }),
    ...(visit.report === undefined ? {} : { report: visit.report }),
    task: renderText(served?.work.prompt ?? "", evaluate),
    ...(schema === undefined ? {} : { schema }),
    before: before ?? { openTools: [] },
    relayFile: says === "relay" ? prepareRelay(cwd, at) : relative(cwd, relayFileIn(cwd, at)),
    ...(says === "relayed" && checkpoint !== undefined
      ? { checkpoint: readRelay(checkpoint) }
      : {}),
  });
}

function callOf(
  site: LaunchSite,
  visit: Visit,
  { definition, settings }: ServedStep,
): Omit<AgentCall, "promptFile" | "dir" | "cwd" | "env"> {
  const { model, system, permissions = "default", outputSchema } = settings;
  const { session, conversation } = visit.talk ?? {};
  const maxTurns = turnsLeft(settings, visit);
  return {
    kind: conversation?.kind ?? "start",
    ...(session === undefined ? {} : { session }),
    ...(model === undefined ? {} : { model }),
    ...(system === undefined ? {} : { system: renderText(system, evaluatorAt(site, visit)) }),
    permissions,
    ...(maxTurns === undefined ? {} : { maxTurns }),
    ...(outputSchema === undefined || conversation?.says === "relay" ? {} : { outputSchema }),
    ...(definition.command === undefined ? {} : { command: definition.command }),
    args: definition.args,
  };
}

/** How many answers the model may still give: a kill does not give it its turns back. */
export function turnsLeft({ maxTurns }: AgentSettings, visit: Visit): number | undefined {
  if (maxTurns === undefined) return undefined;
  return Math.max(1, maxTurns - (visit.talk?.turns ?? 0));
}

/** Mends the transcript of a conversation that is about to be continued. */
export function repairTranscript(site: LaunchSite, visit: Visit, at: AttemptRef): void {
  const { session, conversation } = visit.talk ?? {};
  if (session === undefined || conversation?.kind !== "continue") return;
  const transcript = transcriptOf(site, visit, at, session);
  if (transcript === undefined) return;
  servedStep(site.plan, visit)?.adapter.repair?.(transcript);
}
