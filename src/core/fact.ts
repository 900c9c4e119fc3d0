/** What the outside told the engine. A fact changes nothing; `decide` makes events of it. */
import type { Json, JsonObject } from "../util/json.ts";
import type { AttemptRef, CheckEvidence, Output, Owner, Place, StopMode } from "./event.ts";

export type Fact =
  /** A process took the lease of this run. */
  | { readonly type: "opened"; readonly owner: Owner; readonly epoch: number }
  /** The engine has room for this visit now; `values` holds what `env` may be asked for. */
  | { readonly type: "dispatched"; readonly place: Place }
  /** Every instance in this visit has ended. */
  | { readonly type: "scopes-closed"; readonly place: Place }
  /** Nothing is left to do. */
  | { readonly type: "exhausted" }
  | { readonly type: "attempt-ended"; readonly at: AttemptRef; readonly ending: Ending }
  | { readonly type: "stop-requested"; readonly mode: StopMode; readonly by: string }
  /** A person asked for this step again. */
  | { readonly type: "retry-requested"; readonly step: string }
  /** A person asked to go on from this step, taking what lies before it as done. */
  | { readonly type: "rewind-requested"; readonly step: string };

/** How an attempt ended, with the evidence. */
export type Ending =
  | {
      readonly how: "exited";
      readonly exit: number;
      readonly outputs: Readonly<Record<string, Output>>;
      readonly context: JsonObject;
      readonly check?: CheckEvidence;
      /** What is wrong with its files, although it exited with 0. */
      readonly problem?: { readonly reason: "output" | "context" | "check"; readonly message: string };
    }
  | { readonly how: "timed-out"; readonly limit: "timeout" | "idle" | "output-limit"; readonly message: string }
  /** Ended because the run is being stopped. */
  | { readonly how: "stopped"; readonly message: string }
  /** Nobody vouches for it: no exit status, no process. */
  | { readonly how: "lost"; readonly message: string }
  | { readonly how: "not-started"; readonly message: string };

/** Values that expressions may name beside the run's own; read by the engine, never stored. */
export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly runId: string;
  readonly runDir: string;
}

export type { Json };
