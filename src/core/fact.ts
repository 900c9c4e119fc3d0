/** What the outside told the engine. A fact changes nothing; `decide` makes events of it. */
import type { Budget, Recover } from "../plan/plan.ts";
import type { Json, JsonObject } from "../util/json.ts";
import type {
  Ask,
  AttemptRef,
  CheckEvidence,
  Found,
  LastTool,
  Output,
  Owner,
  PauseReason,
  Place,
  Spent,
  StopMode,
} from "./event.ts";

export type Fact =
  /** A process took the lease of this run. */
  | {
      readonly type: "opened";
      readonly owner: Owner;
      readonly epoch: number;
      readonly recover?: Recover;
    }
  /** What an earlier owner had started was found. */
  | { readonly type: "adopted"; readonly at: AttemptRef; readonly found: Found }
  /** The engine has room for this visit now; its conditions may ask for `env`. */
  | {
      readonly type: "dispatched";
      readonly place: Place;
      readonly env: Environment;
      /** For a step that talks to an agent. */
      readonly offer?: ConversationOffer;
      /** For a fan-out whose items are not in the run. */
      readonly items?: ItemsFound;
    }
  /** An agent has said which conversation it is in. */
  | { readonly type: "session-known"; readonly at: AttemptRef; readonly session: string }
  /** Every instance in this visit has ended. */
  | { readonly type: "scopes-closed"; readonly place: Place }
  /** Nothing is left to do. */
  | { readonly type: "exhausted" }
  | { readonly type: "attempt-ended"; readonly at: AttemptRef; readonly ending: Ending }
  | { readonly type: "stop-requested"; readonly mode: StopMode; readonly by: string }
  /** A person added to the budget. */
  | { readonly type: "funds-added"; readonly added: Budget }
  /** A person asked for this step again. */
  | { readonly type: "retry-requested"; readonly step: string }
  /** A person asked to go on from this step, taking what lies before it as done. */
  | { readonly type: "rewind-requested"; readonly step: string };

/** The engine's own environment; values are looked up, never stored. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** What can be had of an agent's conversations now. */
export interface ConversationOffer {
  /** An id for a new one, when the agent lets us choose it. */
  readonly fresh?: string;
  /** Whether the conversation that the visit had is still there. */
  readonly found: boolean;
}

/** The items of a fan-out, or why there are none to be had. */
export type ItemsFound =
  | { readonly ok: true; readonly items: readonly Json[] }
  | { readonly ok: false; readonly message: string };

/** What the core may ask of the outside when it starts a visit. */
export interface Surroundings {
  readonly env: Environment;
  /** Looks up the items of a fan-out that are outside the run; undefined for every other step. */
  readonly items?: (place: Place) => ItemsFound | undefined;
  readonly offer: (place: Place, session: string | undefined) => ConversationOffer | undefined;
}

/** How an attempt ended, with the evidence and what it used of a model. */
export type Ending = { readonly spent?: Spent } & (
  | {
      readonly how: "exited";
      readonly exit: number;
      readonly outputs: Readonly<Record<string, Output>>;
      readonly context: JsonObject;
      readonly answer?: Json;
      readonly check?: CheckEvidence;
      /** What is wrong with its files, although it exited with 0. */
      readonly problem?: {
        readonly reason: "output" | "context" | "check" | "agent";
        readonly message: string;
      };
      /** The last of what it printed before it failed, for a step that may come again. */
      readonly said?: string;
      /** There is no exit status; its agent's stream holds its last word. */
      readonly fromStream?: true;
    }
  /** It was ended because its agent got nowhere or had used up its turns. */
  | { readonly how: "reined"; readonly reason: "stall" | "turns"; readonly message: string }
  /** Its agent is to go on in the same conversation with a request of ours. */
  | { readonly how: "asked"; readonly ask: Ask }
  /** Its agent has written down what the next conversation needs. */
  | { readonly how: "relayed"; readonly checkpoint: Output }
  | {
      readonly how: "timed-out";
      readonly limit: "timeout" | "idle" | "output-limit";
      readonly message: string;
    }
  /** Ended because the run is being stopped. */
  | { readonly how: "stopped"; readonly message: string; readonly tool?: LastTool }
  /** Nobody vouches for it: no exit status, no process. `started` is false only when it is proven
   * that nothing of it ever ran. */
  | {
      readonly how: "lost";
      readonly started: boolean;
      readonly message: string;
      readonly tool?: LastTool;
    }
  /** It got no process: the system refused, or an expression in it has no value. */
  | {
      readonly how: "not-started";
      readonly reason: "spawn" | "expression";
      readonly message: string;
    }
  /** Its agent could not go on through no fault of the step. */
  | {
      readonly how: "paused";
      readonly reason: PauseReason;
      readonly message: string;
      readonly retryAfterMs?: number;
    }
);
