/**
 * The plan: the frozen graph that a run executes. Plain JSON data, stored with the run, so that
 * what happens next never depends on a file that somebody may edit.
 *
 * Owns: the shape of the graph (steps, edges, scopes) and its fingerprint.
 * Does not: parse authors' files (room `pipeline`) or hold any state of a run (room `core`).
 * Invariants:
 * - L1 A plan is JSON: what is stored and read back is equal to what was built.
 * - L2 Edges name steps by their position in the same graph; `back` edges are exactly those that
 *   return to a step from which they were reached, so the others form no cycle.
 */
import type { AgentSettings, Relay } from "../pipeline/agent-keys.ts";
import type { BriefingMode, Fidelity } from "../pipeline/fidelity.ts";
import type { Capture } from "../pipeline/key-values.ts";
import type { StepFields } from "../pipeline/keys.ts";
import type { ModelPrice } from "../pipeline/pipeline.ts";
import { canonicalJson, type Json, type JsonObject, sha256 } from "../util/json.ts";
import type { Check } from "./check.ts";

export type { AgentSettings, BriefingMode, Capture, Fidelity, Relay };

/** The version of the plan's shape; a program refuses a plan that is newer. */
export const PLAN_FORMAT = 1;

/** What a run may use of models and time; what is absent has no limit. */
export interface Budget {
  readonly usd?: number;
  /** Tokens in and out. */
  readonly tokens?: number;
  readonly turns?: number;
  /** The time that attempts may run, all together. */
  readonly timeMs?: number;
}

export interface Plan {
  readonly format: typeof PLAN_FORMAT;
  readonly name: string;
  /** How many processes of this run may live at once. */
  readonly maxParallel: number;
  /** JSON Schema of the input, when the author gave one. */
  readonly inputSchema?: Json;
  /** Variables for every step; values are templates. */
  readonly env: Readonly<Record<string, string>>;
  /** Names of variables, inputs and context keys whose values are never shown. */
  readonly secrets?: readonly string[];
  readonly agents: Readonly<Record<string, AgentDefinition>>;
  readonly budget?: Budget;
  /** What models cost, by their names. */
  readonly prices?: Readonly<Record<string, ModelPrice>>;
  /** The context that a run begins with. */
  readonly context?: JsonObject;
  /** The language whose built-in keys the run keeps in its context. */
  readonly keys?: "attractor";
  /** Where its steps work; absent: in the project's own directory, of which nothing is kept. */
  readonly workspace?: WorkspacePlan;
  /** How the author's file was read, so that an edit of it is read in the same way. */
  readonly reading?: PlanReading;
  /** For agent steps where neither the edge nor the step says it; absent: nothing is told. */
  readonly fidelity?: Fidelity;
  readonly thread?: string;
  readonly resumeFidelity?: BriefingMode;
  readonly graph: Graph;
}

/** What a person said about how to read a pipeline file. */
export interface PlanReading {
  /** What is only pretended: the answers of agents, or all work. */
  readonly simulate?: Simulation;
  /** For DOT: the agent for prompts whose provider is not known. */
  readonly agent?: string;
  /** For DOT: what agents may do without asking. */
  readonly permissions?: AgentSettings["permissions"];
  /** For DOT: a command for each type of node that the language does not have. */
  readonly handlers?: Readonly<Record<string, string>>;
  /** For DOT: the run goes on where another engine stopped. */
  readonly takesUp?: TakesUp;
}

export type Simulation = "agents" | "all";

/**
 * Where steps work: in the project itself, in a git worktree and branch of the run, in a fresh
 * directory, or in a copy of the project.
 */
export type WorkspaceKind = "here" | "worktree" | "directory" | "copy";

export interface WorkspacePlan {
  readonly kind: WorkspaceKind;
  /** Worktree: the commit or branch to begin with. Default: what is checked out. */
  readonly base?: string;
  /** Ignored files that belong to it nevertheless: globs. */
  readonly include: readonly string[];
  /** False: its content is not kept. */
  readonly snapshots: boolean;
  /** How often a long step is snapshotted. */
  readonly snapshotEveryMs: number;
  readonly fileBytesMax?: number;
}

/** An agent that steps may name. */
export interface AgentDefinition {
  /**
   * How to talk to it: the name of an adapter, or `command` for any program that takes the prompt on
   * stdin and in $PERDURE_PROMPT_FILE and answers on stdout.
   */
  readonly adapter: string;
  /** For `command`: shell text (a template). Otherwise: the program, if it is not on PATH. */
  readonly command?: string;
  /** Further arguments for the program of an adapter. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly settings: AgentSettings;
}

export interface Graph {
  readonly steps: readonly Step[];
  readonly edges: readonly Edge[];
}

/** Fields of a step that the author's keys set, but that have another form in a plan. */
type Rebuilt =
  | "check"
  | "env"
  | "goal"
  | "isolate"
  | "join"
  | "maxVisits"
  | "once"
  | "outputs"
  | "retry"
  | "retryTarget";

/** A step. The rows of pipeline/keys.ts say what most of its fields mean. */
export interface Step extends Omit<StepFields, Rebuilt> {
  readonly id: string;
  /** Starts when all its edges have arrived, or at each one. */
  readonly join: "all" | "any";
  /** Follows all its edges that apply, or selects one. */
  readonly split: "all" | "one";
  readonly work: Work;
  /** Variables for this step; values are templates. */
  readonly env: Readonly<Record<string, string>>;
  readonly retry: RetryPolicy;
  /** What decides whether its work is good, after it exited with 0; several in their order. */
  readonly check?: Check | readonly Check[];
  /** Named files: name -> path relative to the step's directory (a template). */
  readonly outputs: Readonly<Record<string, string>>;
  /** Must not happen twice: an interrupted attempt is never repeated without asking. */
  readonly once: boolean;
  /** Its processes live in a PID namespace of their own. */
  readonly isolate?: true;
  /** How many times a run may visit the step. */
  readonly visitsMax: number;
  /** When its last attempt failed, the run continues as if the step had completed. */
  readonly onFailure?: "continue";
  readonly goal?: Goal;
  /** For DOT: one request for another attempt too many is a partial success, not a failure. */
  readonly allowPartial?: true;
  /** For DOT: its thread where nobody names one; else it is that of the step before. */
  readonly threadGroup?: string;
}

/** What a step must have come to before its scope may end well. */
export interface Goal {
  /** `always`: it must be completed; `visited`: only if the run came to it. */
  readonly holds: "always" | "visited";
  /** Position of the step that the run goes back to when the goal was missed. */
  readonly retryTarget?: number;
}

/** What to do with a conversation that was cut off: go on with it, or begin a new one. */
export type Recover = "continue" | "restart";

export type Work =
  | { readonly kind: "shell"; readonly run: string }
  | {
      readonly kind: "agent";
      readonly agent: string;
      readonly prompt: string;
      /** The name of a conversation that it shares with other steps. */
      readonly session?: string;
      readonly settings: AgentSettings;
    }
  | PipelineWork
  | LoopWork
  | EachWork
  /** Nothing: a place where ways meet and part. Its outcome is that of the step before it. */
  | PassWork
  | BranchesWork
  /** Picks the best of the branches that ended last, by what they came to. */
  | { readonly kind: "pick" }
  | GateWork
  | WaitWork;

/** Another pipeline, run as a part of this one. */
export interface PipelineWork {
  readonly kind: "pipeline";
  readonly graph: Graph;
  /** The input of what is in it; texts are templates. Absent: that of the scope around it. */
  readonly input?: JsonObject;
  /** Key-values that are seen in it and hide those around it; nothing changes them. */
  readonly context?: JsonObject;
}

export interface PassWork {
  readonly kind: "pass";
  /** It stands for work that is only pretended, and says itself how it went. */
  readonly simulates?: Simulated;
  /** It stands for all that another engine did before the run began. */
  readonly takesUp?: TakesUp & { readonly label?: string };
}

/** Where another engine stopped, as its checkpoint says. */
export interface TakesUp {
  /** The last node that it completed. */
  readonly node: string;
  readonly completed: readonly string[];
  readonly context: JsonObject;
}

/** What a simulated step would have been told, and what it is taken to have answered. */
export interface Simulated {
  /** A template. */
  readonly prompt?: string;
  readonly answer: string;
}

/**
 * Ways that are gone side by side: one instance of each graph, each with key-values of its own, which
 * are left behind with it. A branch that fails does not fail the run.
 */
export interface BranchesWork {
  readonly kind: "branches";
  readonly branches: readonly Branch[];
  /** How many may be open at once. */
  readonly maxParallel: number;
  /**
   * `wait_all`: all are gone, and those that failed make it a partial success. `first_success`: no
   * further one is begun once one has succeeded, and it fails only when all have.
   */
  readonly policy: "wait_all" | "first_success";
}

export interface Branch {
  readonly id: string;
  readonly graph: Graph;
}

/** A question to a person; nothing is run for it. */
export interface GateWork {
  readonly kind: "gate";
  /** The question; a template. */
  readonly ask: string;
  /** What may be answered, at least one; the first that does not fail is the approving one. */
  readonly choices: readonly Choice[];
  /** Whether words of the person's own belong to the answer. */
  readonly text: "none" | "optional" | "required";
  /** How long the question stands. */
  readonly timeoutMs?: number;
  /** The key of the choice that counts when nobody has answered in time. */
  readonly default?: string;
}

/** One of the answers that a gate takes. */
export interface Choice {
  /** What to type for it; no two choices of a gate have the same. */
  readonly key: string;
  readonly label: string;
  /** Whoever chooses it makes the step fail. */
  readonly fails?: true;
  /** The step that it leads to. */
  readonly next?: string;
}

/** Time that passes; nothing is run for it. */
export type WaitWork =
  | { readonly kind: "wait"; readonly forMs: number }
  /** A moment as ISO 8601; a template. */
  | { readonly kind: "wait"; readonly until: string };

/** Repeats its graph: one instance after the other. */
export interface LoopWork {
  readonly kind: "loop";
  readonly graph: Graph;
  /** An expression over the last instance; the loop ends when it is true. */
  readonly until?: string;
  readonly iterationsMax: number;
  /** What it means when `until` was still not true after the last iteration. */
  readonly onExhausted: "fail" | "continue";
}

/** Fan-out: one instance of the graph for each item of a list. */
export interface EachWork {
  readonly kind: "each";
  /** An expression that gives a list, or where else the items are. */
  readonly items: string | ItemSource;
  /** A name for the item beside `item`. */
  readonly as?: string;
  readonly graph: Graph;
  /** How many instances may be open at once. */
  readonly maxParallel: number;
  readonly onItemFailure: "fail" | "continue";
}

/** Items as they are written, in a JSON file, or the names of files; texts are templates. */
export type ItemSource =
  | { readonly list: readonly Json[] }
  | { readonly file: string }
  | { readonly glob: string };

export interface RetryPolicy {
  /** How many tries a visit gets, the first included. */
  readonly attempts: number;
  /**
   * What is tried again. Absent: all that went wrong, but not what the step itself calls a failure.
   * `any`: that too. `retry`: only when the step asks for it, or could not even begin.
   */
  readonly on?: "any" | "retry";
  readonly backoff: Backoff;
  /** What `resume` grants a failed step on top: a new allowance, or nothing. */
  readonly onResume: "fresh" | "keep";
  /** After a failure an agent's next attempt starts a new conversation. Absent: its own continues. */
  readonly conversation?: "fresh";
}

export interface Backoff {
  readonly initialMs: number;
  readonly factor: number;
  readonly maxMs: number;
  /** 0 = none; 0.5 = each delay times a number between 0.5 and 1.5. */
  readonly jitter: number;
}

export interface Edge {
  readonly from: number;
  readonly to: number;
  /** Which end of the visit it belongs to. */
  readonly on: "completed" | "failed";
  /** An expression; the edge applies when it is true. */
  readonly condition?: string;
  readonly label?: string;
  readonly weight: number;
  /** Returns to a step that lies before it: takes the run back there (a loop). */
  readonly back: boolean;
  /** Begins its scope anew at the step that it leads to; of the context these keys are kept. */
  readonly restart?: { readonly keep: readonly string[] };
  /** What the step that it leads to is told, and in which thread. */
  readonly fidelity?: Fidelity;
  readonly thread?: string;
  /** Where agents are simulated: what one would have to say for it to be followed; any of these. */
  readonly wants?: readonly NeededOutcome[];
}

/** What a step may say about how it went; what is absent is left open. */
export interface NeededOutcome {
  readonly outcome?: string;
  readonly label?: string;
  /** The step to go on with. */
  readonly next?: string;
  readonly context?: Readonly<Record<string, string>>;
}

/** The frozen form of a plan: its one text, and the hash that tells two plans apart. */
export function freeze(plan: Plan): { readonly text: string; readonly fingerprint: string } {
  const text = canonicalJson(plan);
  return { text, fingerprint: sha256(text) };
}

/**
 * Edges with their `back` marks: depth first from `roots` and the steps without edges into them,
 * in order, and from each step to the nearest one below it first.
 */
export function markBackEdges(
  stepCount: number,
  edges: readonly Omit<Edge, "back">[],
  roots: readonly number[] = [],
): readonly Edge[] {
  const outgoing: number[][] = Array.from({ length: stepCount }, () => []);
  const incoming = new Uint32Array(stepCount);
  edges.forEach((edge, index) => {
    outgoing[edge.from]?.push(index);
    if (edge.from !== edge.to) incoming[edge.to] = (incoming[edge.to] ?? 0) + 1;
  });
  const targetOf = (index: number): number => (edges[index] as Edge).to;
  for (const list of outgoing) list.sort((one, other) => targetOf(one) - targetOf(other));
  const back = new Set<number>();
  const OPEN = 1;
  const DONE = 2;
  const color = new Uint8Array(stepCount);
  const visit = (root: number): void => {
    // An explicit stack: a list of 100,000 steps is a path of that depth.
    const stack: { step: number; next: number }[] = [{ step: root, next: 0 }];
    color[root] = OPEN;
    for (let frame = stack.at(-1); frame !== undefined; frame = stack.at(-1)) {
      const edgeIndex = outgoing[frame.step]?.[frame.next++];
      if (edgeIndex === undefined) {
        color[frame.step] = DONE;
        stack.pop();
        continue;
      }
      const target = targetOf(edgeIndex);
      if (color[target] === OPEN) back.add(edgeIndex);
      else if (color[target] !== DONE) {
        color[target] = OPEN;
        stack.push({ step: target, next: 0 });
      }
    }
  };
  for (let step = 0; step < stepCount; step++) if (incoming[step] === 0) visit(step);
  for (const step of roots) if (color[step] === 0) visit(step);
  for (let step = 0; step < stepCount; step++) if (color[step] === 0) visit(step);
  return edges.map((edge, index) => ({ ...edge, back: back.has(index) }));
}
