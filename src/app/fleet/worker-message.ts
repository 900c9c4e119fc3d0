/** What a worker reports about its runs, its store and its disk; a face makes lines of it. */
import type { DrivenResult } from "./drive-fleet-run.ts";
import type { LeaseLoss } from "./lease-keeper.ts";

/** What a worker says to a person. */
export type WorkerMessage =
  | { readonly type: "ready"; readonly worker: string }
  | { readonly type: "took"; readonly runId: string; readonly how: "take" | "adopt" }
  | { readonly type: "ended"; readonly runId: string; readonly result: DrivenResult }
  | {
      readonly type: "failed";
      readonly runId: string;
      readonly reason: string;
      readonly next: "again" | "dead";
    }
  | { readonly type: "lost"; readonly runId: string; readonly why: LeaseLoss }
  | { readonly type: "scheduled"; readonly runId: string; readonly name: string }
  | { readonly type: "store-away"; readonly reason: string }
  | { readonly type: "store-back" }
  | { readonly type: "not-removed"; readonly reason: string }
  | { readonly type: "draining"; readonly runs: number };
