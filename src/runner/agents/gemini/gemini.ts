/**
 * Gemini CLI: how a conversation starts and continues, where its transcript is, and how its stream
 * is read: the output of `--output-format stream-json`.
 *
 * Owns: its flags, its variables, its transcript `tmp/<project>/chats/session-<time>-<id8>.jsonl`,
 * and the meaning of its lines and its exit statuses.
 * Does not: read its transcript (transcript.ts), write settings (Gemini CLI takes settings from a
 * variable only if they belong to root), or keep the content of lines, except the end of the text
 * since the last tool: the answer.
 * Invariants: runner/G4. It refuses a directory that is not trusted (exit 55). The flag that trusts
 * the directory is set only with permissions that the author wrote; without it they have no effect.
 * - gemini/G2 Success is `result` with status `success`; when it is stopped, it exits with 0 and
 *   prints none.
 * - gemini/G3 as in adapter.ts.
 */

import { randomUUID } from "node:crypto";
import { globSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { type PermissionLevel, toolRule } from "../../../util/agent-access.ts";
import { defined } from "../../../util/defined.ts";
import type { JsonObject } from "../../../util/json.ts";
import { errorCode, textOf } from "../../file-text.ts";
import type {
  AgentAdapter,
  AgentCall,
  AgentCommand,
  AgentEvent,
  AgentFailure,
  AgentFailureKind,
  TranscriptTarget,
} from "../adapter.ts";
import { agentFailure, agentFailureOf } from "../agent-failure.ts";
import { geminiHome, isPlainId, unlessSet } from "../agent-home.ts";
import { LineReader } from "../line-reader.ts";
import { appended, at, inputText, numberAt, objectIn, textAt } from "../stream-json.ts";
import { hasUserTurn, removalOfEmpty } from "../transcript.ts";
import type { Usage } from "../usage.ts";
import { geminiLedger, repairGemini, unrecordedCalls } from "./transcript.ts";

const ID_CHARACTERS_IN_NAME = 8;
/** The file in a folder of conversations that names their directory. */
const ROOT_FILE = ".project_root";

const PERMISSIONS: Readonly<Record<PermissionLevel, readonly string[]>> = {
  default: [],
  plan: ["--skip-trust", "--approval-mode", "plan"],
  edit: ["--skip-trust", "--approval-mode", "auto_edit"],
  all: ["--skip-trust", "--yolo"],
};

/** Names for which it chooses the model for each call. */
const MODEL_ALIASES = ["auto", "pro", "flash", "flash-lite"];
const POLICY_FILE = "policy.toml";
/** The highest priorities that a user's policy may have; `deny` takes precedence. */
const DENY_PRIORITY = 999;
const ALLOW_PRIORITY = 998;

const QUIET = {
  GEMINI_TELEMETRY_ENABLED: "false",
  // Without it Gemini CLI executes itself again, and there are two processes to kill.
  GEMINI_CLI_NO_RELAUNCH: "true",
};

/** Gemini CLI. */
export const gemini: AgentAdapter = {
  name: "gemini",
  continues: true,
  enforces: { maxTurns: false, outputSchema: false },
  // By default it does not start in an untrusted directory.
  readOnlyPermissions: "plan",
  newSession: () => randomUUID(),
  transcript: (session, { cwd, env }) => filesOf(session, cwd, env).find(hasUserTurn),
  transcriptTarget,
  command,
  open: ({ session, model, permissions, args }) => ({
    argv: [
      ...["gemini", "--resume", session],
      ...(model === undefined ? [] : ["--model", model]),
      ...PERMISSIONS[permissions],
      ...args,
    ],
    env: {},
  }),
  repair: repairGemini,
  unrecorded: unrecordedCalls,
  ledger: geminiLedger,
  reader: () => new GeminiReader(),
  modelAliases: MODEL_ALIASES,
};

function command(call: AgentCall): AgentCommand {
  const { session, model, system, directories = [] } = call;
  const policy = policyOf(call);
  const naming = call.kind === "continue" ? "--resume" : "--session-id";
  const argv = [
    ...["gemini", "--output-format", "stream-json"],
    ...(session === undefined ? [] : [naming, session]),
    ...(model === undefined ? [] : ["--model", model]),
    ...PERMISSIONS[call.permissions],
    ...(policy === undefined ? [] : ["--policy", join(call.dir, POLICY_FILE)]),
    ...directories.flatMap((directory) => ["--include-directories", directory]),
    ...call.args,
    // Its system prompt can only be replaced as a whole; this text is put after the prompt.
    ...(system === undefined ? [] : [`--prompt=${system}`]),
  ];
  const stale = call.kind === "start" ? filesOf(session ?? "", call.cwd, call.env) : [];
  const files = policy === undefined ? {} : { [POLICY_FILE]: policy };
  return { argv, env: unlessSet(call.env, QUIET), files, ...removalOfEmpty(stale) };
}

/** Rules for single tools; a pattern is the beginning of a command. */
function policyOf({ allow = [], deny = [] }: AgentCall): string | undefined {
  const rules = [
    ...deny.map((text) => policyRule(text, "deny", DENY_PRIORITY)),
    ...allow.map((text) => policyRule(text, "allow", ALLOW_PRIORITY)),
  ];
  return rules.length === 0 ? undefined : rules.join("\n");
}

function policyRule(text: string, decision: "allow" | "deny", priority: number): string {
  const { name, pattern } = toolRule(text);
  const beginning = pattern?.replace(/:?\*$/, "");
  return [
    "[[rule]]",
    `toolName = ${JSON.stringify(name)}`,
    ...(beginning === undefined ? [] : [`commandPrefix = ${JSON.stringify(beginning)}`]),
    `decision = "${decision}"`,
    `priority = ${priority}`,
    "",
  ].join("\n");
}

/** The transcripts of a session; it can be resumed only in the directory in which it started. */
function filesOf(session: string, cwd: string, env: AgentCall["env"]): readonly string[] {
  if (!isPlainId(session)) return [];
  const home = geminiHome(env);
  const name = `session-*-${session.slice(0, ID_CHARACTERS_IN_NAME)}.jsonl`;
  return globSync(`tmp/*/chats/${name}`, { cwd: home })
    .map((file) => join(home, file))
    .filter((file) => isOf(file, session) && isAt(file, cwd));
}

/** Its folder for a directory is the one whose file names that directory. */
function transcriptTarget(
  transcript: string,
  { cwd, env }: { cwd: string; env: AgentCall["env"] },
): TranscriptTarget {
  const tmp = join(geminiHome(env), "tmp");
  const known = globSync(`*/${ROOT_FILE}`, { cwd: tmp })
    .map((file) => join(tmp, file))
    .find((file) => realPath(textOf(file)?.trim() ?? "") === realPath(cwd));
  const wanted = basename(dirname(dirname(transcript)));
  const taken = globSync("*", { cwd: tmp });
  const free = [wanted, ...Array.from(taken, (_, index) => `${wanted}-${index + 1}`)];
  const name = free.find((one) => !taken.includes(one)) ?? wanted;
  const folder = known === undefined ? join(tmp, name) : dirname(known);
  return {
    path: join(folder, "chats", basename(transcript)),
    beside: { [join(folder, ROOT_FILE)]: cwd },
  };
}

function isOf(file: string, session: string): boolean {
  const [first = ""] = (textOf(file) ?? "").split("\n", 1);
  return objectIn(first)?.sessionId === session;
}

function isAt(file: string, cwd: string): boolean {
  const root = textOf(join(dirname(dirname(file)), ROOT_FILE))?.trim();
  return root === undefined || realPath(root) === realPath(cwd);
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return path;
    throw error;
  }
}

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
class GeminiReader extends LineReader {
  readonly #open = new Map<string, string>();
  #answer = "";

  protected meaningOf(line: JsonObject): readonly AgentEvent[] {
    switch (line.type) {
      case "init": {
        const model = textAt(line, "model");
        return [
          ...this.session(textAt(line, "session_id")),
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

  protected override unfinished(exit: number | undefined, stderr?: string): AgentFailure {
    const kind = exit === undefined ? undefined : EXITS[exit];
    const why = super.unfinished(exit, stderr, kind);
    return kind === undefined ? why : { ...why, kind };
  }

  #text(text: string): readonly AgentEvent[] {
    const begun = this.#turn();
    this.#answer = appended(this.#answer, text, ANSWER_CHARACTERS_MAX);
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
    if (this.#open.size === 0) this.toolsEnded();
    const result = textAt(line, "output") ?? textAt(line, "error", "message") ?? "";
    const ended: AgentEvent = { type: "tool-ended", id, ok: line.status === "success", result };
    return isDenial(line, name) ? [{ type: "denied", tool: name, id }, ended] : [ended];
  }

  #turn(): readonly AgentEvent[] {
    const begun = this.turn();
    if (begun.length > 0) this.#answer = "";
    return begun;
  }

  #result(line: JsonObject): readonly AgentEvent[] {
    this.ended = true;
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
