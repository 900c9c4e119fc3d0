/**
 * The contract of an agent: how its conversation is started, continued and read. Each agent has a
 * folder that implements it; one conformance suite runs on all of them.
 *
 * Owns: the events that every agent's stream is translated to.
 * Does not: start processes, or decide what a report means for the step.
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
  /** Tools that are allowed in addition to its permissions: `Name` or `Name(pattern)`. */
  readonly allow?: readonly string[];
  /** Tools that are denied even if they are allowed elsewhere. */
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
  /** Additions to the environment of the call. */
  readonly env: Readonly<Record<string, string>>;
  /** Files to write into the attempt's folder before the start: name -> content. */
  readonly files: Readonly<Record<string, string>>;
  /** A command that must succeed before the agent itself (opencode: import of the session). */
  readonly before?: readonly string[];
}

/** Why an agent could not continue; the first four are not the fault of the step. */
export const AGENT_FAILURE_KINDS = [
  "rate-limit",
  "overloaded",
  "quota",
  "server",
  "cut",
  "auth",
  "session-gone",
  "max-turns",
  // The conversation, or the prompt, is too long for the model.
  "overflow",
  // The model does not exist, or this user may not use it.
  "model",
  // The agent's program is not installed.
  "missing",
  // The agent failed and printed nothing, not even an error.
  "silent",
  "interrupted",
  "denied",
  "other",
] as const;
export type AgentFailureKind = (typeof AGENT_FAILURE_KINDS)[number];

export interface AgentFailure {
  readonly kind: AgentFailureKind;
  readonly message: string;
  /** How long to wait, if the service says so. */
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
   * `delta` adds to the usage before it; `invocation` is the usage of this process so far and
   * replaces an earlier number; `total` is the usage of the whole conversation so far.
   */
  | {
      readonly type: "usage";
      readonly counting: "delta" | "invocation" | "total";
      readonly usage: Usage;
      /**
       * Tokens of the latest call of the model, as far as known: its whole input and its output.
       */
      readonly context?: number;
      /** How many tokens fit into a call. */
      readonly window?: number;
    }
  /** The cost of the whole conversation so far, for agents that report only that. */
  | { readonly type: "cost"; readonly totalUsd: number }
  /** Another answer of the model has begun or ended. */
  | { readonly type: "turn" }
  /** The agent itself retries its request to the model, after a delay where it reports one. */
  | {
      readonly type: "retrying";
      readonly trouble: AgentFailure;
      readonly delayMs?: number;
      readonly attempt?: number;
      readonly attemptsMax?: number;
    }
  /** A call was denied: `id` is that of a call that began; otherwise `input` is its input. */
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
   * Called after the last line: the events that follow from the exit status (opencode has no
   * result) and from the end of standard error (why an agent printed nothing).
   */
  end(exit: number | undefined, stderr?: string): readonly AgentEvent[];
}

/** The usage of a whole conversation so far, over all its processes. */
export interface Ledger {
  readonly usage: Usage;
  /** Answers of the model. */
  readonly turns: number;
  /** The turns are counted like those of the stream, so that both can be compared. */
  readonly countsTurns?: true;
  /** Tokens of the latest call of the model: its whole input and its output. */
  readonly context: number;
  /** How many tokens fit into a call. */
  readonly window?: number;
  /** The model of the latest call. */
  readonly model?: string;
  /** It contains an answer of the model without its usage. */
  readonly incomplete?: true;
}

/** The location of a transcript from another machine. */
export interface TranscriptTarget {
  readonly path: string;
  /** Further files: absolute path -> content; existing ones stay. */
  readonly beside: Readonly<Record<string, string>>;
}

export interface AgentAdapter {
  readonly name: string;
  /** The permissions of a call that must only read; absent: `default`. */
  readonly readOnlyPermissions?: PermissionLevel;
  /** The id of a conversation before it exists, or undefined when the agent chooses it. */
  newSession(): string | undefined;
  /** The transcript of a conversation on this disk, if there is one. */
  transcript(session: string, at: { cwd: string; env: AgentCall["env"] }): string | undefined;
  /**
   * The location on this machine of a transcript from another one, and the files that it needs
   * beside it. Absent: its conversations cannot move; a new one starts on the other machine.
   */
  transcriptTarget?(
    transcript: string,
    at: { cwd: string; env: AgentCall["env"] },
  ): TranscriptTarget;
  command(call: AgentCall): AgentCommand;
  /**
   * The agent's own interactive program with an existing conversation. Absent: it has no such
   * program.
   */
  open?(call: OpenCall): Pick<AgentCommand, "argv" | "env">;
  /** Repairs a transcript after a kill; does not change an intact one. */
  repair?(transcript: string): void;
  /**
   * Of calls that ended according to the stream: those whose results are missing in the transcript.
   * The process that wrote it has ended. Absent: the transcript cannot be searched.
   */
  unrecorded?(transcript: string, calls: readonly FinishedCall[]): readonly FinishedCall[];
  /**
   * The usage of a conversation according to its transcript, for agents whose stream reports it
   * only at the end. The agent may be writing the transcript. Undefined if it contains no answer.
   */
  ledger?(transcript: string): Ledger | undefined;
  /** The reader of one stream; it uses the prices if the agent does not report a cost. */
  reader(prices?: PriceList): AgentReader;
  /** The model of a conversation, for agents whose stream does not name it. */
  modelIn?(session: string, at: { cwd: string; env: AgentCall["env"] }): string | undefined;
  /** Names for which the agent chooses the model; the stream names the chosen one. */
  readonly modelAliases?: readonly string[];
  /** It reports the cost of each call, from its own prices. */
  readonly reportsCost?: true;
  /** It costs nothing, so a limit in dollars needs no price. */
  readonly isFree?: true;
  /** Whether it can continue a conversation; `doctor` says so. */
  readonly continues: boolean;
  /** It has no program of its own: it starts the author's `command`, which is shell text. */
  readonly needsCommand?: true;
  /** Which limits of a call the agent enforces; the engine enforces the others. Absent: all. */
  readonly enforces?: { readonly maxTurns: boolean; readonly outputSchema: boolean };
}
