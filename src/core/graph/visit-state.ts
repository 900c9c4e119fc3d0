/**
 * The state of one visit: it waits for something, it runs, or it is over.
 *
 * Owns: the states, what is known in each, and the word that people read for each.
 * Does not: know which event leads from one to another (transition.ts).
 */
import type { Json } from "../../util/json.ts";
import type {
  AgentProblem,
  CheckEvidence,
  Deadline,
  FailureReason,
  FoundResult,
  Output,
  Question,
  StepReport,
} from "../event.ts";

export type VisitState =
  | ({ readonly status: "waiting" } & Wait)
  | {
      readonly status: "running";
      readonly since: number;
      /** From when its time has still to be counted; later than `since` under a second owner. */
      readonly uncounted: number;
    }
  | {
      readonly status: "completed";
      readonly at: number;
      readonly exit: number;
      readonly outputs: Readonly<Record<string, Output>>;
      readonly answer?: Json;
      /** The end of what it printed, where the plan refers to it. */
      readonly output?: string;
      /** Identifies its effect, such as the address of a pull request. */
      readonly identity?: string;
      /** The probe or the person that declared it done. */
      readonly settledBy?: string;
      /** The attempt of an earlier run whose result it has. */
      readonly from?: FoundResult["from"];
      readonly reported?: StepReport;
      /** Checks that did not pass and only warn. */
      readonly checks?: readonly CheckEvidence[];
      /** A person declared it done. */
      readonly assumed: boolean;
    }
  | {
      readonly status: "failed";
      readonly at: number;
      readonly reason: FailureReason;
      readonly message: string;
      readonly exit?: number;
      readonly reported?: StepReport;
      /** Checks that did not pass. */
      readonly checks?: readonly CheckEvidence[];
      /** Of an agent: what a person has to change first. */
      readonly trouble?: AgentProblem;
      readonly answer?: Json;
      readonly output?: string;
      /** Distinguishes it from other failures of the step. */
      readonly signature?: string;
      /** An edge leads on from the failure, or the author lets the run continue. */
      readonly handled: boolean;
      /** Nothing in its own scope handled it, but the composite step around it did. */
      readonly absorbed?: true;
    }
  /** Its condition is false, or a person skipped it. */
  | { readonly status: "skipped"; readonly at: number; readonly by?: string }
  /** A rewind, a restart or an update made it history before it was over. */
  | { readonly status: "abandoned"; readonly at: number };

/** What a visit that does not run waits for. */
export type Wait =
  /** The next turn of the loop, which starts it: gates and waits need no slot. */
  | { readonly for: "start" }
  /** Its turn in the queue for process slots. Steps without a process are in it, too. */
  | { readonly for: "slot" }
  /** The time of its next attempt. */
  | {
      readonly for: "retry";
      readonly until: number;
      readonly delayMs: number;
      readonly message: string;
    }
  /** An owner that continues it: it was interrupted, or the run stopped before its next attempt. */
  | { readonly for: "owner"; readonly message: string }
  /** Its probe, which is to say whether its effect happened. */
  | { readonly for: "probe"; readonly message: string }
  /** A person's answer. */
  | ({ readonly for: "person"; readonly since: number } & Question)
  /** The time that its author set. */
  | { readonly for: "time"; readonly since: number; readonly wake: Deadline }
  /** The decision how it ends: it is composite, and all its instances have ended. */
  | { readonly for: "close"; readonly since: number };

export type WaitReason = Wait["for"];

/** The state of a visit that waits for this. */
type WaitingState<R extends WaitReason> = Extract<VisitState, { readonly for: R }>;

/** True when a visit in this state waits for this. */
export function waitsFor<R extends WaitReason>(
  state: VisitState | undefined,
  reason: R,
): state is WaitingState<R> {
  return state?.status === "waiting" && state.for === reason;
}

/** True when nothing more will happen to a visit in this state by itself. */
export function isOver({ status }: VisitState): boolean {
  return status !== "waiting" && status !== "running";
}

const WAITING_WORDS = {
  start: "ready",
  slot: "ready",
  retry: "waiting",
  owner: "interrupted",
  probe: "uncertain",
  person: "asked",
  time: "sleeping",
  close: "running",
} as const satisfies Readonly<Record<WaitReason, string>>;

/** A visit's state in one word. */
type VisitStatus = Exclude<VisitState["status"], "waiting"> | (typeof WAITING_WORDS)[WaitReason];

/** The word that people, agents and expressions read for a state. */
export function statusWord(state: VisitState): VisitStatus {
  return state.status === "waiting" ? WAITING_WORDS[state.for] : state.status;
}

/** A state by its name in the transition table. */
export type StateName = Exclude<VisitState["status"], "waiting"> | `waiting for ${WaitReason}`;

/** The name of a state in the transition table. */
export function stateName(state: VisitState): StateName {
  return state.status === "waiting" ? `waiting for ${state.for}` : state.status;
}
