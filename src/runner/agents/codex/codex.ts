/**
 * Codex: how a conversation starts and continues, where its transcript is, and how its stream is
 * read: the output of `codex exec --json`.
 *
 * Owns: its flags, its settings by `-c`, its transcript `sessions/Y/M/D/rollout-<time>-<id>.jsonl`,
 * and the meaning of its lines.
 * Does not: read its rollout (rollout.ts), touch its config.toml, or keep the content of lines,
 * except the last message, which is the answer.
 * Invariants: runner/G4. Without a flag its shell is in a read-only sandbox.
 * - codex/G2 Only `turn.completed` is success and only `turn.failed` is failure: Codex usually
 *   retries after an `error` line.
 * - codex/G3 as in adapter.ts.
 */

import { globSync } from "node:fs";
import { join } from "node:path";
import type { McpServer, PermissionLevel } from "../../../util/agent-access.ts";
import { defined } from "../../../util/defined.ts";
import type { Json, JsonObject } from "../../../util/json.ts";
import type {
  AgentAdapter,
  AgentCall,
  AgentCommand,
  AgentEvent,
  AgentFailure,
} from "../adapter.ts";
import { agentFailureOf } from "../agent-failure.ts";
import { codexHome, isPlainId, unlessSet } from "../agent-home.ts";
import { LineReader } from "../line-reader.ts";
import { at, inputText, listAt, numberAt, objectIn, tailOf, textAt } from "../stream-json.ts";
import { hasFirstLine } from "../transcript.ts";
import type { Usage } from "../usage.ts";
import { codexLedger, unrecordedCalls } from "./rollout.ts";

const SCHEMA_FILE = "output-schema.json";

/** Year, month, day and name. */
const PARTS_BELOW_SESSIONS = 4;

/** `exec resume` knows no `--sandbox`, so it is set by its name in the configuration. */
const PERMISSIONS: Readonly<Record<PermissionLevel, readonly string[]>> = {
  default: [],
  plan: ["-c", 'sandbox_mode="read-only"'],
  edit: ["-c", 'sandbox_mode="workspace-write"'],
  all: ["--dangerously-bypass-approvals-and-sandbox"],
};

/** Codex. */
export const codex: AgentAdapter = {
  name: "codex",
  continues: true,
  enforces: { maxTurns: false, outputSchema: true },
  newSession: () => undefined,
  transcript,
  transcriptTarget: (file, { env }) => ({
    path: join(codexHome(env), "sessions", ...file.split("/").slice(-PARTS_BELOW_SESSIONS)),
    beside: {},
  }),
  command,
  open: ({ session, model, system, permissions, args }) => ({
    argv: [
      ...["codex", "resume"],
      ...(model === undefined ? [] : ["-m", model]),
      ...(system === undefined ? [] : ["-c", `developer_instructions=${tomlText(system)}`]),
      ...PERMISSIONS[permissions],
      ...args,
      session,
    ],
    env: {},
  }),
  unrecorded: unrecordedCalls,
  ledger: codexLedger,
  reader: () => new CodexReader(),
};

function command(call: AgentCall): AgentCommand {
  const { session, model, system, outputSchema, effort, directories = [] } = call;
  const resumed = call.kind === "continue" && session !== undefined;
  const argv = [
    ...["codex", "exec", ...(resumed ? ["resume"] : []), "--json"],
    // It must run in any directory of a step; the sandbox limits what it may do there.
    "--skip-git-repo-check",
    // Without it Codex lingers for seconds after its last event where the network is slow.
    ...["-c", "analytics.enabled=false"],
    ...(model === undefined ? [] : ["-m", model]),
    ...(system === undefined ? [] : ["-c", `developer_instructions=${tomlText(system)}`]),
    ...PERMISSIONS[call.permissions],
    ...(effort === undefined ? [] : setting("model_reasoning_effort", effort)),
    ...(directories.length === 0
      ? []
      : setting("sandbox_workspace_write.writable_roots", directories)),
    ...Object.entries(call.mcp ?? {}).flatMap(([name, server]) =>
      setting(`mcp_servers.${name}`, serverTable(server)),
    ),
    ...(outputSchema === undefined ? [] : ["--output-schema", join(call.dir, SCHEMA_FILE)]),
    ...call.args,
    ...(resumed ? [session] : []),
    "-",
  ];
  return {
    argv,
    env: unlessSet(call.env, { RUST_LOG: "error" }),
    files: outputSchema === undefined ? {} : { [SCHEMA_FILE]: JSON.stringify(outputSchema) },
  };
}

function transcript(session: string, { env }: { env: AgentCall["env"] }): string | undefined {
  if (!isPlainId(session)) return undefined;
  const home = codexHome(env);
  // It resumes a rollout that has its first line (0.166.0), and fails with an empty one.
  return globSync(`sessions/*/*/*/rollout-*-${session}.jsonl`, { cwd: home })
    .map((name) => join(home, name))
    .find(hasFirstLine);
}

function setting(key: string, value: Toml): readonly string[] {
  return ["-c", `${key}=${tomlValue(value)}`];
}

function serverTable(server: McpServer): Toml {
  if ("url" in server) return { url: server.url, http_headers: server.headers };
  return { command: server.command, args: server.args, env: server.env };
}

type Toml = string | readonly string[] | { readonly [key: string]: Toml };

/** A value on one line, for a flag. */
function tomlValue(value: Toml): string {
  if (typeof value === "string") return tomlText(value);
  if (Array.isArray(value)) return `[${value.map(tomlText).join(",")}]`;
  const pairs = Object.entries(value).map(([key, one]) => `${tomlText(key)}=${tomlValue(one)}`);
  return `{${pairs.join(",")}}`;
}

/** A TOML string: JSON's, with one more escaped control character. */
function tomlText(text: string): string {
  return JSON.stringify(text.toWellFormed()).replaceAll("\u007f", "\\u007f");
}

const OPEN_ITEMS_MAX = 1_000;
const ANSWER_CHARACTERS_MAX = 1024 * 1024;
/** An interrupt and a failure have the same exit status, but a failure has an event. */
const INTERRUPT_EXITS: readonly number[] = [1];
const RETRYING = /^Reconnecting\.\.\. \d+\/\d+(?: \((.*)\))?$/s;

/** The reader of one stream of Codex. */
class CodexReader extends LineReader {
  readonly #open = new Set<string>();
  #answer: string | undefined;

  protected meaningOf(line: JsonObject): readonly AgentEvent[] {
    switch (line.type) {
      case "thread.started":
        return this.session(textAt(line, "thread_id"));
      case "item.started":
      case "item.updated":
      case "item.completed":
        return this.#item(line.type, at(line, "item"));
      case "error":
        return retryIn(line);
      case "turn.failed":
        return this.#failed(line);
      case "turn.completed":
        return this.#completed(line);
      default:
        return [];
    }
  }

  protected override unfinished(exit: number | undefined, stderr?: string): AgentFailure {
    return super.unfinished(exit, stderr, "session-gone", INTERRUPT_EXITS);
  }

  #item(type: string, item: Json | undefined): readonly AgentEvent[] {
    const kind = textAt(item, "type");
    if (kind === "agent_message" && type === "item.completed") {
      const text = textAt(item, "text") ?? "";
      this.#answer = tailOf(text, ANSWER_CHARACTERS_MAX);
      return [...this.turn(), { type: "text", text }];
    }
    const called = calledBy(item);
    if (called === undefined) return kind === "reasoning" ? this.turn() : [];
    const id = textAt(item, "id") ?? "";
    const begun: AgentEvent[] = [];
    if (!this.#open.has(id)) {
      if (this.#open.size < OPEN_ITEMS_MAX) this.#open.add(id);
      begun.push(...this.turn(), { type: "tool-started", id, ...called });
    }
    return type === "item.completed"
      ? [...begun, ...this.#toolEnded(id, item, called.name)]
      : begun;
  }

  #toolEnded(id: string, item: Json | undefined, name: string): readonly AgentEvent[] {
    this.#open.delete(id);
    if (this.#open.size === 0) this.toolsEnded();
    const status = textAt(item, "status") ?? "completed";
    const ok = status === "completed";
    const ended: AgentEvent = { type: "tool-ended", id, ok, result: resultIn(item) };
    return status === "declined" ? [{ type: "denied", tool: name, id }, ended] : [ended];
  }

  #failed(line: JsonObject): readonly AgentEvent[] {
    this.ended = true;
    const message = textAt(line, "error", "message") ?? "the turn failed";
    return [{ type: "result", ok: false, trouble: agentFailureOf({ message }) }];
  }

  #completed(line: JsonObject): readonly AgentEvent[] {
    this.ended = true;
    const text = this.#answer;
    const structured = text === undefined ? undefined : objectIn(text);
    return [
      { type: "usage", counting: "total", usage: usageIn(line) },
      {
        type: "result",
        ok: true,
        ...defined({ text, structured }),
      },
    ];
  }
}

function retryIn(line: JsonObject): readonly AgentEvent[] {
  const message = textAt(line, "message") ?? "";
  const found = RETRYING.exec(message);
  if (found === null) return [];
  return [{ type: "retrying", trouble: agentFailureOf({ message: found[1] ?? message }) }];
}

/** The result of a call, as far as the stream shows it. */
function resultIn(item: Json | undefined): string {
  const exit = numberAt(item, "exit_code") ?? 0;
  const output = textAt(item, "aggregated_output") ?? textAt(item, "error", "message") ?? "";
  const texts = listAt(item, "result", "content").map((part) => textAt(part, "text") ?? "");
  return [...(exit === 0 ? [] : [`exit status ${exit}`]), output, ...texts].join("\n").trim();
}

/** The tool that an item calls, if it is a call. */
function calledBy(item: Json | undefined): { name: string; input: string } | undefined {
  switch (textAt(item, "type")) {
    case "command_execution":
      return { name: "shell", input: inputText(item) };
    case "file_change":
      return { name: "file_change", input: JSON.stringify(listAt(item, "changes")) };
    case "mcp_tool_call": {
      const name = `${textAt(item, "server") ?? ""}.${textAt(item, "tool") ?? ""}`;
      return { name, input: inputText(at(item, "arguments")) };
    }
    case "web_search":
      return { name: "web_search", input: textAt(item, "query") ?? "" };
    default:
      return undefined;
  }
}

/**
 * The usage of the whole thread, over all of its processes, without an answer whose process was
 * killed in its tools: the rollout has that too (rollout.ts).
 */
function usageIn(line: JsonObject): Usage {
  return {
    inputTokens: numberAt(line, "usage", "input_tokens") ?? 0,
    cachedTokens: numberAt(line, "usage", "cached_input_tokens") ?? 0,
    outputTokens: numberAt(line, "usage", "output_tokens") ?? 0,
  };
}
