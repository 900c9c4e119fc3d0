/**
 * The conversation of an attempt as a page shows it: the prompt, the messages of people, the agent's
 * answers, its tool calls and their results; of a running attempt as of an old one.
 *
 * Owns: turns from the events of a stream, and how much of them is kept.
 * Does not: parse a stream (the adapters do), or watch a file; the caller reads again.
 * Invariants:
 * - conversation/C1 What is kept has a limit, however long the stream is; each byte is read once.
 * - conversation/C2 A text is masked before it is shortened: a part of a secret is not recognised.
 */
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { findVisit, stepOf } from "../../core/run.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import { attemptDirOf, PROMPT_FILE } from "../../engine/state-dir.ts";
import type { AgentEvent } from "../../runner/agents/adapter.ts";
import { AgentFollower } from "../../runner/agents/report.ts";
import { headOf, tailOf } from "../../runner/agents/stream-json.ts";
import { textOf } from "../../runner/file-text.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { PulledFile } from "../../runner/process/output.ts";
import type { conversation } from "../../view/json/dashboard-documents.ts";
import type { DocumentOf } from "../../view/json/document-parts.ts";
import { isoText, plainLines } from "../../view/text.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { command, Refusal } from "../refusal.ts";
import { AgentLines } from "./output.ts";
import { type AttemptStart, attemptNamed, hasEnded } from "./output-part.ts";
import { masked } from "./secret-mask.ts";

const TURNS_MAX = 400;
const CALLS_MAX = 200;
const TEXT_CHARACTERS_MAX = 64 * 1024;
const INPUT_CHARACTERS_MAX = 8 * 1024;
const RESULT_CHARACTERS_MAX = 16 * 1024;
/** How many characters all turns together may have. */
const CHARACTERS_MAX = 4 * 1024 * 1024;
/** How many conversations are kept, the latest ones. */
const CONVERSATIONS_MAX = 16;

interface Call {
  readonly name: string;
  readonly input: string;
  result: string | null;
  ok: boolean | null;
  readonly at: string | null;
}

interface Turn {
  readonly by: "person" | "agent" | "perdure";
  text: string;
  readonly calls: Call[];
  tokens: number | null;
  readonly at: string | null;
}

/** A conversation as far as it is kept. */
interface ShownConversation {
  readonly attempt: string;
  readonly turns: DocumentOf<typeof conversation>["turns"];
  /** How many earlier turns are left out. */
  readonly leftOut: number;
  readonly ended: boolean;
}

/** True when the agent of an attempt has a conversation that Perdure can read. */
export function hasConversation(known: LoadedRun, at: AttemptStart): boolean {
  const adapter = known.plan.agents[agentOf(known, at) ?? ""]?.adapter;
  return adapter !== undefined && adapter !== "command";
}

/** The agent of an attempt: that of its step, or its judge. */
export function agentOf(known: LoadedRun, at: AttemptStart): string | undefined {
  const visit = findVisit(known.run, at);
  const work = visit && stepOf(visit).work;
  return at.judge ?? (work?.kind === "agent" ? work.agent : undefined);
}

/** The prompt of an attempt; undefined when it is not kept. */
export function promptOf(known: LoadedRun, at: AttemptStart): string | undefined {
  const text = textOf(join(attemptDirOf(known.dir, at), PROMPT_FILE));
  return text === undefined ? undefined : shown(text, TEXT_CHARACTERS_MAX);
}

function shown(text: string, charactersMax: number): string {
  return headOf(plainLines(masked(text)), charactersMax);
}

/** Reads conversations, each from where the last call ended. */
export class Conversations {
  readonly #open = new Map<string, ConversationReader>();

  /** The conversation of the attempt that a name means. */
  async read(known: LoadedRun, name: string): Promise<ShownConversation> {
    const at = attemptNamed(known, name);
    const adapterName = known.plan.agents[agentOf(known, at) ?? ""]?.adapter ?? "";
    const { agentAdapter } = await import("../../runner/agents/registry.ts");
    const adapter = agentAdapter(adapterName);
    if (adapter === undefined) {
      const message = `${attemptText(at)} has no agent whose conversation can be read`;
      const next = command("logs", known.shortId, attemptText(at));
      throw new Refusal("no-conversation", message, next);
    }
    // Asked before the file is read: an attempt that has ended has written all of it.
    const ended = hasEnded(known, at);
    const path = join(attemptDirOf(known.dir, at), ATTEMPT_FILE.output);
    const one = this.#open.get(path) ?? new ConversationReader(path, new AgentFollower(adapter));
    this.#remember(path, one);
    await one.readOn();
    const turns = [...promptTurns(known, at), ...one.turns];
    return { attempt: attemptText(at), turns, leftOut: one.leftOut, ended };
  }

  close(): void {
    for (const one of this.#open.values()) one.close();
    this.#open.clear();
  }

  #remember(path: string, one: ConversationReader): void {
    this.#open.delete(path);
    this.#open.set(path, one);
    const [oldest] = this.#open.keys();
    if (this.#open.size <= CONVERSATIONS_MAX || oldest === undefined) return;
    this.#open.get(oldest)?.close();
    this.#open.delete(oldest);
  }
}

/** The turns before the agent's first: the prompt, and the messages of people in it. */
function promptTurns(known: LoadedRun, at: AttemptStart): readonly Turn[] {
  const prompt = promptOf(known, at);
  const messages = known.run.messages.get(stepPath(at)) ?? [];
  const given = messages.filter(({ id }) => at.messages?.includes(id) === true);
  return [
    ...(prompt === undefined ? [] : [turnOf("perdure", prompt)]),
    ...given.map(({ text, given: time }) =>
      turnOf("person", shown(text, TEXT_CHARACTERS_MAX), isoText(time)),
    ),
  ];
}

function turnOf(by: Turn["by"], text: string, at: string | null = null): Turn {
  return { by, text, calls: [], tokens: null, at };
}

/** One conversation, read as far as its stream is written. */
export class ConversationReader {
  readonly #file: PulledFile;
  readonly #follower: AgentFollower;
  readonly #lines = new AgentLines();
  readonly #calls = new Map<string, Call>();
  readonly #turns: Turn[] = [];
  #leftOut = 0;
  #characters = 0;
  /** The tokens of all turns before the current one. */
  #tokensBefore = 0;
  #reading: Promise<void> = Promise.resolve();

  constructor(path: string, follower: AgentFollower) {
    this.#follower = follower;
    const take = (line: string): void => {
      for (const event of line.startsWith("{") ? follower.line(line) : []) this.#add(event);
      this.#count();
    };
    this.#file = new PulledFile(path, take, "whole");
  }

  get turns(): readonly Turn[] {
    return this.#turns;
  }

  get leftOut(): number {
    return this.#leftOut;
  }

  /** Reads what is new, in pieces, so that this process can do other work in between. */
  readOn(): Promise<void> {
    this.#reading = this.#reading.then(async () => {
      while (this.#file.pull() > 0) await setImmediate();
    });
    return this.#reading;
  }

  close(): void {
    this.#file.close();
  }

  #add(event: AgentEvent): void {
    switch (event.type) {
      case "turn":
        this.#begin("agent");
        return;
      case "text":
        this.#addText(event.text);
        return;
      case "tool-started":
        this.#start(event);
        return;
      case "tool-ended":
        this.#end(event);
        return;
      case "result":
        if (event.ok && event.text !== undefined && !this.#turns.some(({ text }) => text !== "")) {
          this.#addText(event.text);
        }
        this.#note(event);
        return;
      case "retrying":
      case "denied":
        this.#note(event);
        return;
      default:
        return;
    }
  }

  /** The current turn of the agent; a new one if the last entry is not the agent's. */
  #current(): Turn {
    const last = this.#turns.at(-1);
    return last?.by === "agent" ? last : this.#begin("agent");
  }

  #begin(by: Turn["by"]): Turn {
    const last = this.#turns.at(-1);
    const isEmpty = last?.by === by && last.text === "" && last.calls.length === 0;
    if (isEmpty) return last;
    const turn = turnOf(by, "");
    this.#turns.push(turn);
    this.#tokensBefore = this.#tokens();
    const isOver = (): boolean =>
      this.#turns.length > TURNS_MAX || this.#characters > CHARACTERS_MAX;
    while (this.#turns.length > 1 && isOver()) this.#drop();
    return turn;
  }

  #drop(): void {
    const dropped = this.#turns.shift();
    if (dropped === undefined) return;
    this.#leftOut++;
    this.#characters -= sizeOf(dropped);
  }

  #addText(text: string): void {
    const current = this.#current();
    const turn = current.calls.length > 0 ? this.#begin("agent") : current;
    const before = turn.text.length;
    turn.text = tailOf(turn.text + plainLines(masked(text)), TEXT_CHARACTERS_MAX);
    this.#characters += turn.text.length - before;
  }

  #start({ id, name, input }: Extract<AgentEvent, { type: "tool-started" }>): void {
    const call: Call = {
      name: shown(name, INPUT_CHARACTERS_MAX),
      input: shown(input, INPUT_CHARACTERS_MAX),
      result: null,
      ok: null,
      at: null,
    };
    const current = this.#current();
    const turn = current.calls.length < CALLS_MAX ? current : this.#begin("agent");
    turn.calls.push(call);
    this.#characters += call.name.length + call.input.length;
    this.#calls.set(id, call);
    const [oldest] = this.#calls.keys();
    if (this.#calls.size > CALLS_MAX && oldest !== undefined) this.#calls.delete(oldest);
  }

  #end({ id, ok, result }: Extract<AgentEvent, { type: "tool-ended" }>): void {
    const call = this.#calls.get(id);
    if (call === undefined) return;
    this.#calls.delete(id);
    call.ok = ok;
    call.result = result === undefined ? null : shown(result, RESULT_CHARACTERS_MAX);
    this.#characters += call.result?.length ?? 0;
  }

  /** Adds what Perdure reports about the conversation: a delay, a denied call, a failure. */
  #note(event: AgentEvent): void {
    const text = this.#lines.of(event).map((line) => line.text);
    if (text.length === 0) return;
    const note = this.#begin("perdure");
    note.text = [note.text, shown(text.join("\n"), TEXT_CHARACTERS_MAX)].join("\n").trim();
    this.#characters += note.text.length;
  }

  #tokens(): number {
    const { inputTokens, outputTokens } = this.#follower.report.usage;
    return inputTokens + outputTokens;
  }

  /** The tokens of the current turn; unknown where the stream reports only those of all turns. */
  #count(): void {
    const turn = this.#turns.at(-1);
    const used = this.#tokens() - this.#tokensBefore;
    const isKnown = this.#follower.report.usage.counting === "delta" && used > 0;
    if (turn?.by === "agent" && isKnown) turn.tokens = used;
  }
}

function sizeOf({ text, calls }: Turn): number {
  return calls.reduce(
    (sum, { name, input, result }) => sum + name.length + input.length + (result?.length ?? 0),
    text.length,
  );
}
