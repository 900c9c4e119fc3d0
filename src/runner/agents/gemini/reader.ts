/**
 * Reads the stream of Gemini CLI: the output of `--output-format stream-json`.
 *
 * Owns: the meaning of its lines and its exit statuses.
 * Does not: keep their content, except the end of the text since the last tool: the answer.
 * Invariants:
 * - gemini-reader/G2 Success is `result` with status `success`; when it is stopped, it exits with 0
 *   and prints none.
 * - gemini-reader/G3 as in adapter.ts.
 */
import { defined } from "../../../util/defined.ts";
import type { JsonObject } from "../../../util/json.ts";
import type { AgentEvent, AgentFailure, AgentFailureKind, AgentReader } from "../adapter.ts";
import { agentFailure, agentFailureOf, unfinished } from "../agent-failure.ts";
import { at, grown, inputText, numberAt, objectIn, textAt } from "../stream-json.ts";
import type { Usage } from "../usage.ts";

const ANSWER_CHARACTERS_MAX = 64 * 1024;
const OPEN_TOOLS_MAX = 1_000;

/** Exit statuses of its own. Those of the service's errors are the HTTP status modulo 256. */
const EXITS: Readonly<Record<number, AgentFailureKind>> = {
  41: "auth",
  42: "session-gone",
  53: "max-turns",
  55: "denied",
};

/** Tools that it offers only if they are permitted. The model may still call them. */
const GATED = /^(run_shell_command|write_file|replace|edit|web_fetch)$/;
const REFUSED = /denied by policy|requires user confirmation/;

/** The reader of one stream of Gemini CLI. */
export class GeminiReader implements AgentReader {
  readonly #open = new Map<string, string>();
  #answer = "";
  #answering = false;
  #ended = false;
  #spoke = false;

  line(text: string): readonly AgentEvent[] {
    const line = objectIn(text);
    if (line === undefined) return [];
    this.#spoke = true;
    switch (line.type) {
      case "init": {
        const id = textAt(line, "session_id");
        const model = textAt(line, "model");
        return [
          ...(id === undefined ? [] : [{ type: "session", id } as const]),
          ...(model === undefined ? [] : [{ type: "model", model } as const]),
        ];
      }
      case "message":
        return line.role === "assistant" ? this.#text(textAt(line, "content") ?? "") : [];
      case "tool_use":
        return this.#toolStarted(line);
      case "tool_result":
        return this.#toolEnded(line);
      case "result":
        return this.#result(line);
      default:
        return [];
    }
  }

  end(exit: number | undefined, stderr?: string): readonly AgentEvent[] {
    if (this.#ended) return [];
    return [{ type: "result", ok: false, trouble: this.#unfinished(exit, stderr) }];
  }

  #unfinished(exit: number | undefined, stderr: string | undefined): AgentFailure {
    const kind = exit === undefined ? undefined : EXITS[exit];
    const why = unfinished({ exit, stderr, spoke: this.#spoke, silence: kind ?? "other" });
    return kind === undefined ? why : { ...why, kind };
  }

  #text(text: string): readonly AgentEvent[] {
    const begun = this.#turn();
    this.#answer = grown(this.#answer, text, ANSWER_CHARACTERS_MAX);
    return [...begun, { type: "text", text }];
  }

  #toolStarted(line: JsonObject): readonly AgentEvent[] {
    const id = textAt(line, "tool_id") ?? "";
    const name = textAt(line, "tool_name") ?? "unknown";
    if (this.#open.size < OPEN_TOOLS_MAX) this.#open.set(id, name);
    const input = inputText(at(line, "parameters"));
    return [...this.#turn(), { type: "tool-started", id, name, input }];
  }

  #toolEnded(line: JsonObject): readonly AgentEvent[] {
    const id = textAt(line, "tool_id") ?? "";
    const name = this.#open.get(id) ?? "unknown";
    this.#open.delete(id);
    if (this.#open.size === 0) this.#answering = false;
    const result = textAt(line, "output") ?? textAt(line, "error", "message") ?? "";
    const ended: AgentEvent = { type: "tool-ended", id, ok: line.status === "success", result };
    return isDenial(line, name) ? [{ type: "denied", tool: name, id }, ended] : [ended];
  }

  /** An answer of the model begins with the first event after the tools. */
  #turn(): readonly AgentEvent[] {
    if (this.#answering) return [];
    this.#answering = true;
    this.#answer = "";
    return [{ type: "turn" }];
  }

  #result(line: JsonObject): readonly AgentEvent[] {
    this.#ended = true;
    const why = line.status === "success" ? undefined : troubleIn(line);
    const text = this.#answer === "" ? {} : { text: this.#answer };
    return [
      { type: "usage", counting: "delta", usage: usageIn(line) },
      {
        type: "result",
        ok: why === undefined,
        ...text,
        ...defined({ trouble: why }),
      },
    ];
  }
}

function isDenial(line: JsonObject, name: string): boolean {
  const type = textAt(line, "error", "type");
  if (type === "policy_violation") return true;
  if (type === "tool_not_registered") return GATED.test(name);
  return REFUSED.test(textAt(line, "error", "message") ?? "");
}

function troubleIn(line: JsonObject): AgentFailure {
  const message = textAt(line, "error", "message") ?? "the agent failed";
  const type = textAt(line, "error", "type");
  if (type === "FatalTurnLimitedError") return agentFailure("max-turns", message);
  if (type === "FatalAuthenticationError") return agentFailure("auth", message);
  if (type === "FatalCancellationError") return agentFailure("interrupted", message);
  return agentFailureOf({ message });
}

/** The usage of this process. Thinking is only in the total. */
function usageIn(line: JsonObject): Usage {
  const input = numberAt(line, "stats", "input_tokens") ?? 0;
  const output = numberAt(line, "stats", "output_tokens") ?? 0;
  const total = numberAt(line, "stats", "total_tokens") ?? 0;
  return {
    inputTokens: input,
    cachedTokens: numberAt(line, "stats", "cached") ?? 0,
    outputTokens: Math.max(output, total - input),
  };
}
