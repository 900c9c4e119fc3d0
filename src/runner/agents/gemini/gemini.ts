/**
 * Gemini CLI: how a conversation starts and continues, and where its transcript is.
 *
 * Owns: its flags, its variables, its transcript `tmp/<project>/chats/session-<time>-<id8>.jsonl`.
 * Does not: read its stream (reader.ts) or its transcript (transcript.ts), or write settings:
 * Gemini CLI takes settings from a variable only if they belong to root.
 * Invariants: runner/G4. It refuses a directory that is not trusted (exit 55). The flag that trusts
 * the directory is set only with permissions that the author wrote; without it they have no effect.
 */

import { randomUUID } from "node:crypto";
import { globSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { type PermissionLevel, toolRule } from "../../../util/agent-access.ts";
import { errorCode, textOf } from "../../file-text.ts";
import type { AgentAdapter, AgentCall, AgentCommand, TranscriptTarget } from "../adapter.ts";
import { folderIn, homeIn, isPlainId, unlessSet } from "../agent-home.ts";
import { objectIn } from "../stream-json.ts";
import { hasUserTurn, removalOfEmpty } from "../transcript.ts";
import { GeminiReader } from "./reader.ts";
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
  takes: { maxTurns: false, outputSchema: false },
  // By default it does not start in an untrusted directory.
  looksWith: "plan",
  newSession: () => randomUUID(),
  transcript: (session, { cwd, env }) => filesOf(session, cwd, env).find(hasUserTurn),
  carried,
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
  const home = homeOf(env);
  const name = `session-*-${session.slice(0, ID_CHARACTERS_IN_NAME)}.jsonl`;
  return globSync(`tmp/*/chats/${name}`, { cwd: home })
    .map((file) => join(home, file))
    .filter((file) => isOf(file, session) && isAt(file, cwd));
}

/** Its folder for a directory is the one whose file names that directory. */
function carried(
  transcript: string,
  { cwd, env }: { cwd: string; env: AgentCall["env"] },
): TranscriptTarget {
  const tmp = join(homeOf(env), "tmp");
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

function homeOf(env: AgentCall["env"]): string {
  return join(folderIn(env, "GEMINI_CLI_HOME") ?? homeIn(env), ".gemini");
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
