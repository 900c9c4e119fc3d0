/**
 * A validated pipeline: every name resolves, every duration is a number. This file has only types
 * and lists of words, so that a resume, which reads only the frozen plan, loads no parser.
 */
import type { Json, JsonObject } from "../util/json.ts";
import type { AgentSettings } from "./agent-keys.ts";
import type { StepFields } from "./keys.ts";
import type { Fidelity, ModelPrice } from "./values.ts";

export interface Pipeline {
  readonly name: string;
  /** The context at the start of a run. */
  readonly context?: JsonObject;
  /** How many processes of a run may live at once. */
  readonly maxParallel: number;
  /** JSON Schema of the input, when the author gave one. */
  readonly inputSchema?: Json;
  /** Variables for every step. */
  readonly env: Env;
  /** Files with variables, relative to the folder of the first file; in a plan, to the project. */
  readonly envFiles?: readonly string[];
  /** Names of variables, inputs and context keys whose values are never shown. */
  readonly secrets?: readonly string[];
  /** The labels that a worker of a fleet must have. */
  readonly requires?: readonly string[];
  readonly agents: Readonly<Record<string, AgentDefinition>>;
  readonly budget?: Budget;
  /** The prices of models, by name. */
  readonly prices?: Readonly<Record<string, ModelPrice>>;
  /** The age and the size above which the result of an earlier run is not reused. */
  readonly cache?: { readonly maxAgeMs?: number; readonly bytesMax?: number };
  /** A limit for all runs of a fleet that name the same group. */
  readonly concurrency?: { readonly group: string; readonly max: number };
  /** When a run starts by itself (util/cron.ts). */
  readonly schedule?: string;
  /** Whom to tell what happens to a run. */
  readonly notify?: readonly NoticeReceiver[];
  /** Only the keys that the author wrote. */
  readonly workspace: Partial<WorkspaceSettings>;
  /** The `defaults` of all steps, and of all agents. */
  readonly defaults: { readonly step: StepFields; readonly agent: AgentSettings };
  readonly steps: readonly PipelineStep[];
  /** Steps that run when the run has reached its end; they have no links. */
  readonly finally?: readonly PipelineStep[];
}

/** What a receiver can be notified of. */
export const NOTICE_KINDS = ["waiting", "failed", "completed"] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];

/** Who is notified, and of what: a shell command, or a URL. */
export interface NoticeReceiver {
  readonly on: readonly NoticeKind[];
  readonly run?: string;
  /** A URL, or `$NAME`: the variable that holds it. */
  readonly webhook?: string;
}

/**
 * Where steps work: in the project itself, in a git worktree and branch of the run, in a fresh
 * directory, or in a copy of the project.
 */
export type WorkspaceKind = "here" | "worktree" | "directory" | "copy";

export interface WorkspaceSettings {
  readonly kind: WorkspaceKind;
  /** Worktree: the commit or branch to start from. Default: the current HEAD. */
  readonly base?: string;
  /** Worktree: when the work of steps is committed on the run's branch. Default: step. */
  readonly commit?: "step" | "end" | "never";
  /** Worktree: it starts with the uncommitted changes of the project. */
  readonly uncommitted?: true;
  /** Globs of ignored files that belong to the workspace nevertheless. */
  readonly include: readonly string[];
  /** False: Perdure takes no snapshots of it. */
  readonly snapshots: boolean;
  /** How often a long step is snapshotted. */
  readonly snapshotEveryMs: number;
  readonly fileBytesMax?: number;
}

/** The limits of a run on models and time; an absent field is no limit. */
export interface Budget {
  readonly usd?: number;
  /** Tokens in and out. */
  readonly tokens?: number;
  readonly turns?: number;
  /** The total time of all attempts. */
  readonly timeMs?: number;
}

/** Names and their templates. */
export type Env = Readonly<Record<string, string>>;

/** An agent that steps may name. */
export interface AgentDefinition {
  /**
   * The name of an adapter, or `command` for any program that takes the prompt on
   * stdin and in $PERDURE_PROMPT_FILE and answers on stdout.
   */
  readonly adapter: string;
  /** For `command`: shell text (a template). Otherwise: the program, if it is not on PATH. */
  readonly command?: string;
  /** Further arguments for the program of an adapter. */
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
  | FailWork
  | { readonly kind: "shell"; readonly run: string }
  | AgentWork
  | GateWork
  | WaitWork
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
      /** An expression whose value is a list, or another source of items. */
      readonly items: string | ItemSource;
      readonly selection?: ItemSelection;
      readonly as?: string;
      /** Absent: the limit of the pipeline. */
      readonly maxParallel?: number;
      readonly onItemFailure: "fail" | "continue";
    };

/** Which of the items a fan-out takes; the expressions see `item`. */
interface ItemSelection {
  readonly where?: string;
  readonly sortBy?: string;
  readonly limit?: number;
}

/** Fails with a message, and does nothing else. */
interface FailWork {
  readonly kind: "fail";
  /** A template. */
  readonly message: string;
}

/** A prompt to an agent. */
interface AgentWork {
  readonly kind: "agent";
  readonly agent: string;
  readonly prompt: string;
  /** The name of a conversation that it shares with other steps. */
  readonly session?: string;
  readonly settings: AgentSettings;
}

/** A question to a person; it starts no process. */
export interface GateWork {
  readonly kind: "gate";
  /** The question; a template. */
  readonly ask: string;
  /** The possible answers, at least one; the first that does not fail is the approving one. */
  readonly choices: readonly Choice[];
  /** Files, `diff`, or templates whose values a person should see. */
  readonly show?: readonly string[];
  /** Whether the answer contains a text of the person. */
  readonly text: "none" | "optional" | "required";
  /** How long the gate waits for an answer. */
  readonly timeoutMs?: number;
  /** The key of the choice that counts without an answer in time. */
  readonly default?: string;
}

/** One of the answers that a gate takes. */
export interface Choice {
  /** The key that a person types; each choice of a gate has another one. */
  readonly key: string;
  readonly label: string;
  /** This choice makes the step fail. */
  readonly fails?: true;
  /** Words of a person that are no choice choose this one. */
  readonly free?: true;
  /** The step that it leads to. */
  readonly next?: string;
}

/** A pause; it starts no process. */
export type WaitWork =
  | { readonly kind: "wait"; readonly forMs: number }
  /** A moment as ISO 8601; a template. */
  | { readonly kind: "wait"; readonly until: string };

/** Items in the pipeline, in a JSON file, or file names; texts are templates. */
type ItemSource =
  | { readonly list: readonly Json[] }
  /** `path` leads to the list in the file. */
  | { readonly file: string; readonly path?: string }
  | { readonly glob: string };

/** Steps in a step: its own, or the pipeline of another file. */
export type PipelineBody = readonly PipelineStep[] | Pipeline;
