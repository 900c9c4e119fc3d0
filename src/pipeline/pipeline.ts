/**
 * A validated pipeline: every name resolves, every duration is a number. This file has only types,
 * so that a resume, which reads only the frozen plan, loads no parser.
 */

import type { Json, JsonObject } from "../util/json.ts";
import type { AgentSettings } from "./agent-keys.ts";
import type { Fidelity } from "./fidelity.ts";
import type { StepFields } from "./keys.ts";

export interface Pipeline {
  readonly name: string;
  /** The context at the start of a run. */
  readonly context?: JsonObject;
  readonly maxParallel: number;
  /** JSON Schema of the input. */
  readonly inputSchema?: Json;
  readonly env: Env;
  /** Names of variables, inputs and context keys whose values are never shown. */
  readonly secrets?: readonly string[];
  readonly agents: Readonly<Record<string, PipelineAgent>>;
  readonly budget?: Budget;
  /** The prices of models, by name. */
  readonly prices?: Readonly<Record<string, ModelPrice>>;
  readonly workspace: WorkspaceSettings;
  /** The `defaults` of all steps, and of all agents. */
  readonly defaults: { readonly step: StepFields; readonly agent: AgentSettings };
  readonly steps: readonly PipelineStep[];
}

/** Where steps work; only the keys that the author wrote. */
export interface WorkspaceSettings {
  readonly kind?: "here" | "worktree" | "directory" | "copy";
  readonly base?: string;
  readonly commit?: "step" | "end" | "never";
  readonly include?: readonly string[];
  /** A worktree starts with the uncommitted changes of the project. */
  readonly uncommitted?: true;
  readonly snapshots?: boolean;
  readonly snapshotEveryMs?: number;
  readonly fileBytesMax?: number;
}

/** The limits of a run on models and time. */
export interface Budget {
  readonly usd?: number;
  readonly tokens?: number;
  readonly turns?: number;
  readonly timeMs?: number;
}

/** US dollars for a million tokens; runner/agents/usage.ts defines absent prices. */
export interface ModelRates {
  readonly input: number;
  readonly cachedInput?: number;
  readonly cacheWrite?: number;
  readonly cacheWrite1h?: number;
  readonly output: number;
}

/** The price of a model; `over200k` applies to calls with more input tokens. */
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
  /** Its other keys (keys.ts). */
  readonly settings: StepFields;
}

/** The links of a step to other steps. */
export interface Links {
  /**
   * Steps that must end before this one, in the author's order. A step with exits of its own is
   * here only because it is the step above: it does not lead here.
   */
  readonly needs: readonly string[];
  /** Its own edges; it does not lead to the steps that need it then. */
  readonly exits?: readonly Exit[];
  /** The step after a final failure; `continue`: as after success. Absent: the run fails. */
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
      /** Absent: its steps see the input of the scope around it. */
      readonly input?: JsonObject;
    }
  | {
      readonly kind: "loop";
      readonly body: PipelineBody;
      readonly input?: JsonObject;
      /** Absent: all iterations run. */
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
      /** Absent: the limit of the pipeline. */
      readonly maxParallel?: number;
      readonly onItemFailure: "fail" | "continue";
    };

/** A question to a person. */
interface PipelineGate {
  readonly kind: "gate";
  readonly ask: string;
  readonly choices: readonly GateChoice[];
  readonly text: "none" | "optional" | "required";
  readonly timeoutMs?: number;
  /** The key of the choice that counts without an answer in time. */
  readonly default?: string;
}

export interface GateChoice {
  /** The key that a person types. */
  readonly key: string;
  readonly label: string;
  /** This choice makes the step fail. */
  readonly fails?: true;
  /** The step that it leads to. */
  readonly next?: string;
}

/** A pause: a duration, or until a moment (a template). */
type PipelineWait =
  | { readonly kind: "wait"; readonly forMs: number }
  | { readonly kind: "wait"; readonly until: string };

/** Steps in a step: its own, or the pipeline of another file. */
export type PipelineBody = readonly PipelineStep[] | Pipeline;

/** An expression whose value is a list, or another source of items. */
export type PipelineItems =
  | string
  | { readonly list: readonly Json[] }
  | { readonly file: string }
  | { readonly glob: string };
