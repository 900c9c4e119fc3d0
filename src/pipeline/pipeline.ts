/**
 * A pipeline as its author wrote it, validated: every name resolves, every duration is a number.
 * Plain types, so that a resume, which reads only the frozen plan, loads no parser.
 */

import type { Json, JsonObject } from "../util/json.ts";
import type { AgentSettings } from "./agent-keys.ts";
import type { Fidelity } from "./fidelity.ts";
import type { StepFields } from "./keys.ts";

export interface Pipeline {
  readonly name: string;
  /** The context that a run of it begins with. */
  readonly context?: JsonObject;
  readonly maxParallel: number;
  /** JSON Schema of the input. */
  readonly inputSchema?: Json;
  readonly env: Env;
  /** Names of variables, inputs and context keys whose values are never shown. */
  readonly secrets?: readonly string[];
  readonly agents: Readonly<Record<string, PipelineAgent>>;
  readonly budget?: Budget;
  /** What models cost, by their names. */
  readonly prices?: Readonly<Record<string, ModelPrice>>;
  readonly workspace: WorkspaceSettings;
  /** What `defaults` say of every step, and of every agent. */
  readonly defaults: { readonly step: StepFields; readonly agent: AgentSettings };
  readonly steps: readonly PipelineStep[];
}

/** Where steps work; only what the author wrote. */
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

/** US dollars for a million tokens; see runner/agents/usage.ts for what is absent. */
export interface ModelRates {
  readonly input: number;
  readonly cachedInput?: number;
  readonly cacheWrite?: number;
  readonly cacheWrite1h?: number;
  readonly output: number;
}

/** What a model costs; `over200k` is of calls with more input than that. */
export interface ModelPrice extends ModelRates {
  readonly over200k?: ModelRates;
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

export interface PipelineStep extends Links {
  readonly id: string;
  readonly work: PipelineWork;
  /** What its other keys say (keys.ts). */
  readonly settings: StepFields;
}

/** Where a step comes from and where it leads. */
export interface Links {
  /**
   * Steps that must be over before this one, in the author's order. One that has exits of its own
   * stands here only because it is the step above: it does not lead here.
   */
  readonly needs: readonly string[];
  /** Where it leads instead of to the steps that need it. */
  readonly exits?: readonly Exit[];
  /** Where a failure for good leads; `continue`: wherever success would. Absent: it is the run's. */
  readonly onFailure?: { readonly goto: string } | "continue";
}

export interface Exit {
  readonly to: string;
  readonly when?: string;
  readonly label?: string;
  readonly weight: number;
  readonly fidelity?: Fidelity;
  readonly thread?: string;
}

export type PipelineWork =
  | { readonly kind: "pass" }
  | { readonly kind: "shell"; readonly run: string }
  | {
      readonly kind: "agent";
      readonly agent: string;
      readonly prompt: string;
      /** The name of a conversation that it shares with other steps. */
      readonly session?: string;
      readonly settings: AgentSettings;
    }
  | PipelineGate
  | PipelineWait
  | {
      readonly kind: "group";
      readonly body: PipelineBody;
      /** Absent: what is in it sees the input of what is around it. */
      readonly input?: JsonObject;
    }
  | {
      readonly kind: "loop";
      readonly body: PipelineBody;
      readonly input?: JsonObject;
      /** Absent: all iterations are wanted. */
      readonly until?: string;
      readonly iterationsMax: number;
      readonly onExhausted: "fail" | "continue";
    }
  | {
      readonly kind: "each";
      readonly body: PipelineBody;
      readonly input?: JsonObject;
      readonly items: PipelineItems;
      readonly as?: string;
      /** Absent: as many as the pipeline may run at once. */
      readonly maxParallel?: number;
      readonly onItemFailure: "fail" | "continue";
    };

/** A question to a person. */
export interface PipelineGate {
  readonly kind: "gate";
  readonly ask: string;
  readonly choices: readonly GateChoice[];
  readonly text: "none" | "optional" | "required";
  readonly timeoutMs?: number;
  /** The key of the choice that counts when nobody answers in time. */
  readonly default?: string;
}

export interface GateChoice {
  /** What to type for it. */
  readonly key: string;
  readonly label: string;
  /** The step fails when it is chosen. */
  readonly fails?: true;
  /** The step that it leads to. */
  readonly next?: string;
}

/** Time that passes: so much of it, or until a moment (a template). */
export type PipelineWait =
  | { readonly kind: "wait"; readonly forMs: number }
  | { readonly kind: "wait"; readonly until: string };

/** Steps in a step: as written there, or the pipeline of another file. */
export type PipelineBody = readonly PipelineStep[] | Pipeline;

/** An expression that gives a list, or where else the items are. */
export type PipelineItems =
  | string
  | { readonly list: readonly Json[] }
  | { readonly file: string }
  | { readonly glob: string };
