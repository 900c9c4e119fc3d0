/**
 * The plan: the frozen graph that a run executes. It is plain JSON, stored with the run, so that a
 * later edit of the author's file does not change the run.
 *
 * Owns: the shape of the graph (steps, edges, scopes) and its fingerprint.
 * Does not: parse authors' files (room `pipeline`) or hold any state of a run (room `core`).
 * Invariants:
 * - plan/L1 A plan is JSON: a plan that is stored and read back equals the plan that was built.
 * - plan/L2 Edges name steps by their position in the same graph. An edge is `back` if and only if
 *   it returns to a step that leads to it, so the other edges form no cycle.
 */
import type { AgentSettings, Relay } from "../pipeline/agent-keys.ts";
import type { Capture, Check } from "../pipeline/key-values.ts";
import type { StepFields } from "../pipeline/keys.ts";
import type {
  AgentDefinition,
  PipelineWork as AuthoredWork,
  Budget,
  Choice,
  GateWork,
  NoticeKind,
  NoticeReceiver,
  Pipeline,
  WaitWork,
  WorkspaceKind,
  WorkspaceSettings,
} from "../pipeline/pipeline.ts";
import type { BriefingMode, Fidelity } from "../pipeline/values.ts";
import { canonicalJson, type JsonObject, sha256 } from "../util/json.ts";

/** A pipeline and its plan share these types; later rooms import them from here. */
export type {
  AgentDefinition,
  AgentSettings,
  BriefingMode,
  Budget,
  Capture,
  Check,
  Choice,
  Fidelity,
  NoticeKind,
  NoticeReceiver,
  Relay,
  WorkspaceKind,
  WorkspaceSettings,
};

/** The version of the plan's shape; a program refuses a plan that is newer. */
export const PLAN_FORMAT = 1;

/** A pipeline whose steps became a graph, with the settings of all its files. */
export interface Plan extends Omit<Pipeline, "workspace" | "defaults" | "steps" | "finally"> {
  readonly format: typeof PLAN_FORMAT;
  /** The language whose built-in keys the run keeps in its context. */
  readonly keys?: "attractor";
  /** Where its steps work; absent: in the project's own directory, without snapshots. */
  readonly workspace?: WorkspaceSettings;
  /** How the author's file was read, so that an edit of it is read in the same way. */
  readonly reading?: PlanReading;
  /** For agent steps where neither the edge nor the step sets it; absent: no briefing. */
  readonly fidelity?: Fidelity;
  readonly thread?: string;
  readonly resumeFidelity?: BriefingMode;
  readonly graph: Graph;
  /** The steps that run one after the other when a run has reached its end; it has no edges. */
  readonly finally?: Graph;
}

/** Options of the command line that change how a pipeline file becomes a plan. */
export interface PlanReading {
  /** Which work is simulated: that of agents, or all. */
  readonly simulate?: Simulation;
  /** For DOT: the agent for prompts whose provider is not known. */
  readonly agent?: string;
  /** For DOT: the goal in place of that of the file. */
  readonly goal?: string;
  /** For DOT: the model and the provider for nodes that name none, in place of those of the graph. */
  readonly model?: string;
  readonly provider?: string;
  /** For DOT: what agents may do without asking. */
  readonly permissions?: AgentSettings["permissions"];
  /** For DOT: a command for each type of node that the language does not have. */
  readonly handlers?: Readonly<Record<string, string>>;
  /** For DOT: the run continues where another engine stopped. */
  readonly continuesFrom?: AttractorCheckpoint;
}

export type Simulation = "agents" | "all";

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
  | "retryTarget"
  | "runsIn";

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
  /**
   * The checks that decide, after exit status 0, whether its work is good; several run in order.
   */
  readonly check?: Check | readonly Check[];
  /** Named files: name -> path relative to the step's directory (a template). */
  readonly outputs: Readonly<Record<string, string>>;
  /** Its effect must not happen twice: an interrupted attempt is never repeated without asking. */
  readonly once: boolean;
  /** Its processes live in a PID namespace of their own. */
  readonly isolate?: true;
  /** Its processes run in a sandbox, not on the host. */
  readonly runsIn?: Exclude<StepFields["runsIn"], "host" | undefined>;
  /** How many times a run may visit the step. */
  readonly visitsMax: number;
  /** When its last attempt failed, the run continues as if the step had completed. */
  readonly onFailure?: "continue";
  readonly goal?: Goal;
  /** For DOT: when the retries are used up, the outcome `retry` counts as a partial success. */
  readonly allowPartial?: true;
  /** For DOT: its agent picks one of the branches that ended last. */
  readonly picks?: true;
  /** For DOT: its thread where neither step nor edge names one. Absent: that of the step before. */
  readonly threadGroup?: string;
}

/** A step without which its scope does not succeed. */
export interface Goal {
  /** `always`: the step must complete; `visited`: only if the run visited it. */
  readonly holds: "always" | "visited";
  /** Position of the step that the run returns to when the goal was missed. */
  readonly retryTarget?: number;
  /** For DOT, in a branch: the step outside of all branches that the run returns to. */
  readonly outside?: string;
}

/** An interrupted conversation is continued, or replaced by a new one. */
export type Recover = "continue" | "restart";

/** What a step does. */
export type Work =
  | { readonly kind: "shell"; readonly run: string }
  | Extract<AuthoredWork, { readonly kind: "agent" | "fail" }>
  | PipelineWork
  | LoopWork
  | EachWork
  | PassWork
  | BranchesWork
  /** Picks the best of the branches that ended last, by their outcomes. */
  | { readonly kind: "pick" }
  | GateWork
  | WaitWork;

/** Work of a kind, or of one of several kinds. */
export type WorkOf<K extends Work["kind"]> = Extract<Work, { kind: K }>;

/** Another pipeline, run as a part of this one. */
interface PipelineWork {
  readonly kind: "pipeline";
  readonly graph: Graph;
  /** The input of its steps; texts are templates. Absent: the input of the scope around it. */
  readonly input?: JsonObject;
  /** Constant context of its steps; it hides the same keys of the context around it. */
  readonly context?: JsonObject;
  /** For DOT: how the manager of this sub-pipeline watches it. */
  readonly watch?: Watch;
}

/** The limits of a sub-pipeline that is watched. */
interface Watch {
  /** The length of a cycle, and how many there may be; absent: no limit. */
  readonly everyMs?: number;
  readonly cyclesMax?: number;
  /** An expression; when it is true, no further step of the sub-pipeline starts. */
  readonly until?: string;
  /** Its agents get these instructions, a template, when they have worked for so long. */
  readonly steer?: { readonly says: string; readonly everyMs: number };
}

/** No work: a step where edges meet and part. Its outcome is that of the step before it. */
interface PassWork {
  readonly kind: "pass";
  /** The simulated work that it stands for; the step has an outcome of its own then. */
  readonly simulates?: Simulated;
  /** It marks the end of a branch, and stands for no node of the file. */
  readonly endsBranch?: true;
  /** It stands for the nodes that another engine completed before this run. */
  readonly continuesFrom?: AttractorCheckpoint;
}

/** The checkpoint of another engine of the language: where it stopped. */
export interface AttractorCheckpoint {
  /** The last node that it completed. */
  readonly node: string;
  readonly completed: readonly string[];
  readonly context: JsonObject;
  /** The label and the next nodes that this node reported. */
  readonly label?: string;
  readonly next?: readonly string[];
}

/** The prompt that a simulated step would have received, and its simulated answer. */
export interface Simulated {
  /** A template. */
  readonly prompt?: string;
  readonly answer: string;
}

/**
 * Branches that run side by side: one instance of each graph, each with a context of its own, which
 * ends with the branch. A branch that fails does not fail the run.
 */
interface BranchesWork {
  readonly kind: "branches";
  readonly branches: readonly Branch[];
  /** How many may be open at once. */
  readonly maxParallel: number;
  /**
   * `wait_all`: all branches run, and a failed one makes it a partial success. `first_success`:
   * once one branch has succeeded the others end, and the step fails only when all have failed.
   */
  readonly policy: "wait_all" | "first_success";
}

interface Branch {
  readonly id: string;
  readonly graph: Graph;
}

/** Repeats its graph, one instance after the other. */
interface LoopWork {
  readonly kind: "loop";
  readonly graph: Graph;
  /** An expression over the last instance; the loop ends when it is true. */
  readonly until?: string;
  readonly iterationsMax: number;
  /** What happens when `until` is still not true after the last iteration. */
  readonly onExhausted: "fail" | "continue";
}

type AuthoredEach = Extract<AuthoredWork, { readonly kind: "each" }>;

/** Fan-out: one instance of the graph for each item of a list. */
interface EachWork {
  readonly kind: "each";
  /** An expression whose value is a list, or another source of items. */
  readonly items: AuthoredEach["items"];
  readonly selection?: NonNullable<AuthoredEach["selection"]>;
  /** A name for the item beside `item`. */
  readonly as?: string;
  readonly graph: Graph;
  /** How many instances may be open at once. */
  readonly maxParallel: number;
  readonly onItemFailure: "fail" | "continue";
}

export interface RetryPolicy {
  /** How many attempts a visit gets, the first included. */
  readonly attempts: number;
  /**
   * Which failures are retried. Absent: all except those that the step reports itself. `any`:
   * these, too. `retry`: only if the step reports `retry`, its process could not start, or nobody
   * answered its question in time.
   */
  readonly on?: "any" | "retry";
  readonly backoff: {
    readonly initialMs: number;
    readonly factor: number;
    readonly maxMs: number;
    /** 0 = none; 0.5 = each delay times a number between 0.5 and 1.5. */
    readonly jitter: number;
  };
  /** Whether `resume` grants a failed step new attempts (`fresh`) or none (`keep`). */
  readonly onResume: "fresh" | "keep";
  /**
   * After a failure an agent's next attempt starts a new conversation. Absent: its own continues.
   */
  readonly conversation?: "fresh";
}

export interface Edge {
  readonly from: number;
  readonly to: number;
  /** The end of the visit after which it may be followed. */
  readonly on: "completed" | "failed";
  /** An expression; the edge applies when it is true. */
  readonly condition?: string;
  readonly label?: string;
  readonly weight: number;
  /** Returns to an earlier step (a loop). */
  readonly back: boolean;
  /**
   * For DOT: it passes an unhandled failure on to a step without work. It applies only if an edge
   * after that step applies to the failure.
   */
  readonly carries?: true;
  /** Restarts its scope at the step that it leads to; the context keeps only these keys. */
  readonly restart?: { readonly keep: readonly string[] };
  /** The fidelity and the thread of the step that it leads to. */
  readonly fidelity?: Fidelity;
  readonly thread?: string;
  /** For simulation: the outcomes with which a step follows this edge; any of them suffices. */
  readonly wants?: readonly NeededOutcome[];
}

/** An outcome that a simulated step can report; an absent field may have any value. */
export interface NeededOutcome {
  readonly outcome?: string;
  readonly label?: string;
  /** The suggested next step. */
  readonly next?: string;
  readonly context?: Readonly<Record<string, string>>;
}

/** The frozen form of a plan: its canonical text and the hash of it. */
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

/** An agent that decides whether the work is good. */
export type Judge = Extract<Check, { kind: "judge" }>;

/** One check, or several in their order. */
interface CheckedStep {
  readonly check?: Check | readonly Check[];
}

/** The checks of a step, in their order. */
export function checksOf({ check }: CheckedStep): readonly Check[] {
  if (check === undefined) return [];
  return "kind" in check ? [check] : check;
}
