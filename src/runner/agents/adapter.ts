/**
 * The contract of an agent: how its conversation is started, continued and read. Each agent has a
 * folder that implements it; one conformance suite runs on all of them.
 *
 * Owns: the normalised vocabulary of agent streams.
 * Does not: start processes or decide what follows from a report.
 * Invariants:
 * - adapter/G2 Success is the agent's own terminal event, never the exit status alone.
 * - adapter/G3 A reader holds no more than its report: a stream may be gigabytes long.
 * - runner/G4 Safe by default: nothing that skips permission prompts unless the author wrote it.
 */
import type { McpServer, PermissionLevel } from "../../util/agent-access.ts";
import type { Json } from "../../util/json.ts";
import type { PriceList, Usage } from "./usage.ts";

/** One invocation of an agent. */
export interface AgentCall {
  readonly kind: "start" | "continue";
  /** The conversation; absent only for a start with an agent that chooses the id itself. */
  readonly session?: string;
  /** Absolute path of the file with the prompt; it is also the process's stdin. */
  readonly promptFile: string;
  /** The attempt's own folder: for files that the command needs (0600). */
  readonly dir: string;
  readonly cwd: string;
  /** The environment that the process will get; adapters read their config homes from it. */
  readonly env: Readonly<Record<string, string>>;
  readonly model?: string;
  readonly system?: string;
  readonly permissions: PermissionLevel;
  /** Tools in the agent's own words, `Name` or `Name(pattern)`: allowed beside its permissions. */
  readonly allow?: readonly string[];
  /** Denied, whatever else is allowed. */
  readonly deny?: readonly string[];
  readonly effort?: string;
  /** By name. */
  readonly mcp?: Readonly<Record<string, McpServer>>;
  /** Absolute paths of directories outside of `cwd` that it may work in. */
  readonly directories?: readonly string[];
  readonly maxTurns?: number;
  /** JSON Schema of the final answer. */
  readonly outputSchema?: Json;
  /** The author's command, if there is one; only an adapter with `needsCommand` uses it. */
  readonly command?: string;
  /** Further arguments, as the author wrote them. */
  readonly args: readonly string[];
}

/** A conversation that a person continues in the agent's own program; no prompt is given. */
type OpenCall = Omit<AgentCall, "kind" | "session" | "promptFile" | "dir"> & {
  readonly session: string;
};

/** How to run a call. */
export interface AgentCommand {
  /** Program and arguments; the first word is the agent's binary as it is found on PATH. */
  readonly argv: readonly string[];
  /** What to put into the call's environment besides what is there. */
  readonly env: Readonly<Record<string, string>>;
  /** Files to write into the attempt's folder before the start: name -> content. */
  readonly files: Readonly<Record<string, string>>;
  /** A command that must succeed before the agent itself (opencode: import of the session). */
  readonly before?: readonly string[];
}

/** Why an agent could not continue; the first four are not the step's fault. */
export type AgentFailureKind =
  | "rate-limit"
  | "overloaded"
  | "quota"
  | "server"
  | "cut"
  | "auth"
  | "session-gone"
  | "max-turns"
  /** The conversation, or the prompt, is too long for the model. */
  | "overflow"
  /** There is no such model, or it is not for this user. */
  | "model"
  /** The agent's program is not there. */
  | "missing"
  | "interrupted"
  | "denied"
  | "other";

export interface AgentFailure {
  readonly kind: AgentFailureKind;
  readonly message: string;
  /** How long to wait, where the service said so. */
  readonly retryAfterMs?: number;
}

/** A call of a tool, its input bounded. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly input: string;
}

/** A call that ended, with its result, bounded. */
export interface FinishedCall extends ToolCall {
  readonly ok: boolean;
  readonly result: string;
  /** The answer of the model in which it began: 1 for the first one of the stream. */
  readonly turn: number;
}

/** The events that every agent's stream is translated to. */
export type AgentEvent =
  | { readonly type: "session"; readonly id: string }
  /** The model that answers in this conversation. */
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
      /** Its result; absent for a call of a subagent, which has a transcript of its own. */
      readonly result?: string;
    }
  /**
   * `delta` is added to what was used before; `invocation` is what this process has used so far and
   * replaces an earlier number; `total` is what the whole conversation has used so far.
   */
  | {
      readonly type: "usage";
      readonly counting: "delta" | "invocation" | "total";
      readonly usage: Usage;
      /** Tokens of the latest call of the model, as far as known: its whole input and its output. */
      readonly context?: number;
      /** How many tokens fit into a call. */
      readonly window?: number;
    }
  /** What the whole conversation has cost so far, where the agent reports only that. */
  | { readonly type: "cost"; readonly totalUsd: number }
  /** One more answer of the model has begun or ended. */
  | { readonly type: "turn" }
  /** The agent itself retries its request to the model, after a delay where it reports one. */
  | {
      readonly type: "retrying";
      readonly trouble: AgentFailure;
      readonly delayMs?: number;
      readonly attempt?: number;
      readonly attemptsMax?: number;
    }
  /** A call was denied. `id` is that of a call that began; else `input` is what it was called with. */
  | {
      readonly type: "denied";
      readonly tool: string;
      readonly id?: string;
      readonly input?: string;
    }
  | {
      readonly type: "result";
      readonly ok: boolean;
      readonly text?: string;
      readonly structured?: Json;
      readonly trouble?: AgentFailure;
    };

/** Reads one stream, line by line. */
export interface AgentReader {
  line(text: string): readonly AgentEvent[];
  /**
   * After the last line, with the exit status: what only the end shows (opencode has no result).
   * The end of standard error, if available, shows why an agent printed nothing at all.
   */
  end(exit: number | undefined, stderr?: string): readonly AgentEvent[];
}

/** What a whole conversation has used so far, over all of its processes. */
export interface Ledger {
  readonly usage: Usage;
  /** Answers of the model. */
  readonly turns: number;
  /** They are counted as the stream counts them, so that the two can be compared. */
  readonly countsTurns?: true;
  /** Tokens of the latest call of the model: its whole input and its output. */
  readonly context: number;
  /** How many tokens fit into a call. */
  readonly window?: number;
  /** The model of the latest call. */
  readonly model?: string;
  /** It holds an answer of the model without saying what that answer used. */
  readonly incomplete?: true;
}

/** Where a transcript from another machine is put. */
export interface TranscriptTarget {
  readonly path: string;
  /** Absolute path -> content; those that are there already stay. */
  readonly beside: Readonly<Record<string, string>>;
}

export interface AgentAdapter {
  readonly name: string;
  /** The level of a call that must only read; `default` unless the agent cannot start with that. */
  readonly looksWith?: PermissionLevel;
  /** The id of a conversation before it exists, or undefined when the agent chooses it. */
  newSession(): string | undefined;
  /** The transcript of a conversation on this disk, if there is one. */
  transcript(session: string, at: { cwd: string; env: AgentCall["env"] }): string | undefined;
  /**
   * Where a transcript from another machine belongs on this one, with the texts of files that it needs
   * beside it. Absent: its conversations cannot be carried, and begin anew elsewhere.
   */
  carried?(transcript: string, at: { cwd: string; env: AgentCall["env"] }): TranscriptTarget;
  command(call: AgentCall): AgentCommand;
  /**
   * The agent's own interactive program on a conversation that exists. Absent: it has none that could
   * be started from outside.
   */
  open?(call: OpenCall): Pick<AgentCommand, "argv" | "env">;
  /** Repairs what a kill may have left in a transcript; does nothing to a good one. */
  repair?(transcript: string): void;
  /**
   * Those of the given calls, which ended according to the stream, whose results the transcript does
   * not hold. The process that wrote it has ended. Absent: its transcript cannot be searched.
   */
  unrecorded?(transcript: string, calls: readonly FinishedCall[]): readonly FinishedCall[];
  /**
   * What a conversation has used according to its transcript, for agents whose stream reports it only
   * at the end. The agent may be writing the transcript; undefined if it holds no answer of the model.
   */
  ledger?(transcript: string): Ledger | undefined;
  /** The reader of one stream; the prices serve where the agent does not report a cost. */
  reader(prices?: PriceList): AgentReader;
  /** The model of a conversation, for agents whose stream does not name it. */
  modelIn?(session: string, at: { cwd: string; env: AgentCall["env"] }): string | undefined;
  /** Names that stand for whatever model the agent chooses; the stream names the model itself. */
  readonly modelAliases?: readonly string[];
  /** It reports the cost of each call, from prices that it has of its own. */
  readonly reportsCost?: true;
  /** Whether it can continue a conversation; `doctor` says so. */
  readonly continues: boolean;
  /** It has no program of its own: it starts the author's `command`, which is shell text. */
  readonly needsCommand?: true;
  /** Which limits of a call the agent enforces itself; the engine enforces the rest. Absent: all. */
  readonly takes?: { readonly maxTurns: boolean; readonly outputSchema: boolean };
}
