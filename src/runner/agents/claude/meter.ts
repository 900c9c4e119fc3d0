/**
 * The usage of the calls in one stream of Claude Code, at any moment.
 *
 * With partial messages the stream reports a call when it begins (`message_start`: its whole
 * input), when its output is known (`message_delta`) and when it ends (`message_stop`). Without
 * them there is only the finished message, whose output is provisional. A `result` reports what all
 * calls used that ended since the result before it, including calls that are not in the stream.
 * Interrupted calls (a kill, an interrupt, a lost connection) are in no result, although they cost
 * money. The stream still prints the end of an interrupted call, after a message that says
 * `aborted`. Subagents have no partial messages: their messages with tool calls are printed whole,
 * and their last call is reported with the result that they return (2.1.325).
 *
 * Owns: the sums, and which call a line belongs to.
 * Does not: read anything else of a line.
 * Invariants:
 * - runner/U1 a result replaces the calls that ended before it, and no others, so no call is
 *   counted twice or lost.
 * - meter/G3 as in adapter.ts.
 */
import { defined } from "../../../util/defined.ts";
import { isObject, type Json, type JsonObject } from "../../../util/json.ts";
import type { AgentEvent } from "../adapter.ts";
import { at, numberAt, textAt } from "../stream-json.ts";
import {
  addUsage,
  LIST_PRICES,
  LONG_INPUT_TOKENS,
  NOTHING_USED,
  type PricedTokens,
  type PriceList,
  type Tokens,
  type Usage,
  windowOf,
} from "../usage.ts";

/** Messages of subagents come in between, so the lines of one message are not consecutive. */
const RECENT_CALLS_MAX = 64;
/** No more calls than this run at once, so older ones were interrupted. */
const OPEN_CALLS_MAX = 64;

interface Call {
  readonly usage: Usage;
  /** The usage that its start reported; its end may report only the output. */
  readonly begun: Json | undefined;
  readonly model: string | undefined;
  readonly speaker: string;
}

/** The speaker of lines that belong to no subagent. */
const OWN = "";

/** The meter of one stream. */
export class ClaudeMeter {
  readonly #prices: PriceList;
  /** The usage that results reported, and that of calls that no result will report. */
  #final = NOTHING_USED;
  /** The usage of the calls that ended since the last result. */
  #ended = NOTHING_USED;
  /** The calls that have not ended, by the id of the message. */
  readonly #open = new Map<string, Call>();
  #recent: readonly string[] = [];
  #context: number | undefined;
  #window: number | undefined;
  #model: string | undefined;

  constructor(prices: PriceList = LIST_PRICES) {
    this.#prices = prices;
  }

  /** Reads the line that opens the stream; it names the model. */
  init(line: JsonObject): void {
    this.#model = textAt(line, "model");
    this.#window = windowOf(this.#model);
  }

  /** Reads a `message_start`; true if the call is a new one. */
  messageStart(line: JsonObject): boolean {
    const message = at(line, "event", "message");
    const id = textAt(message, "id");
    if (id === undefined || this.#knows(id)) return false;
    const begun = at(message, "usage");
    const model = textAt(message, "model");
    const speaker = speakerOf(line);
    // The output that it reports here is provisional.
    const usage = this.#usageOf(begun, undefined, model);
    this.#forgetOldest();
    this.#open.set(id, { usage, begun, model, speaker });
    this.#setContext(usage, speaker);
    return true;
  }

  /** Reads a `message_delta`, which reports the whole usage of a call so far; true if it is open. */
  messageDelta(line: JsonObject): boolean {
    const id = this.#idIn(line);
    const call = this.#open.get(id);
    if (call === undefined) return false;
    const usage = this.#usageOf(call.begun, at(line, "event", "usage"), call.model);
    this.#open.set(id, { ...call, usage });
    this.#setContext(usage, call.speaker);
    return true;
  }

  /** Reads a `message_stop`. */
  messageStop(line: JsonObject): void {
    const id = this.#idIn(line);
    const call = this.#open.get(id);
    if (call === undefined) return;
    this.#open.delete(id);
    this.#end(id, call.usage);
  }

  /** Reads a finished message; true if nothing was reported of it before. */
  message(line: JsonObject): boolean {
    const message = at(line, "message");
    const id = textAt(message, "id");
    if (id === undefined) return false;
    const aborted = at(line, "aborted") === true;
    if (aborted) this.#interrupted(id);
    if (this.#knows(id)) return false;
    // An aborted call is not in the result, and without partial messages only the result counts.
    const reported = aborted ? undefined : at(message, "usage");
    const usage = this.#usageOf(reported, reported, textAt(message, "model"));
    this.#end(id, usage);
    if (!aborted) this.#setContext(usage, speakerOf(line));
    return true;
  }

  /** Reads the result of a tool; true if a subagent returned it. */
  toolResult(line: JsonObject): boolean {
    const result = at(line, "tool_use_result");
    const reported = at(result, "usage");
    const agent = textAt(result, "agentId");
    if (reported === undefined || agent === undefined) return false;
    this.#end(agent, this.#usageOf(reported, reported, textAt(result, "resolvedModel")));
    return true;
  }

  /** Reads a `result`. */
  result(line: JsonObject): void {
    const reported = this.#resultUsage(line);
    this.#final = addUsage(this.#final, reported ?? this.#ended);
    this.#ended = NOTHING_USED;
    this.#window = windowIn(line, this.#model) ?? this.#window;
  }

  /** The usage so far. */
  usage(): AgentEvent {
    let usage = addUsage(this.#final, this.#ended);
    for (const call of this.#open.values()) usage = addUsage(usage, call.usage);
    return {
      type: "usage",
      counting: "invocation",
      usage,
      ...defined({ context: this.#context, window: this.#window }),
    };
  }

  #knows(id: string): boolean {
    return this.#open.has(id) || this.#recent.includes(id);
  }

  #end(id: string, usage: Usage): void {
    this.#recent = [...this.#recent, id].slice(-RECENT_CALLS_MAX);
    this.#ended = addUsage(this.#ended, usage);
  }

  /** A subagent has a context of its own, which does not count here. */
  #setContext({ inputTokens, outputTokens }: Usage, speaker: string): void {
    if (speaker === OWN) this.#context = inputTokens + outputTokens;
  }

  #forgetOldest(): void {
    const [oldest] = this.#open.keys();
    if (this.#open.size >= OPEN_CALLS_MAX && oldest !== undefined) this.#interrupted(oldest);
  }

  /** The call was interrupted: what was reported stays, whatever a result says. */
  #interrupted(id: string): void {
    const call = this.#open.get(id);
    if (call === undefined) return;
    this.#open.delete(id);
    this.#recent = [...this.#recent, id].slice(-RECENT_CALLS_MAX);
    this.#final = addUsage(this.#final, call.usage);
  }

  /** The usage of one call; the numbers of its end take precedence. */
  #usageOf(begun: Json | undefined, ended: Json | undefined, model?: string): Usage {
    const tokens = (...path: string[]): number =>
      numberAt(ended, ...path) ?? numberAt(begun, ...path) ?? 0;
    const cachedTokens = tokens("cache_read_input_tokens");
    const written = tokens("cache_creation_input_tokens");
    const keptTokens = Math.min(written, tokens("cache_creation", "ephemeral_1h_input_tokens"));
    const usage = {
      inputTokens: tokens("input_tokens") + cachedTokens + written,
      cachedTokens,
      outputTokens: numberAt(ended, "output_tokens") ?? 0,
    };
    return this.#priced(
      usage,
      { ...usage, writtenTokens: written - keptTokens, keptTokens },
      model,
    );
  }

  #priced(usage: Tokens, tokens: Omit<PricedTokens, "long">, model: string | undefined): Usage {
    if (model === undefined) return usage;
    const long = usage.inputTokens > LONG_INPUT_TOKENS ? { long: tokens } : {};
    const costUsd = this.#prices.costOf(model, { ...tokens, ...long });
    return costUsd === undefined ? usage : { ...usage, costUsd, estimated: true };
  }

  /**
   * What was spent since the last result of this conversation. `total_cost_usd` is of the whole
   * session after a clean end and of this process after a kill, so it is only the last resort.
   */
  #resultUsage(line: JsonObject): Usage | undefined {
    const models = at(line, "model_usage_since_last_result");
    if (!isObject(models)) return ownUsage(line);
    let sum: Usage = { ...NOTHING_USED, costUsd: 0 };
    for (const [model, reported] of Object.entries(models)) {
      sum = addUsage(sum, this.#modelUsage(model, reported));
    }
    return sum;
  }

  /** The usage of one model as reported; a price of the user takes precedence. */
  #modelUsage(model: string, reported: Json): Usage {
    const cachedTokens = numberAt(reported, "cacheReadInputTokens") ?? 0;
    const writtenTokens = numberAt(reported, "cacheCreationInputTokens") ?? 0;
    const usage = {
      inputTokens: (numberAt(reported, "inputTokens") ?? 0) + cachedTokens + writtenTokens,
      cachedTokens,
      outputTokens: numberAt(reported, "outputTokens") ?? 0,
    };
    if (this.#prices.isOwn(model)) return this.#priced(usage, { ...usage, writtenTokens }, model);
    return { ...usage, costUsd: numberAt(reported, "costUSD") ?? 0 };
  }

  /** Older versions name the message in its first line only: it is the speaker's latest. */
  #idIn(line: JsonObject): string {
    const speaker = speakerOf(line);
    const latest = [...this.#open].findLast(([, call]) => call.speaker === speaker)?.[0];
    return textAt(line, "api_message_id") ?? latest ?? "";
  }
}

/** True for a line of the conversation itself, not of a subagent. */
export function isOwn(line: JsonObject): boolean {
  return speakerOf(line) === OWN;
}

function speakerOf(line: JsonObject): string {
  return textAt(line, "parent_tool_use_id") ?? OWN;
}

function ownUsage(line: JsonObject): Usage | undefined {
  const reported = at(line, "usage");
  if (reported === undefined) return undefined;
  const cached = numberAt(reported, "cache_read_input_tokens") ?? 0;
  const written = numberAt(reported, "cache_creation_input_tokens") ?? 0;
  const costUsd = numberAt(line, "total_cost_usd");
  return {
    inputTokens: (numberAt(reported, "input_tokens") ?? 0) + cached + written,
    cachedTokens: cached,
    outputTokens: numberAt(reported, "output_tokens") ?? 0,
    ...defined({ costUsd }),
  };
}

/** The window of the conversation's model; subagents may have other models. */
function windowIn(line: JsonObject, model: string | undefined): number | undefined {
  return model === undefined ? undefined : numberAt(line, "modelUsage", model, "contextWindow");
}
