/**
 * Claude Code: how a conversation starts and continues, where its transcript is, and how its stream
 * is read: the output of `--output-format stream-json`.
 *
 * Owns: its flags, its variables, its transcript `projects/<folder>/<id>.jsonl`, and the meaning of
 * its lines.
 * Does not: count the usage of calls (meter.ts), or keep the content of lines, except the ids of
 * denied and skipped calls.
 * Invariants: runner/G4.
 * - claude/G2 Success is a `result` line that says so in all its fields. Its `subtype` alone says
 *   "success" after errors of the API too.
 * - claude/G3 as in adapter.ts.
 */

import { randomUUID } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { HOOK_FORBIDS, type PermissionLevel } from "../../../util/agent-access.ts";
import { defined } from "../../../util/defined.ts";
import type { Json, JsonObject } from "../../../util/json.ts";
import { errorCode } from "../../file-text.ts";
import type {
  AgentAdapter,
  AgentCall,
  AgentCommand,
  AgentEvent,
  AgentFailure,
  AgentFailureKind,
  FinishedCall,
} from "../adapter.ts";
import { agentFailure, agentFailureOf } from "../agent-failure.ts";
import { claudeHome, isPlainId, unlessSet } from "../agent-home.ts";
import { LineReader } from "../line-reader.ts";
import { at, inputText, listAt, numberAt, textAt } from "../stream-json.ts";
import { callsWithoutResult, hasUserTurn, removalOfEmpty } from "../transcript.ts";
import type { PriceList } from "../usage.ts";
import { ClaudeMeter, isOwn } from "./meter.ts";

const SYSTEM_FILE = "system.md";
const MCP_FILE = "mcp.json";

const PERMISSIONS: Readonly<Record<PermissionLevel, readonly string[]>> = {
  default: [],
  plan: ["--permission-mode", "plan"],
  edit: ["--permission-mode", "acceptEdits"],
  all: ["--dangerously-skip-permissions"],
};

const QUIET = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_TELEMETRY: "1",
  DISABLE_AUTOUPDATER: "1",
  DISABLE_ERROR_REPORTING: "1",
};

/** Claude Code. */
export const claude: AgentAdapter = {
  name: "claude",
  continues: true,
  enforces: { maxTurns: true, outputSchema: true },
  newSession: () => randomUUID(),
  transcript: (session, { env }) => filesOf(session, env).find(hasUserTurn),
  transcriptTarget: (transcript, { cwd, env }) => ({
    path: join(projectsIn(env), folderFor(cwd), basename(transcript)),
    beside: {},
  }),
  command,
  open: ({ session, model, system, ...call }) => ({
    argv: [
      ...["claude", "--resume", session],
      ...(model === undefined ? [] : ["--model", model]),
      ...(system === undefined ? [] : ["--append-system-prompt", system]),
      ...accessFlags(call),
      ...call.args,
    ],
    env: unlessSet(call.env, sandboxFor(call.permissions)),
  }),
  unrecorded,
  reader: (prices) => new ClaudeReader(prices),
  modelAliases: ["default", "best", "fable", "haiku", "mythos", "opus", "opusplan", "sonnet"],
};

function command(call: AgentCall): AgentCommand {
  const { session, model, system, maxTurns, outputSchema, effort, mcp } = call;
  const naming = call.kind === "continue" ? "--resume" : "--session-id";
  const argv = [
    "claude",
    ...["-p", "--output-format", "stream-json", "--verbose"],
    // Without it the usage of a call is reported only when the agent ends by itself.
    "--include-partial-messages",
    ...(session === undefined ? [] : [naming, session]),
    ...(model === undefined ? [] : ["--model", model]),
    ...(system === undefined ? [] : ["--append-system-prompt-file", join(call.dir, SYSTEM_FILE)]),
    ...accessFlags(call),
    ...(effort === undefined ? [] : ["--effort", effort]),
    ...(mcp === undefined ? [] : ["--mcp-config", join(call.dir, MCP_FILE)]),
    ...(maxTurns === undefined ? [] : ["--max-turns", String(maxTurns)]),
    ...(outputSchema === undefined ? [] : ["--json-schema", JSON.stringify(outputSchema)]),
    ...call.args,
  ];
  return {
    argv,
    env: unlessSet(call.env, { ...QUIET, ...sandboxFor(call.permissions) }),
    files: {
      ...defined({ [SYSTEM_FILE]: system }),
      ...(mcp === undefined ? {} : { [MCP_FILE]: JSON.stringify({ mcpServers: mcp }) }),
    },
    ...(call.kind === "start" ? removalOfEmpty(filesOf(session ?? "", call.env)) : {}),
  };
}

/** Root may skip permissions only if the environment says that it is a sandbox. */
function sandboxFor(permissions: PermissionLevel): Readonly<Record<string, string>> {
  return permissions === "all" && process.getuid?.() === 0 ? { IS_SANDBOX: "1" } : {};
}

/** The flags for what it may do without asking. */
function accessFlags(
  call: Pick<AgentCall, "permissions" | "allow" | "deny" | "directories">,
): readonly string[] {
  return [
    ...PERMISSIONS[call.permissions],
    ...listed("--allowedTools", call.allow),
    ...listed("--disallowedTools", call.deny),
    ...listed("--add-dir", call.directories),
  ];
}

/** A flag with all its values after it; nothing without values. */
function listed(flag: string, values: readonly string[] = []): readonly string[] {
  return values.length === 0 ? [] : [flag, ...values];
}

/**
 * The transcripts of a session; it can be resumed from any directory, so all folders are searched.
 */
function filesOf(session: string, env: AgentCall["env"]): readonly string[] {
  if (!isPlainId(session)) return [];
  const projects = projectsIn(env);
  return foldersIn(projects)
    .map((folder) => join(projects, folder, `${session}.jsonl`))
    .filter((file) => existsSync(file));
}

function projectsIn(env: AgentCall["env"]): string {
  return join(claudeHome(env), "projects");
}

/** The folder of the conversations that are begun in a directory. */
function folderFor(cwd: string): string {
  return cwd.replaceAll(/[^A-Za-z0-9]/g, "-");
}

function foldersIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  }
}

/** The result that Claude Code writes for a call whose result it did not record. */
const INTERRUPTED = "Tool call interrupted: the session ended before";

/**
 * The calls whose results a transcript lacks. Claude Code writes a result down about 100 ms after
 * it printed it, and nothing of a reply that is not closed.
 */
function unrecorded(transcript: string, calls: readonly FinishedCall[]): readonly FinishedCall[] {
  return callsWithoutResult(transcript, calls, (record) =>
    listAt(record, "message", "content")
      .filter((block) => !JSON.stringify(at(block, "content") ?? "").includes(INTERRUPTED))
      .flatMap((block) => textAt(block, "tool_use_id") ?? []),
  );
}

const DENIALS_MAX = 1_000;
const SECOND_MS = 1_000;
const SYNTHETIC_MODEL = "<synthetic>";

const ERROR_WORDS: Readonly<Record<string, AgentFailureKind>> = {
  authentication_failed: "auth",
  oauth_org_not_allowed: "auth",
  billing_error: "quota",
  rate_limit: "rate-limit",
  overloaded: "overloaded",
};

/** The reader of one stream of Claude Code. */
class ClaudeReader extends LineReader {
  readonly #meter: ClaudeMeter;
  readonly #denied = new Set<string>();
  /** Calls that the pipeline's hook did not allow, so they are skipped. */
  readonly #skipped = new Set<string>();
  #errorWord: string | undefined;
  #resetAtMs: number | undefined;

  constructor(prices?: PriceList) {
    super();
    this.#meter = new ClaudeMeter(prices);
  }

  protected meaningOf(line: JsonObject): readonly AgentEvent[] {
    return [...this.session(textAt(line, "session_id")), ...this.#eventsOf(line)];
  }

  #eventsOf(line: JsonObject): readonly AgentEvent[] {
    switch (line.type) {
      case "system":
        return this.#system(line);
      case "stream_event":
        return this.#streamed(line);
      case "assistant":
        return this.#assistant(line);
      case "user":
        return this.#user(line);
      case "rate_limit_event":
        return this.#rateLimit(line);
      case "result":
        return this.#result(line);
      default:
        return [];
    }
  }

  #system(line: JsonObject): readonly AgentEvent[] {
    if (line.subtype === "init") return this.#opened(line);
    if (line.subtype === "permission_denied") {
      return this.#denials([line]);
    }
    return line.subtype === "api_retry" ? retryIn(line) : [];
  }

  #opened(line: JsonObject): readonly AgentEvent[] {
    this.#meter.init(line);
    const model = textAt(line, "model");
    return model === undefined ? [] : [{ type: "model", model }];
  }

  #assistant(line: JsonObject): readonly AgentEvent[] {
    const content = listAt(line, "message", "content");
    if (textAt(line, "message", "model") === SYNTHETIC_MODEL) {
      this.#errorWord = textAt(line, "error");
      return [];
    }
    const own = isOwn(line);
    return [
      ...(this.#meter.message(line) ? this.#begun(own) : []),
      ...content.flatMap((block): readonly AgentEvent[] => {
        if (textAt(block, "type") === "tool_use") return [toolStarted(block)];
        const text = textAt(block, "type") === "text" ? textAt(block, "text") : undefined;
        return text === undefined || !own ? [] : [{ type: "text", text }];
      }),
    ];
  }

  #user(line: JsonObject): readonly AgentEvent[] {
    const used = this.#meter.toolResult(line) ? [this.#meter.usage()] : [];
    const content = listAt(line, "message", "content");
    for (const block of content.filter(isSkipped)) {
      const id = textAt(block, "tool_use_id");
      if (id !== undefined && this.#skipped.size < DENIALS_MAX) this.#skipped.add(id);
    }
    const own = isOwn(line);
    return [...content.flatMap((block) => toolEnded(block, own)), ...used];
  }

  /** Partial messages report the usage of a message; its text comes once, in the whole message. */
  #streamed(line: JsonObject): readonly AgentEvent[] {
    switch (textAt(line, "event", "type")) {
      case "message_start":
        return this.#meter.messageStart(line) ? this.#begun(isOwn(line)) : [];
      case "message_delta":
        return this.#meter.messageDelta(line) ? [this.#meter.usage()] : [];
      case "message_stop":
        this.#meter.messageStop(line);
        return [];
      default:
        return [];
    }
  }

  #begun(own: boolean): readonly AgentEvent[] {
    return [...(own ? [{ type: "turn" } as const] : []), this.#meter.usage()];
  }

  /** The limits of the user's subscription: only a rejection and its end matter. */
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
      const input = at(denial, "tool_input");
      const tool = textAt(denial, "tool_name") ?? "unknown";
      return [
        { type: "denied", tool, id, ...(input === undefined ? {} : { input: inputText(input) }) },
      ];
    });
  }

  #result(line: JsonObject): readonly AgentEvent[] {
    this.ended = true;
    this.#meter.result(line);
    const denials = listAt(line, "permission_denials").filter(
      (denial) => !this.#skipped.has(textAt(denial, "tool_use_id") ?? ""),
    );
    const why = this.#troubleIn(line);
    const text = textAt(line, "result");
    const structured = at(line, "structured_output");
    return [
      ...this.#denials(denials),
      this.#meter.usage(),
      {
        type: "result",
        ok: why === undefined,
        ...defined({ text, structured, trouble: why }),
      },
    ];
  }

  #troubleIn(line: JsonObject): AgentFailure | undefined {
    const subtype = textAt(line, "subtype") ?? "";
    const reason = textAt(line, "terminal_reason") ?? "completed";
    const failed = line.is_error !== false || subtype !== "success" || reason !== "completed";
    if (!failed) return undefined;
    const errors = listAt(line, "errors").filter((error) => typeof error === "string");
    const message = [textAt(line, "result"), ...errors].filter(Boolean).join("; ") || subtype;
    if (reason === "max_turns" || subtype === "error_max_turns") {
      return agentFailure("max-turns", message);
    }
    if (reason.startsWith("aborted")) return agentFailure("interrupted", message);
    if (textAt(line, "api_error") === "connection_failed") return agentFailure("cut", message);
    return this.#apiTrouble(message, numberAt(line, "api_error_status"));
  }

  #apiTrouble(message: string, status: number | undefined): AgentFailure {
    const kind = ERROR_WORDS[this.#errorWord ?? ""];
    if (this.#resetAtMs !== undefined && (kind === "rate-limit" || status === 429)) {
      return agentFailure("quota", message, this.#resetAtMs - Date.now());
    }
    const found = agentFailureOf({ message, status });
    return kind === undefined ? found : { ...found, kind };
  }
}

/**
 * Claude Code retries by itself. Its delay is only shown to people, unless the service asked for
 * it: services ask for whole seconds; Claude Code's own delays are 0.5 s, 1 s, 2 s ... plus a
 * random part of up to a quarter (2.1.325).
 */
function retryIn(line: JsonObject): readonly AgentEvent[] {
  const word = textAt(line, "error") ?? "unknown";
  const status = numberAt(line, "error_status");
  const message = `${word}${status === undefined ? "" : ` (${status})`}`;
  const kind = ERROR_WORDS[word] ?? (status === undefined ? "cut" : undefined);
  const why =
    kind === undefined ? agentFailureOf({ message, status }) : agentFailure(kind, message);
  const delayMs = numberAt(line, "retry_delay_ms");
  const attempt = numberAt(line, "attempt");
  const attemptsMax = numberAt(line, "max_retries");
  const isAsked = delayMs !== undefined && delayMs > 0 && delayMs % SECOND_MS === 0;
  return [
    {
      type: "retrying",
      trouble: isAsked ? { ...why, retryAfterMs: delayMs } : why,
      ...defined({ delayMs, attempt, attemptsMax }),
    },
  ];
}

function toolStarted(block: Json): AgentEvent {
  return {
    type: "tool-started",
    id: textAt(block, "id") ?? "",
    name: textAt(block, "name") ?? "unknown",
    input: inputText(at(block, "input")),
  };
}

function toolEnded(block: Json, own: boolean): readonly AgentEvent[] {
  if (textAt(block, "type") !== "tool_result") return [];
  const id = textAt(block, "tool_use_id") ?? "";
  const ended = { type: "tool-ended", id, ok: at(block, "is_error") !== true } as const;
  return [own ? { ...ended, result: resultTexts(block).join("\n") } : ended];
}

function resultTexts(block: Json): readonly string[] {
  const whole = textAt(block, "content");
  if (whole !== undefined) return [whole];
  return listAt(block, "content").flatMap((part) => textAt(part, "text") ?? []);
}

/** True for the result of a call that the pipeline's hook did not allow. */
function isSkipped(block: Json): boolean {
  if (at(block, "is_error") !== true) return false;
  return resultTexts(block).some((text) => text.trimEnd().endsWith(HOOK_FORBIDS));
}
