/**
 * Reads what our client of the Agent Client Protocol prints (acp-line.ts).
 *
 * Owns: what its lines mean; where one answer of the model ends and the next begins, which the
 * protocol does not say: with whatever comes first after the tools.
 * Does not: keep what they say, but for the last answer.
 * Invariants:
 * - G2 Success is the stop reason `end_turn`.
 * - G3 as in adapter.ts.
 */
import type { Json, JsonObject } from "../../util/json.ts";
import type { AgentEvent, AgentReader, Trouble, TroubleKind } from "./adapter.ts";
import { at, grown, numberAt, objectIn, tailOf, textAt } from "./stream-json.ts";
import { trouble, unfinished } from "./trouble.ts";

const ANSWER_CHARACTERS_MAX = 64 * 1024;

const KINDS: Readonly<Record<TroubleKind, true>> = {
  "rate-limit": true,
  overloaded: true,
  quota: true,
  server: true,
  cut: true,
  auth: true,
  "session-gone": true,
  "max-turns": true,
  overflow: true,
  model: true,
  missing: true,
  interrupted: true,
  denied: true,
  other: true,
};

/** Why a prompt ended that did not end well, in words. */
const STOPS: Readonly<Record<string, readonly [TroubleKind, string]>> = {
  max_tokens: ["other", "the answer was longer than the model may answer"],
  max_turn_requests: ["max-turns", "the agent asked its model as often as it may"],
  refusal: ["other", "the agent refused to go on"],
  cancelled: ["interrupted", "the agent was told to stop before it was done"],
};

/** The reader of one stream of our client. */
export class AcpReader implements AgentReader {
  #answer = "";
  #answering = false;
  #denied: string | undefined;
  #ended = false;
  #spoke = false;

  line(text: string): readonly AgentEvent[] {
    const line = objectIn(text);
    if (line === undefined) return [];
    this.#spoke = true;
    switch (line.type) {
      case "session": {
        const id = textAt(line, "id");
        return id === undefined ? [] : [{ type: "session", id }];
      }
      case "model": {
        const model = textAt(line, "model");
        return model === undefined ? [] : [{ type: "model", model }];
      }
      case "text":
        return this.#said(textAt(line, "text") ?? "");
      case "thought":
        return this.#turn();
      case "tool-started":
      case "tool-ended":
        return this.#tool(line);
      case "denied":
        return this.#refused(textAt(line, "rule") ?? textAt(line, "tool") ?? "a tool");
      case "usage":
      case "cost":
        return spending(line);
      case "result":
        return this.#result(line);
      default:
        return [];
    }
  }

  end(exit: number | undefined, stderr?: string): readonly AgentEvent[] {
    if (this.#ended) return [];
    const why = unfinished({ exit, stderr, spoke: this.#spoke, silence: "other" });
    return [{ type: "result", ok: false, trouble: why }];
  }

  /** The line's end belongs to the answer; for those who show it, each event is a line. */
  #said(text: string): readonly AgentEvent[] {
    const begun = this.#turn();
    this.#answer = grown(this.#answer, text, ANSWER_CHARACTERS_MAX);
    return [...begun, { type: "text", text: text.replace(/\n$/, "") }];
  }

  #tool(line: JsonObject): readonly AgentEvent[] {
    const id = textAt(line, "id") ?? "";
    if (line.type === "tool-ended") {
      this.#answering = false;
      const result = textAt(line, "result") ?? "";
      return [{ type: "tool-ended", id, ok: line.ok === true, result }];
    }
    const name = textAt(line, "name") ?? "tool";
    const input = textAt(line, "input") ?? "";
    return [...this.#turn(), { type: "tool-started", id, name, input }];
  }

  /** The agent hears of it as of a tool that has ended. */
  #refused(tool: string): readonly AgentEvent[] {
    const begun = this.#turn();
    this.#answering = false;
    this.#denied = tool;
    return [...begun, { type: "denied", tool }];
  }

  #turn(): readonly AgentEvent[] {
    if (this.#answering) return [];
    this.#answering = true;
    this.#answer = "";
    return [{ type: "turn" }];
  }

  #result(line: JsonObject): readonly AgentEvent[] {
    const stop = textAt(line, "stop");
    if (stop === undefined) return [];
    this.#ended = true;
    const why = this.#whyNot(stop, at(line, "trouble"));
    const answer = tailOf(this.#answer, ANSWER_CHARACTERS_MAX).trimEnd();
    const text = answer === "" ? {} : { text: answer };
    const ok = why === undefined;
    return [{ type: "result", ok, ...text, ...(ok ? {} : { trouble: why }) }];
  }

  #whyNot(stop: string, said: Json | undefined): Trouble | undefined {
    if (stop === "error") return troubleIn(said);
    if (stop === "end_turn") return undefined;
    // Some agents end the turn when they are rejected; nobody interrupted them.
    if (this.#denied !== undefined) return trouble("denied", `not permitted: ${this.#denied}`);
    const [kind, message] = STOPS[stop] ?? ["other", `the agent stopped: ${stop}`];
    return trouble(kind, message);
  }
}

function spending(line: JsonObject): readonly AgentEvent[] {
  if (line.type === "cost") {
    const totalUsd = numberAt(line, "totalUsd");
    return totalUsd === undefined ? [] : [{ type: "cost", totalUsd }];
  }
  const usage = {
    inputTokens: numberAt(line, "inputTokens") ?? 0,
    cachedTokens: numberAt(line, "cachedTokens") ?? 0,
    outputTokens: numberAt(line, "outputTokens") ?? 0,
  };
  return [{ type: "usage", counting: "delta", usage }];
}

function troubleIn(said: Json | undefined): Trouble {
  const kind = textAt(said, "kind") ?? "other";
  const message = textAt(said, "message") ?? "the agent failed";
  const known = Object.hasOwn(KINDS, kind) ? (kind as TroubleKind) : "other";
  return trouble(known, message, numberAt(said, "retryAfterMs"));
}
