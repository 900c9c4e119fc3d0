/**
 * A pipeline as its author wrote it, validated: every name resolves, every duration is a number.
 * Plain types, so that a resume, which reads only the frozen plan, loads no parser.
 */
import type { Json } from "../util/json.ts";

export interface Pipeline {
  readonly name: string;
  readonly maxParallel: number;
  /** JSON Schema of the input. */
  readonly inputSchema?: Json;
  readonly env: Env;
  readonly agents: Readonly<Record<string, PipelineAgent>>;
  readonly budget?: Budget;
  readonly workspace: WorkspaceSettings;
  readonly defaults: StepSettings & { readonly agent: AgentSettings };
  readonly steps: readonly PipelineStep[];
}

/** Where steps work; what the author does not say is left out. */
export interface WorkspaceSettings {
  readonly kind?: "here" | "worktree" | "directory" | "copy";
  readonly base?: string;
  readonly include?: readonly string[];
  readonly snapshots?: boolean;
  readonly snapshotEveryMs?: number;
  readonly fileBytesMax?: number;
}

/** What a run may use of models and time. */
export interface Budget {
  readonly usd?: number;
  readonly tokens?: number;
  readonly turns?: number;
  readonly timeMs?: number;
}

/** Names and their templates. */
export type Env = Readonly<Record<string, string>>;

export interface PipelineAgent {
  readonly adapter: string;
  readonly command?: string;
  readonly args: readonly string[];
  readonly env: Env;
  readonly settings: AgentSettings;
}

export interface AgentSettings {
  readonly model?: string;
  readonly system?: string;
  readonly permissions?: "default" | "edit" | "all";
  readonly maxTurns?: number;
  readonly outputSchema?: Json;
  readonly relay?: { readonly tokens: number } | { readonly share: number };
}

/** What both a step and `defaults` may say. */
export interface StepSettings {
  readonly env: Env;
  readonly cwd?: string;
  readonly timeoutMs?: number;
  readonly idleTimeoutMs?: number;
  readonly retry: RetrySettings;
  readonly isolate?: boolean;
  readonly recover?: "continue" | "restart";
}

/** Only what the author said; the rest comes from `defaults` and then from the plan's own. */
export interface RetrySettings {
  readonly attempts?: number;
  readonly initialMs?: number;
  readonly factor?: number;
  readonly maxMs?: number;
  readonly jitter?: number;
  readonly onResume?: "fresh" | "keep";
}

export interface PipelineStep extends StepSettings {
  readonly id: string;
  readonly work: PipelineWork;
  /** Steps that must be over before this one, in the author's order. */
  readonly needs: readonly string[];
  readonly when?: string;
  readonly check?: PipelineCheck;
  readonly outputs: Readonly<Record<string, string>>;
  readonly once: boolean;
  /** A command that says whether it happened. */
  readonly probe?: string;
  /** It works in a directory of its own, which is merged back. */
  readonly own?: true;
}

export type PipelineWork =
  | { readonly kind: "shell"; readonly run: string }
  | {
      readonly kind: "agent";
      readonly agent: string;
      readonly prompt: string;
      /** The name of a conversation that it shares with other steps. */
      readonly session?: string;
      readonly settings: AgentSettings;
    };

export type PipelineCheck =
  | { readonly kind: "command"; readonly run: string }
  | { readonly kind: "schema"; readonly file: string; readonly schema: Json };
