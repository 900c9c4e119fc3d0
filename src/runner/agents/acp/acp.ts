/**
 * Any agent that speaks the Agent Client Protocol. The protocol needs a client at the other end of
 * its pipes, and a step outlives its runner, so the process of the step is that client
 * (acp-main.ts). It starts the author's command and prints the conversation, one JSON object per
 * line. The client may outlive the runner that started it, so a released line never changes its
 * meaning.
 *
 * - `session`: the conversation's id; the first line, printed before the agent is asked anything.
 * - `model`: the model that will answer, where the agent reports it.
 * - `text`, `thought`: whole lines of what the agent says and thinks, where it writes in lines.
 * - `tool-started`, `tool-ended`: a tool call; with its result, bounded, where there is text.
 * - `denied`: a tool call that the agent asked for and that was rejected.
 * - `usage`: what the prompt used; `cost`: what the whole conversation has cost so far.
 * - `result`: the last line, why the prompt ended: the protocol's stop reason, or `error`.
 *
 * Owns: how the client is started; the lines, their meaning and their reader. The protocol does not
 * mark the end of an answer of the model: the next answer begins with the first line after the
 * tools.
 * Does not: speak the protocol (session.ts), or keep the content of the lines, except the last
 * answer.
 * Invariants: runner/G4. A request of the agent is rejected unless the author permitted it.
 * - acp/G2 success is the stop reason `end_turn`.
 * - acp/G3 as in adapter.ts.
 */
import { extname, join } from "node:path";
import type { McpServer, PermissionLevel } from "../../../util/agent-access.ts";
import { defined } from "../../../util/defined.ts";
import type { Json, JsonObject } from "../../../util/json.ts";
import { quote } from "../../../util/shell.ts";
import {
  AGENT_FAILURE_KINDS,
  type AgentAdapter,
  type AgentCall,
  type AgentCommand,
  type AgentEvent,
  type AgentFailure,
  type AgentFailureKind,
} from "../adapter.ts";
import { agentFailure } from "../agent-failure.ts";
import { LineReader } from "../line-reader.ts";
import { appended, at, numberAt, tailOf, textAt } from "../stream-json.ts";
import type { Usage } from "../usage.ts";

const CALL_FILE = "acp-call.json";
/** Beside this file, built or not. */
const MAIN = join(import.meta.dirname, `acp-main${extname(import.meta.filename)}`);

/** An agent behind the Agent Client Protocol. */
export const acp: AgentAdapter = {
  name: "acp",
  continues: true,
  needsCommand: true,
  enforces: { maxTurns: false, outputSchema: false },
  newSession: () => undefined,
  // Only the agent knows where it keeps the conversation, and whether it still has it.
  transcript: (session) => session,
  command,
  reader: () => new AcpReader(),
};

function command(call: AgentCall): AgentCommand {
  const { session, model, system, cwd, promptFile, permissions, allow, deny, mcp } = call;
  const words: AcpCall = {
    command: [call.command ?? "", ...call.args.map(quote)].join(" "),
    cwd,
    promptFile,
    ...(call.kind === "start" || session === undefined ? {} : { session }),
    ...defined({ model, system }),
    permissions,
    ...defined({ allow, deny, mcp }),
  };
  return {
    argv: [process.execPath, MAIN, join(call.dir, CALL_FILE)],
    env: {},
    files: { [CALL_FILE]: JSON.stringify(words) },
  };
}

/** One line of the stream. */
export type AcpLine =
  | { readonly type: "session"; readonly id: string }
  | { readonly type: "model"; readonly model: string }
  | { readonly type: "text" | "thought"; readonly text: string }
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
      readonly type: "denied";
      readonly tool: string;
      /** The rule that would have allowed it; absent in lines of older clients. */
      readonly rule?: string;
    }
  | ({ readonly type: "usage" } & Usage)
  | { readonly type: "cost"; readonly totalUsd: number }
  | { readonly type: "result"; readonly stop: string; readonly trouble?: AgentFailure };

/** One invocation, as acp-main.ts finds it in a file of the attempt's folder. */
export interface AcpCall {
  /** Shell text: the agent's command with its arguments. */
  readonly command: string;
  readonly cwd: string;
  readonly promptFile: string;
  /** The conversation to continue; a new one if absent. */
  readonly session?: string;
  readonly model?: string;
  readonly system?: string;
  readonly permissions: PermissionLevel;
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  readonly mcp?: Readonly<Record<string, McpServer>>;
}

const ANSWER_CHARACTERS_MAX = 64 * 1024;

/** The failures for the protocol's stop reasons. */
const STOPS: Readonly<Record<string, readonly [AgentFailureKind, string]>> = {
  max_tokens: ["other", "the answer was longer than the model may answer"],
  max_turn_requests: ["max-turns", "the agent asked its model as often as it may"],
  refusal: ["other", "the agent refused to continue"],
  cancelled: ["interrupted", "the agent was stopped before it was done"],
};

/** The reader of one stream of our client. */
export class AcpReader extends LineReader {
  #answer = "";
  #denied: string | undefined;

  protected meaningOf(line: JsonObject): readonly AgentEvent[] {
    switch (line.type) {
      case "session":
        return this.session(textAt(line, "id"));
      case "model": {
        const model = textAt(line, "model");
        return model === undefined ? [] : [{ type: "model", model }];
      }
      case "text":
        return this.#text(textAt(line, "text") ?? "");
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

  /** The line break belongs to the answer; the event is a line without it. */
  #text(text: string): readonly AgentEvent[] {
    const begun = this.#turn();
    this.#answer = appended(this.#answer, text, ANSWER_CHARACTERS_MAX);
    return [...begun, { type: "text", text: text.replace(/\n$/, "") }];
  }

  #tool(line: JsonObject): readonly AgentEvent[] {
    const id = textAt(line, "id") ?? "";
    if (line.type === "tool-ended") {
      this.toolsEnded();
      const result = textAt(line, "result") ?? "";
      return [{ type: "tool-ended", id, ok: line.ok === true, result }];
    }
    const name = textAt(line, "name") ?? "tool";
    const input = textAt(line, "input") ?? "";
    return [...this.#turn(), { type: "tool-started", id, name, input }];
  }

  /** For the agent a denied call is a tool that has ended. */
  #refused(tool: string): readonly AgentEvent[] {
    const begun = this.#turn();
    this.toolsEnded();
    this.#denied = tool;
    return [...begun, { type: "denied", tool }];
  }

  #turn(): readonly AgentEvent[] {
    const begun = this.turn();
    if (begun.length > 0) this.#answer = "";
    return begun;
  }

  #result(line: JsonObject): readonly AgentEvent[] {
    const stop = textAt(line, "stop");
    if (stop === undefined) return [];
    this.ended = true;
    const why = this.#whyNot(stop, at(line, "trouble"));
    const answer = tailOf(this.#answer, ANSWER_CHARACTERS_MAX).trimEnd();
    const text = answer === "" ? {} : { text: answer };
    const ok = why === undefined;
    return [{ type: "result", ok, ...text, ...(ok ? {} : { trouble: why }) }];
  }

  #whyNot(stop: string, reported: Json | undefined): AgentFailure | undefined {
    if (stop === "error") return troubleIn(reported);
    if (stop === "end_turn") return undefined;
    // Some agents end the turn when they are rejected; nobody interrupted them.
    if (this.#denied !== undefined) return agentFailure("denied", `not permitted: ${this.#denied}`);
    const [kind, message] = STOPS[stop] ?? ["other", `the agent stopped: ${stop}`];
    return agentFailure(kind, message);
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

function troubleIn(reported: Json | undefined): AgentFailure {
  const kind = AGENT_FAILURE_KINDS.find((known) => known === textAt(reported, "kind")) ?? "other";
  const message = textAt(reported, "message") ?? "the agent failed";
  return agentFailure(kind, message, numberAt(reported, "retryAfterMs"));
}
