/**
 * The spans inside an attempt of an agent: one for each answer of its model and one for each call of
 * a tool. A fold over what the adapter's reader makes of the agent's stream.
 *
 * An answer takes from the moment when the agent could ask (its start, or the end of the last tool)
 * until the last line of the answer.
 *
 * Owns: which spans there are, and when they start and end.
 * Does not: know the time of a line: the caller does, and gives the same time for the same line
 *   whenever it reads the stream.
 * Invariants:
 * - trace/T2 The same events at the same times make the same spans in the same order.
 */
import type { UsageBefore } from "../../core/event.ts";
import { defined } from "../../util/defined.ts";
import {
  agentAttributes,
  OpenSpan,
  type Span,
  type SpanAttributes,
  type TracedAgent,
} from "./span.ts";

interface UsedTokens {
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

/** What a stream says, as far as spans show it; the events of `runner/agents` fit. */
export type ConversationEvent =
  | { readonly type: "session" | "cost" }
  | { readonly type: "model"; readonly model: string }
  | { readonly type: "text"; readonly text: string }
  | {
      readonly type: "tool-started";
      readonly id: string;
      readonly name: string;
      readonly input: string;
    }
  | {
      readonly type: "tool-ended";
      readonly id: string;
      readonly ok: boolean;
      readonly result?: string;
    }
  | {
      readonly type: "usage";
      readonly counting: "delta" | "invocation" | "total";
      readonly usage: UsedTokens;
    }
  | { readonly type: "turn" }
  | {
      readonly type: "retrying";
      readonly trouble: { readonly kind: string; readonly message: string };
    }
  | { readonly type: "denied"; readonly tool: string }
  | {
      readonly type: "result";
      readonly ok: boolean;
      readonly trouble?: { readonly kind: string; readonly message: string };
    };

interface TracedConversation {
  /** The key of the span of the attempt. */
  readonly key: string;
  readonly startedAt: number;
  readonly agent: TracedAgent;
  readonly runId: string;
  /** The use of the conversation before this attempt, where the agent counts all of it. */
  readonly used?: UsageBefore;
  /** Whether spans hold the words of the model, and the inputs and results of its tools. */
  readonly content: boolean;
}

interface OpenTurn {
  readonly span: OpenSpan;
  /** The stream has counted it. */
  isCounted: boolean;
  lastAt: number;
  text: string;
}

const TEXT_CHARACTERS_MAX = 16_000;
/** How many calls may be open; an agent that never ends its calls does not fill the memory. */
const OPEN_CALLS_MAX = 256;

/** The fold over one stream. */
export class ConversationTrace {
  readonly #of: TracedConversation;
  readonly #tools = new Map<string, OpenSpan>();
  #turn: OpenTurn | undefined;
  #turns = 0;
  #calls = 0;
  #boundaryAt: number;
  #model: string | undefined;
  #counted: UsedTokens = { inputTokens: 0, cachedTokens: 0, outputTokens: 0 };

  constructor(of: TracedConversation) {
    this.#of = of;
    this.#boundaryAt = of.startedAt;
  }

  /** Adds what the stream says next; returns the spans that ended. */
  add(event: ConversationEvent, time: number): readonly Span[] {
    switch (event.type) {
      case "model":
        this.#model = event.model;
        return [];
      case "turn":
        return this.#turnCounted(time);
      case "text": {
        const turn = this.#answering(time);
        if (this.#of.content) turn.text = `${turn.text}${event.text}`.slice(0, TEXT_CHARACTERS_MAX);
        return [];
      }
      case "usage":
        this.#use(event.counting, event.usage, time);
        return [];
      case "tool-started":
        return this.#toolStarted(event, time);
      case "tool-ended":
        return this.#toolEnded(event, time);
      case "retrying":
        this.#answering(time).span.event(time, "retrying", { "error.type": event.trouble.kind });
        return [];
      case "denied":
        this.#answering(time).span.event(time, "denied", { "gen_ai.tool.name": event.tool });
        return [];
      case "result":
        return this.#endTurn(event.ok ? undefined : troubleOf(event.trouble));
      default:
        return [];
    }
  }

  /** Ends what is open when the attempt ends. */
  end(time: number): readonly Span[] {
    const spans: Span[] = [];
    for (const [id, tool] of this.#tools) {
      tool.set({ "perdure.outcome": "unfinished" });
      spans.push(tool.end(time));
      this.#tools.delete(id);
    }
    return [...spans, ...this.#endTurn()];
  }

  /** The answer that the model gives now. */
  #answering(time: number): OpenTurn {
    this.#turn ??= this.#beginTurn(time);
    this.#turn.lastAt = time;
    return this.#turn;
  }

  #beginTurn(time: number): OpenTurn {
    this.#turns += 1;
    const model = this.#model ?? this.#of.agent.model;
    const span = new OpenSpan(`${this.#of.key}/turn ${this.#turns}`, this.#boundaryAt, undefined, {
      of: "turn",
      name: model === undefined ? "chat" : `chat ${model}`,
      parent: this.#of.key,
      links: [],
      attributes: {
        ...this.#common("chat"),
        ...defined({ "gen_ai.request.model": model }),
        "perdure.turn": this.#turns,
      },
    });
    return { span, isCounted: false, lastAt: time, text: "" };
  }

  /** Some agents count an answer when it begins, others when it has ended. */
  #turnCounted(time: number): readonly Span[] {
    const before = this.#turn?.isCounted === true ? this.#endTurn() : [];
    this.#answering(time).isCounted = true;
    return before;
  }

  #endTurn(error?: Span["error"]): readonly Span[] {
    const turn = this.#turn;
    if (turn === undefined) return [];
    this.#turn = undefined;
    this.#boundaryAt = turn.lastAt;
    if (turn.text !== "") {
      const parts = [{ type: "text", content: turn.text }];
      const messages = [{ role: "assistant", parts }];
      turn.span.set({ "gen_ai.output.messages": JSON.stringify(messages) });
    }
    return [turn.span.end(turn.lastAt, error)];
  }

  #toolStarted(
    { id, name, input }: Extract<ConversationEvent, { type: "tool-started" }>,
    time: number,
  ): readonly Span[] {
    this.#answering(time);
    if (this.#tools.has(id) || this.#tools.size >= OPEN_CALLS_MAX) return [];
    this.#calls += 1;
    const span = new OpenSpan(`${this.#of.key}/tool ${this.#calls}`, time, undefined, {
      of: "tool",
      name: `execute_tool ${name}`,
      parent: this.#of.key,
      links: [],
      attributes: {
        ...this.#common("execute_tool"),
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": id,
        "perdure.turn": this.#turns,
        ...(this.#of.content ? { "gen_ai.tool.call.arguments": input } : {}),
      },
    });
    this.#tools.set(id, span);
    return [];
  }

  #toolEnded(
    { id, ok, result }: Extract<ConversationEvent, { type: "tool-ended" }>,
    time: number,
  ): readonly Span[] {
    // The tools of an answer run after it.
    const turn = this.#turn?.isCounted === true ? this.#endTurn() : [];
    if (this.#turn === undefined) this.#boundaryAt = time;
    const span = this.#tools.get(id);
    if (span === undefined) return turn;
    this.#tools.delete(id);
    if (this.#of.content && result !== undefined) span.set({ "gen_ai.tool.call.result": result });
    const error = ok ? undefined : { type: "tool_error", message: "the call failed" };
    return [...turn, span.end(time, error)];
  }

  #use(counting: "delta" | "invocation" | "total", usage: UsedTokens, time: number): void {
    const base = counting === "total" && this.#of.used !== undefined ? this.#of.used : NOTHING;
    const before = counting === "delta" ? NOTHING : this.#counted;
    const part = (name: keyof UsedTokens): number =>
      Math.max(0, usage[name] - base[name] - before[name]);
    const { span } = this.#answering(time);
    span.count("gen_ai.usage.input_tokens", part("inputTokens"));
    span.count("gen_ai.usage.cache_read.input_tokens", part("cachedTokens"));
    span.count("gen_ai.usage.output_tokens", part("outputTokens"));
    if (counting === "delta") return;
    this.#counted = {
      inputTokens: usage.inputTokens - base.inputTokens,
      cachedTokens: usage.cachedTokens - base.cachedTokens,
      outputTokens: usage.outputTokens - base.outputTokens,
    };
  }

  #common(operation: string): SpanAttributes {
    return {
      "perdure.run.id": this.#of.runId,
      "gen_ai.operation.name": operation,
      ...agentAttributes(this.#of.agent),
    };
  }
}

const NOTHING: UsedTokens = { inputTokens: 0, cachedTokens: 0, outputTokens: 0 };

function troubleOf(
  trouble: { readonly kind: string; readonly message: string } | undefined,
): Span["error"] {
  return trouble === undefined
    ? { type: "other", message: "it did not succeed" }
    : { type: trouble.kind, message: trouble.message };
}
