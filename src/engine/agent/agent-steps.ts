/**
 * The attempts of agents, for the processes executor. Only a plan with agent steps loads this module.
 *
 * Owns: the life of an agent's attempt between the executor and the adapters, and the judgement of its
 *   answer.
 * Does not: hold processes or change the run; it prepares, follows and judges.
 */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { workBefore } from "../../core/attempt/check.ts";
import type { AttemptRef, Spent, VisitRef } from "../../core/event.ts";
import type { ConversationOffer, Ending } from "../../core/fact.ts";
import { stepOf, type Visit } from "../../core/run.ts";
import { checksOf } from "../../plan/plan.ts";
import type { FinishedCall, Ledger } from "../../runner/agents/adapter.ts";
import type { AgentReport } from "../../runner/agents/report.ts";
import type { PriceList } from "../../runner/agents/usage.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import type { Launch, ProcessEnding } from "../../runner/process/step-process.ts";
import { defined } from "../../util/defined.ts";
import type { Json } from "../../util/json.ts";
import { schemaFault } from "../../util/json-schema.ts";
import { RESPONSE_FILE } from "../evidence/printed.ts";
import { type LaunchInput, workDirOf } from "../launch.ts";
import { attemptDirOf } from "../state-dir.ts";
import {
  agentStep,
  conversationOf,
  conversationOffer,
  modelOf,
  prepareAgent,
  repairTranscript,
  servedStep,
  transcriptOf,
  turnsAllowed,
  turnsLeftOf,
} from "./agent-call.ts";
import { NO_CALLS, type UnknownCalls } from "./agent-prompt.ts";
import { keepNotes, notesFromStreams, readRelay, takeRelay } from "./agent-relay.ts";
import { type AgentLimits, AgentWatch, judgeAgent, spentOf } from "./agent-stream.ts";
import { verdictEnding } from "./judge.ts";

/** An answer is stored in the journal; a larger one belongs in a file. */
const ANSWER_BYTES_MAX = 256 * 1024;

/** An attempt whose stream is followed. */
export interface FollowedAgent {
  /** Its usage so far. */
  spent(): Spent;
  /** Ends the agent as soon as its running tools have ended. */
  stopAfterTurn(): void;
  /** Stops following its stream. */
  close(): Promise<void>;
  /** The verdict on its stream; after success, the caller still examines outputs and checks. */
  end(ending: ProcessEnding): Promise<Ending>;
}

/** The listeners of an attempt. */
interface AgentListener {
  readonly onSession: (session: string) => void;
  readonly onUse: () => void;
  readonly onLimit: () => void;
  /** The stream cannot be read, so the state of the attempt is unknown. */
  readonly onError: (error: unknown) => void;
}

/** All agents of one run. */
export class AgentSteps {
  readonly #site: () => LaunchInput;
  readonly #prices: PriceList;

  constructor(site: () => LaunchInput, prices: PriceList) {
    this.#site = site;
    this.#prices = prices;
  }

  /** True when an adapter serves this visit's step. */
  serves(visit: Visit): boolean {
    return servedStep(this.#site().plan, visit) !== undefined;
  }

  offer(place: VisitRef, session: string | undefined): ConversationOffer | undefined {
    return conversationOffer(this.#site(), place, session);
  }

  /** True when the stream of an attempt without an exit status contains its successful end. */
  async hasAnswered(visit: Visit, at: AttemptRef): Promise<boolean> {
    const report = await this.#watch(visit, at, NOBODY).end(undefined);
    const lost = { how: "lost", started: true, message: "" } as const;
    return judgeAgent(lost, report, this.#limits(visit)).how === "exited";
  }

  /** The launch of an attempt; reads the stream of the attempt that it continues. */
  async prepare(visit: Visit, at: AttemptRef): Promise<() => Launch> {
    const calls = await this.#unknownCalls(visit, at);
    return () => {
      repairTranscript(this.#site(), visit, at);
      return prepareAgent(this.#site(), visit, at, calls);
    };
  }

  follow(visit: Visit, at: AttemptRef, listener: AgentListener): FollowedAgent {
    const watch = this.#watch(visit, at, listener);
    return {
      spent: () => this.#spent(visit, watch.report),
      stopAfterTurn: () => watch.stopAfterTurn(),
      close: () => watch.close(),
      end: async (ending) => {
        const report = await watch.end(ending.how === "exited" ? ending.exit : undefined);
        const spent = this.#spent(visit, report);
        const denied = report.denied.length === 0 ? {} : { denied: report.denied };
        return { ...(await this.#verdict(visit, at, ending, report)), spent, ...denied };
      },
    };
  }

  async #verdict(
    visit: Visit,
    at: AttemptRef,
    ending: ProcessEnding,
    report: AgentReport,
  ): Promise<Ending> {
    const { says } = conversationOf(visit)?.conversation ?? {};
    const dir = attemptDirOf(this.#site().dir, at);
    const text = report.result?.text ?? report.text;
    if (text !== "") writeFileSync(join(dir, RESPONSE_FILE), text, { mode: 0o600 });
    if (visit.submitted !== undefined) return this.#judgement(visit, dir, ending, report);
    const judged = this.#judged(visit, fromProcess(ending), report);
    const full = judged.how === "exited" && judged.problem?.trouble === "overflow";
    if (full && holdsWork(visit, report)) return this.#relayFull(visit, at, judged.problem.message);
    const answered = judged.how === "exited" && report.result !== undefined;
    if (says === "relay" && answered) {
      const taken = takeRelay(workDirOf(this.#site(), visit), at, dir, text);
      return "problem" in taken
        ? { how: "asked", ask: { kind: "relay", why: taken.problem } }
        : { how: "relayed", checkpoint: taken };
    }
    if (judged.how !== "exited" || judged.problem !== undefined) return judged;
    const commands = checksOf(stepOf(visit)).some(({ kind }) => kind === "command");
    if (judged.fromStream === true && commands) {
      // Its process died before the check ran; unchecked work never counts as done (engine/N1).
      return { how: "lost", started: true, message: "it had answered, but its check had not run" };
    }
    const answer = await answerOf(report, this.#served(visit).settings.outputSchema);
    return answer.ok
      ? { ...judged, answer: answer.value }
      : { how: "asked", ask: { kind: "correct", why: answer.problem } };
  }

  /**
   * The verdict on the stream. Only a conversation that was continued can be gone: an agent that
   * ends a new one without an answer has failed, and would fail again at once.
   */
  #judged(visit: Visit, ending: Ending, report: AgentReport): Ending {
    const judged = judgeAgent(ending, report, this.#limits(visit));
    const gone = judged.how === "paused" && judged.reason === "session-gone";
    const begun = conversationOf(visit)?.conversation?.kind !== "continue";
    if (!gone || !begun || ending.how !== "exited") return judged;
    return { ...ending, problem: { reason: "agent", message: judged.message } };
  }

  /** The verdict of a judge. A denied tool is no failure, because a judge only reads. */
  async #judgement(
    visit: Visit,
    dir: string,
    ending: ProcessEnding,
    report: AgentReport,
  ): Promise<Ending> {
    const { settings, work } = this.#served(visit);
    const seen = { ...report, denied: [] };
    const judged = this.#judged(visit, fromProcess(ending), seen);
    if (judged.how !== "exited") return judged;
    if (judged.problem !== undefined) {
      const message = `its judge (${work.agent}) did not succeed: ${judged.problem.message}`;
      return { ...judged, problem: { ...judged.problem, message } };
    }
    const answer = await answerOf(report, settings.outputSchema);
    if (!answer.ok) return { how: "asked", ask: { kind: "correct", why: answer.problem } };
    const verdict = verdictEnding(visit, answer.value, join(dir, ATTEMPT_FILE.output));
    return judged.fromStream === true ? { ...verdict, fromStream: true } : verdict;
  }

  /** Hands over a conversation that is too full for notes of the agent, with notes from its stream. */
  async #relayFull(visit: Visit, at: AttemptRef, message: string): Promise<Ending> {
    const { adapter } = this.#served(visit);
    const { firstAttempt = at.attempt, checkpoint } = visit.conversation ?? {};
    const attempts = Array.from({ length: at.attempt - firstAttempt + 1 }, (_, index) => ({
      ...at,
      attempt: firstAttempt + index,
    }));
    const notes = await notesFromStreams({
      adapter,
      folders: attempts.map((one) => attemptDirOf(this.#site().dir, one)),
      why: message,
      ...(checkpoint === undefined ? {} : { earlier: readRelay(checkpoint) }),
    });
    const kept = keepNotes(attemptDirOf(this.#site().dir, at), notes);
    const why =
      `its conversation was too long for the model (${message}); with \`relay: { at: 70% }\` ` +
      "its agent hands over in time and writes the notes itself";
    return { how: "relayed", checkpoint: kept, why };
  }

  /**
   * The tool calls of earlier attempts that the agent of this one cannot know. If it continues their
   * conversation: those whose results the transcript lacks. When the model answered in an attempt,
   * the conversation contains that prompt, which named the calls that still earlier attempts lacked.
   * If their conversation is lost: all of them.
   */
  async #unknownCalls(visit: Visit, at: AttemptRef): Promise<UnknownCalls> {
    const { session, conversation, firstAttempt = at.attempt } = conversationOf(visit) ?? {};
    if (conversation === undefined) return NO_CALLS;
    const continued = conversation.kind === "continue" ? session : undefined;
    let { open, finished } = NO_CALLS;
    let attempt = workBefore(visit, at.attempt);
    for (; attempt >= firstAttempt; attempt = workBefore(visit, attempt)) {
      const report = await this.#watch(visit, { ...at, attempt }, NOBODY).end(undefined);
      const unknown =
        continued === undefined ? report.finished : this.#unrecorded(visit, at, continued, report);
      open = [...report.openTools, ...open];
      finished = [...unknown, ...finished];
      if (continued !== undefined && report.turns > 0) break;
    }
    return { open, finished };
  }

  #unrecorded(
    visit: Visit,
    at: AttemptRef,
    session: string,
    { finished, turns }: AgentReport,
  ): readonly FinishedCall[] {
    const { adapter } = this.#served(visit);
    // A transcript that cannot be searched may lack the calls of its last answer.
    if (adapter.unrecorded === undefined) return finished.filter(({ turn }) => turn === turns);
    const transcript = transcriptOf(this.#site(), visit, at, session);
    return transcript === undefined ? [] : adapter.unrecorded(transcript, finished);
  }

  #watch(visit: Visit, at: AttemptRef, listener: AgentListener): AgentWatch {
    const { adapter } = this.#served(visit);
    const dir = attemptDirOf(this.#site().dir, at);
    // Kept, because a search takes time.
    const known: KnownFiles = {};
    const complete = (report: AgentReport): AgentReport =>
      this.#completed(visit, at, report, known);
    const prices = this.#prices;
    const limits = this.#limits(visit);
    return new AgentWatch({ adapter, prices, dir, limits, complete, ...listener });
  }

  /**
   * Adds the transcript's facts to a report, for agents whose streams are late. Both sides of a
   * subtraction must come from the transcript: after a kill in a tool, Codex's totals miss an answer.
   */
  #completed(visit: Visit, at: AttemptRef, report: AgentReport, known: KnownFiles): AgentReport {
    const { adapter } = this.#served(visit);
    const session = report.session ?? conversationOf(visit)?.session;
    if (session === undefined) return report;
    if (adapter.modelIn !== undefined && report.model === undefined) {
      known.model ??= modelOf(this.#site(), visit, at, session);
      return known.model === undefined ? report : { ...report, model: known.model };
    }
    if (adapter.ledger === undefined) return report;
    known.transcript ??= transcriptOf(this.#site(), visit, at, session);
    const ledger = known.transcript === undefined ? undefined : adapter.ledger(known.transcript);
    if (ledger === undefined) return report;
    const { usage, context, window, model } = ledger;
    const uncounted = ledger.incomplete === true || this.#lacksAnswer(visit, report, ledger);
    return {
      ...report,
      ...{ usage: { ...usage, counting: "total" }, uncounted, context },
      ...defined({ window, model }),
    };
  }

  /** True when the interrupted stream has an answer that the transcript lacks. */
  #lacksAnswer(visit: Visit, { result, turns }: AgentReport, ledger: Ledger): boolean {
    if (result !== undefined && result.trouble?.kind !== "interrupted") return false;
    const { kind, used } = conversationOf(visit)?.conversation ?? {};
    const before = kind === "continue" ? used?.turns : 0;
    return before !== undefined && ledger.countsTurns === true && ledger.turns - before < turns;
  }

  #limits(visit: Visit): AgentLimits {
    const { adapter, settings } = this.#served(visit);
    const { relay, model } = settings;
    const turns = adapter.enforces?.maxTurns === false ? turnsLeftOf(settings, visit) : undefined;
    const allowed = turnsAllowed(settings, visit);
    const relaying = conversationOf(visit)?.ask?.kind === "relay";
    return {
      ...defined({ turns, turnsAllowed: allowed, model }),
      ...(relay === undefined || relaying ? {} : { relay }),
    };
  }

  #spent(visit: Visit, report: AgentReport): Spent {
    const { settings } = this.#served(visit);
    const session = report.session ?? conversationOf(visit)?.session;
    const { conversations } = this.#site().run;
    const counted = session === undefined ? undefined : conversations.get(session);
    const before = conversationOf(visit)?.conversation?.used ?? counted;
    const prices = this.#prices;
    return spentOf(report, { session, before, costBefore: counted?.costUsd, settings, prices });
  }

  #served(visit: Visit): ReturnType<typeof agentStep> {
    return agentStep(this.#site().plan, visit);
  }
}

/** What the transcript of an attempt says about its conversation. */
interface KnownFiles {
  transcript?: string | undefined;
  model?: string | undefined;
}

/** False for a prompt that is too long by itself: it would be too long for a new conversation, too. */
function holdsWork({ conversation }: Visit, { turns }: AgentReport): boolean {
  return turns > 0 || conversation?.conversation?.kind === "continue";
}

/** The listener of an ended attempt, whose events were reported while it ran. */
const NOBODY: AgentListener = {
  onSession: () => undefined,
  onUse: () => undefined,
  onLimit: () => undefined,
  // The report carries the error.
  onError: () => undefined,
};

/** The ending of a process before its files are examined. */
function fromProcess(ending: ProcessEnding): Ending {
  if (ending.how === "not-started") return { ...ending, reason: "spawn" };
  return ending.how === "exited"
    ? { how: "exited", exit: ending.exit, outputs: {}, context: {} }
    : ending;
}

type Answer =
  | { readonly ok: true; readonly value: Json }
  | { readonly ok: false; readonly problem: string };

/** The answer in a report of an agent that succeeded. */
async function answerOf(report: AgentReport, schema: Json | undefined): Promise<Answer> {
  const { structured, text = report.text } = report.result ?? {};
  if (schema === undefined) return { ok: true, value: text };
  const value = structured ?? jsonIn(text);
  if (value === undefined) return { ok: false, problem: "it is not JSON" };
  const fault = await schemaFault(value, schema);
  if (fault !== undefined) return { ok: false, problem: `it does not fit its schema: ${fault}` };
  if (Buffer.byteLength(JSON.stringify(value)) > ANSWER_BYTES_MAX) {
    return { ok: false, problem: `it is larger than ${ANSWER_BYTES_MAX} bytes: write a file` };
  }
  return { ok: true, value };
}

/** The JSON of an answer: the whole text, or its last fenced block. */
function jsonIn(text: string): Json | undefined {
  const fenced = [...text.matchAll(/```(?:json)?\s*\n([\s\S]*?)```/g)].at(-1)?.[1];
  return parsed(text) ?? (fenced === undefined ? undefined : parsed(fenced));
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
