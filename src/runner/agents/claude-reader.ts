/**
 * Reads what Claude Code prints with `--output-format stream-json`.
 *
 * Owns: what its lines mean.
 * Does not: keep what they say, but for the ids of the last messages and denials.
 * Invariants:
 * - G2 Success is a `result` line that says so in all its fields. Its `subtype` alone says
 *   "success" after errors of the API too.
 * - G3 as in adapter.ts.
 */
import type { Json, JsonObject } from "../../util/json.ts";
import type { AgentEvent, AgentReader, Trouble, TroubleKind, Usage } from "./adapter.ts";
import { at, inputText, listAt, numberAt, objectIn, textAt } from "./stream-json.ts";
import { trouble, troubleOf, unfinished } from "./trouble.ts";

/** Subagents speak in between, so a message's lines do not follow one another. */
const RECENT_MESSAGES_MAX = 64;
const DENIALS_MAX = 1_000;
const SECOND_MS = 1_000;
const SYNTHETIC_MODEL = "<synthetic>";

const ERROR_WORDS: Readonly<Record<string, TroubleKind>> = {
  authentication_failed: "auth",
  oauth_org_not_allowed: "auth",
  billing_error: "quota",
  rate_limit: "rate-limit",
  overloaded: "overloaded",
};

/** The reader of one stream of Claude Code. */
export class ClaudeReader implements AgentReader {
  #session: string | undefined;
  #recent: readonly string[] = [];
  readonly #denied = new Set<string>();
  #errorWord: string | undefined;
  #resetAtMs: number | undefined;
  #ended = false;
  #spoke = false;
  /** Of the messages so far: what the input was is final, what the output will be is not. */
  #provisional: Usage = { inputTokens: 0, cachedTokens: 0, outputTokens: 0 };

  line(text: string): readonly AgentEvent[] {
    const line = objectIn(text);
    if (line === undefined) return [];
    this.#spoke = true;
    return [...this.#sessionOf(line), ...this.#meaningOf(line)];
  }

  end(exit: number | undefined, stderr?: string): readonly AgentEvent[] {
    if (this.#ended) return [];
    const why = unfinished({ exit, stderr, spoke: this.#spoke, silence: "other" });
    const counted = this.#provisional.inputTokens > 0;
    const usage: AgentEvent = { type: "usage", counting: "delta", usage: this.#provisional };
    return [...(counted ? [usage] : []), { type: "result", ok: false, trouble: why }];
  }

  #sessionOf(line: JsonObject): readonly AgentEvent[] {
    const id = textAt(line, "session_id");
    if (id === undefined || id === this.#session) return [];
    this.#session = id;
    return [{ type: "session", id }];
  }

  #meaningOf(line: JsonObject): readonly AgentEvent[] {
    switch (line.type) {
      case "system":
        return this.#system(line);
      case "assistant":
        return this.#assistant(line);
      case "user":
        return listAt(line, "message", "content").flatMap(toolEnded);
      case "rate_limit_event":
        return this.#rateLimit(line);
      case "result":
        return this.#result(line);
      default:
        return [];
    }
  }

  #system(line: JsonObject): readonly AgentEvent[] {
    if (line.subtype === "permission_denied") {
      return this.#denials([line]);
    }
    if (line.subtype !== "api_retry") return [];
    const word = textAt(line, "error") ?? "unknown";
    const status = numberAt(line, "error_status");
    const message = `${word}${status === undefined ? "" : ` (${status})`}`;
    const kind = ERROR_WORDS[word] ?? (status === undefined ? "cut" : undefined);
    const why = kind === undefined ? troubleOf({ message, status }) : trouble(kind, message);
    const retryAfterMs = numberAt(line, "retry_delay_ms");
    return [
      {
        type: "retrying",
        trouble: retryAfterMs === undefined ? why : { ...why, retryAfterMs },
      },
    ];
  }

  #assistant(line: JsonObject): readonly AgentEvent[] {
    const content = listAt(line, "message", "content");
    if (textAt(line, "message", "model") === SYNTHETIC_MODEL) {
      this.#errorWord = textAt(line, "error");
      return [];
    }
    const own = at(line, "parent_tool_use_id") === undefined;
    const fresh = this.#count(line);
    return [
      ...(fresh && own ? [{ type: "turn" } as const] : []),
      ...content.flatMap((block): readonly AgentEvent[] => {
        if (textAt(block, "type") === "tool_use") return [toolStarted(block)];
        const text = textAt(block, "type") === "text" ? textAt(block, "text") : undefined;
        return text === undefined || !own ? [] : [{ type: "text", text }];
      }),
    ];
  }

  /** Counts a message once; true if it is a new one. */
  #count(line: JsonObject): boolean {
    const id = textAt(line, "message", "id");
    if (id === undefined || this.#recent.includes(id)) return false;
    this.#recent = [...this.#recent, id].slice(-RECENT_MESSAGES_MAX);
    const usage = at(line, "message", "usage");
    const cached = numberAt(usage, "cache_read_input_tokens") ?? 0;
    const written = numberAt(usage, "cache_creation_input_tokens") ?? 0;
    const { inputTokens, cachedTokens, outputTokens } = this.#provisional;
    this.#provisional = {
      inputTokens: inputTokens + (numberAt(usage, "input_tokens") ?? 0) + cached + written,
      cachedTokens: cachedTokens + cached,
      outputTokens: outputTokens + (numberAt(usage, "output_tokens") ?? 0),
    };
    return true;
  }

  /** The plan's limits: only a rejection matters, and when it ends. */
  #rateLimit(line: JsonObject): readonly AgentEvent[] {
    const resetsAt = numberAt(line, "rate_limit_info", "resetsAt");
    const rejected = textAt(line, "rate_limit_info", "status") === "rejected";
    this.#resetAtMs = rejected && resetsAt !== undefined ? resetsAt * SECOND_MS : undefined;
    return [];
  }

  #denials(list: readonly Json[]): readonly AgentEvent[] {
    return list.flatMap((denial): readonly AgentEvent[] => {
      const id = textAt(denial, "tool_use_id") ?? "";
      if (this.#denied.has(id)) return [];
      if (this.#denied.size < DENIALS_MAX) this.#denied.add(id);
      return [{ type: "denied", tool: textAt(denial, "tool_name") ?? "unknown" }];
    });
  }

  #result(line: JsonObject): readonly AgentEvent[] {
    this.#ended = true;
    const denials = listAt(line, "permission_denials");
    const why = this.#troubleIn(line, denials);
    const text = textAt(line, "result");
    const structured = at(line, "structured_output");
    return [
      ...this.#denials(denials),
      { type: "usage", counting: "delta", usage: usageIn(line) },
      {
        type: "result",
        ok: why === undefined,
        ...(text === undefined ? {} : { text }),
        ...(structured === undefined ? {} : { structured }),
        ...(why === undefined ? {} : { trouble: why }),
      },
    ];
  }

  #troubleIn(line: JsonObject, denials: readonly Json[]): Trouble | undefined {
    const subtype = textAt(line, "subtype") ?? "";
    const reason = textAt(line, "terminal_reason") ?? "completed";
    const failed = line.is_error !== false || subtype !== "success" || reason !== "completed";
    if (!failed) {
      if (denials.length === 0) return undefined;
      const tools = new Set(denials.map((denial) => textAt(denial, "tool_name") ?? "unknown"));
      return trouble("denied", `not permitted: ${[...tools].join(", ")}`);
    }
    const errors = listAt(line, "errors").filter((error) => typeof error === "string");
    const message = [textAt(line, "result"), ...errors].filter(Boolean).join("; ") || subtype;
    if (reason === "max_turns" || subtype === "error_max_turns") {
      return trouble("max-turns", message);
    }
    if (reason.startsWith("aborted")) return trouble("interrupted", message);
    if (textAt(line, "api_error") === "connection_failed") return trouble("cut", message);
    return this.#apiTrouble(message, numberAt(line, "api_error_status"));
  }

  #apiTrouble(message: string, status: number | undefined): Trouble {
    const kind = ERROR_WORDS[this.#errorWord ?? ""];
    if (this.#resetAtMs !== undefined && (kind === "rate-limit" || status === 429)) {
      return trouble("quota", message, this.#resetAtMs - Date.now());
    }
    const found = troubleOf({ message, status });
    return kind === undefined ? found : { ...found, kind };
  }
}

function toolStarted(block: Json): AgentEvent {
  return {
    type: "tool-started",
    id: textAt(block, "id") ?? "",
    name: textAt(block, "name") ?? "unknown",
    input: inputText(at(block, "input")),
  };
}

function toolEnded(block: Json): readonly AgentEvent[] {
  if (textAt(block, "type") !== "tool_result") return [];
  const id = textAt(block, "tool_use_id") ?? "";
  return [{ type: "tool-ended", id, ok: at(block, "is_error") !== true }];
}

/**
 * What was spent since the last result of this conversation. `total_cost_usd` is of the whole
 * session after a clean end and of this process after a kill, so it is only the last resort.
 */
function usageIn(line: JsonObject): Usage {
  const models = at(line, "model_usage_since_last_result");
  if (models === undefined) return ownUsage(line);
  const sum = { inputTokens: 0, cachedTokens: 0, outputTokens: 0, costUsd: 0 };
  for (const model of Object.values(models as JsonObject)) {
    const cached = numberAt(model, "cacheReadInputTokens") ?? 0;
    const written = numberAt(model, "cacheCreationInputTokens") ?? 0;
    sum.inputTokens += (numberAt(model, "inputTokens") ?? 0) + cached + written;
    sum.cachedTokens += cached;
    sum.outputTokens += numberAt(model, "outputTokens") ?? 0;
    sum.costUsd += numberAt(model, "costUSD") ?? 0;
  }
  return sum;
}

function ownUsage(line: JsonObject): Usage {
  const cached = numberAt(line, "usage", "cache_read_input_tokens") ?? 0;
  const written = numberAt(line, "usage", "cache_creation_input_tokens") ?? 0;
  const costUsd = numberAt(line, "total_cost_usd");
  return {
    inputTokens: (numberAt(line, "usage", "input_tokens") ?? 0) + cached + written,
    cachedTokens: cached,
    outputTokens: numberAt(line, "usage", "output_tokens") ?? 0,
    ...(costUsd === undefined ? {} : { costUsd }),
  };
}
