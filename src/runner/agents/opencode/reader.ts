/**
 * Reads what `opencode run --format json` prints. It has no terminal event, and a tool is printed
 * only once it has ended.
 *
 * Owns: what its lines mean, and what their end means.
 * Does not: keep what they say, except the last text, which is the answer.
 * Invariants:
 * - opencode-reader/G2 Success is a last step that finished with "stop", no error after it, and the
 *   exit status 0, or 1 if it continued after an error: a step that summarises a long conversation
 *   stops too, and then the conversation continues.
 * - opencode-reader/G3 as in adapter.ts.
 */
import type { Json, JsonObject } from "../../../util/json.ts";
import type { AgentEvent, AgentFailure, AgentReader } from "../adapter.ts";
import { agentFailure, agentFailureOf, unfinished } from "../agent-failure.ts";
import { at, inputText, numberAt, objectIn, tailOf, textAt } from "../stream-json.ts";
import { type Usage, usageOfCall } from "../usage.ts";

const ANSWER_CHARACTERS_MAX = 64 * 1024;
const SECOND_MS = 1_000;
/** Its exit status after any error, also one after which it continued. */
const ERROR_SEEN_EXIT = 1;
const REJECTED = /rejected permission|prevents you from using this/i;

/** The reader of one stream of opencode. */
export class OpencodeReader implements AgentReader {
  #session: string | undefined;
  #answer: string | undefined;
  /** Why the last step finished; undefined while one runs. */
  #reason: string | undefined;
  #denied: string | undefined;
  #error: AgentFailure | undefined;
  /** It continued after an error, as after a full context, of which it makes a summary. */
  #recovered = false;
  #spoke = false;

  line(text: string): readonly AgentEvent[] {
    const line = objectIn(text);
    if (line === undefined) return [];
    this.#spoke = true;
    return [...this.#sessionOf(line), ...this.#meaningOf(line)];
  }

  end(exit: number | undefined, stderr?: string): readonly AgentEvent[] {
    const text = this.#answer === undefined ? {} : { text: this.#answer };
    const why = this.#troubleAt(exit, stderr);
    if (why === undefined) return [{ type: "result", ok: true, ...text }];
    return [{ type: "result", ok: false, ...text, trouble: why }];
  }

  #sessionOf(line: JsonObject): readonly AgentEvent[] {
    const id = textAt(line, "sessionID");
    if (id === undefined || id === this.#session) return [];
    this.#session = id;
    return [{ type: "session", id }];
  }

  #meaningOf(line: JsonObject): readonly AgentEvent[] {
    const part = at(line, "part");
    switch (line.type) {
      case "step_start":
        this.#reason = undefined;
        this.#denied = undefined;
        if (this.#error !== undefined) this.#recovered = true;
        this.#error = undefined;
        return [{ type: "turn" }];
      case "text": {
        const text = textAt(part, "text") ?? "";
        this.#answer = tailOf(text, ANSWER_CHARACTERS_MAX);
        return [{ type: "text", text }];
      }
      case "tool_use":
        return this.#tool(part);
      case "step_finish":
        this.#reason = textAt(part, "reason") ?? "unknown";
        return [stepUsage(part)];
      case "error":
        this.#error = troubleIn(at(line, "error"));
        return [];
      default:
        return [];
    }
  }

  #tool(part: Json | undefined): readonly AgentEvent[] {
    const id = textAt(part, "callID") ?? "";
    const name = textAt(part, "tool") ?? "unknown";
    const state = at(part, "state");
    const ok =
      textAt(state, "status") === "completed" && !(numberAt(state, "metadata", "exit") ?? 0);
    const started = {
      type: "tool-started",
      id,
      name,
      input: inputText(at(state, "input")),
    } as const;
    const result = textAt(state, "output") ?? textAt(state, "error") ?? "";
    const ended = { type: "tool-ended", id, ok, result } as const;
    if (!REJECTED.test(textAt(state, "error") ?? "")) return [started, ended];
    this.#denied = name;
    return [started, { type: "denied", tool: name, id }, ended];
  }

  #troubleAt(exit: number | undefined, stderr: string | undefined): AgentFailure | undefined {
    if (this.#error !== undefined) return this.#error;
    const exited = exit === 0 || (exit === ERROR_SEEN_EXIT && this.#recovered);
    if (exited && this.#reason === "stop") return undefined;
    if (exit === 0 && this.#denied !== undefined) {
      return agentFailure("denied", `not permitted: ${this.#denied}`);
    }
    if (exit === 0 && this.#reason !== undefined && this.#reason !== "tool-calls") {
      return agentFailure("other", `the last answer ended with "${this.#reason}"`);
    }
    return unfinished({ exit, stderr, spoke: this.#spoke, silence: "session-gone" });
  }
}

function troubleIn(error: Json | undefined): AgentFailure {
  const data = at(error, "data");
  const name = textAt(error, "name") ?? "error";
  const message = textAt(data, "message") ?? name;
  if (name === "ProviderAuthError") return agentFailure("auth", message);
  if (name === "MessageAbortedError") return agentFailure("interrupted", message);
  return agentFailureOf({
    message: `${message}${kindWord(textAt(data, "responseBody"))}`,
    status: numberAt(data, "statusCode"),
    retryAfterMs: retryAfterIn(at(data, "responseHeaders")),
  });
}

/** The service's own code for the error: the message may say less than the code. */
function kindWord(body: string | undefined): string {
  const error = at(objectIn(body ?? ""), "error");
  const word = textAt(error, "code") ?? textAt(error, "type");
  return word === undefined ? "" : ` (${word})`;
}

function retryAfterIn(headers: Json | undefined): number | undefined {
  const exact = Number(textAt(headers, "retry-after-ms") ?? Number.NaN);
  const seconds = Number(textAt(headers, "retry-after") ?? Number.NaN);
  if (Number.isFinite(exact)) return exact;
  return Number.isFinite(seconds) ? seconds * SECOND_MS : undefined;
}

/** A step is one call of the model. */
function stepUsage(part: Json | undefined): AgentEvent {
  const usage = usageIn(part);
  const context = usage.inputTokens + usage.outputTokens;
  return { type: "usage", counting: "delta", usage, context };
}

/** The usage of one step. Cached input and thinking are counted apart. */
function usageIn(part: Json | undefined): Usage {
  const cached = numberAt(part, "tokens", "cache", "read") ?? 0;
  const written = numberAt(part, "tokens", "cache", "write") ?? 0;
  // It reports 0 for a model whose price it does not know.
  const costUsd = numberAt(part, "cost") ?? 0;
  return {
    ...usageOfCall({
      inputTokens: (numberAt(part, "tokens", "input") ?? 0) + cached + written,
      cachedTokens: cached,
      outputTokens:
        (numberAt(part, "tokens", "output") ?? 0) + (numberAt(part, "tokens", "reasoning") ?? 0),
    }),
    ...(costUsd === 0 ? {} : { costUsd }),
  };
}
