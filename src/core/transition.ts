/**
 * The transition tables: which event may meet which state, and where it leads. `evolve` refuses
 * what is not here, one test walks all pairs, and docs/STATE_MACHINE.md is made from them.
 */
import type { RunEvent } from "./event.ts";
import type { RunState, VisitStatus } from "./run.ts";

export type StepEventType = Extract<RunEvent["type"], `step.${string}`>;
export type RunEventType = Extract<RunEvent["type"], `run.${string}`>;
type RunStatusName = RunState["status"];

/** Where each event may take a visit. `run.*` rows are what happens to visits as a side effect. */
export const VISIT_TRANSITIONS: Readonly<
  Record<VisitStatus, Partial<Readonly<Record<StepEventType, readonly VisitStatus[]>>>>
> = {
  ready: { "step.started": ["running", "sleeping"], "step.skipped": ["skipped"] },
  running: {
    "step.completed": ["completed"],
    "step.failed": ["waiting", "failed"],
    "step.lost": ["waiting", "failed"],
    "step.paused": ["waiting", "failed"],
    "step.session": ["running"],
    "step.adopted": ["running"],
    "step.based": ["running"],
    "step.saved": ["running"],
    "step.continued": ["ready", "interrupted"],
    "step.relayed": ["ready", "interrupted"],
    "step.submitted": ["ready", "interrupted"],
    "step.conflicted": ["interrupted"],
    "step.interrupted": ["interrupted", "ready"],
    "step.unsettled": ["unsettled", "failed"],
    "step.iterated": ["running"],
    "step.asked": ["asked"],
  },
  asked: {
    "step.answered": ["asked"],
    "step.continued": ["ready", "interrupted"],
    "step.completed": ["completed"],
    "step.failed": ["waiting", "failed"],
  },
  sleeping: { "step.completed": ["completed"], "step.failed": ["failed"] },
  unsettled: {
    "step.probed": ["unsettled", "failed"],
    "step.settled": ["unsettled"],
    "step.completed": ["completed"],
    "step.failed": ["waiting", "failed"],
    "step.lost": ["waiting", "failed"],
    "step.interrupted": ["interrupted", "ready"],
  },
  waiting: { "step.started": ["running"] },
  interrupted: {},
  completed: {},
  failed: { "step.granted": ["ready"], "step.settled": ["unsettled"] },
  skipped: {},
  abandoned: {},
};

/** Where each event may take a run. */
export const RUN_TRANSITIONS: Readonly<
  Record<RunStatusName, Partial<Readonly<Record<RunEventType, readonly RunStatusName[]>>>>
> = {
  created: {
    "run.created": ["created"],
    "run.opened": ["running"],
    "run.moved": ["created"],
    "run.messaged": ["created"],
  },
  running: {
    "run.opened": ["running"],
    "run.moved": ["running"],
    "run.stopping": ["stopping"],
    "run.rewound": ["running"],
    "run.updated": ["running"],
    "run.returned": ["running"],
    "run.restarted": ["running"],
    "run.funded": ["running"],
    "run.messaged": ["running"],
    "run.placed": ["running"],
    "run.restoring": ["running"],
    "run.restored": ["running"],
    "run.forked": ["stopped"],
    "run.completed": ["completed"],
    "run.failed": ["failed"],
  },
  stopping: {
    "run.opened": ["running"],
    "run.moved": ["stopping"],
    "run.messaged": ["stopping"],
    "run.placed": ["stopping"],
    "run.restored": ["stopping"],
    "run.forked": ["stopped"],
    "run.stopping": ["stopping"],
    "run.stopped": ["stopped"],
    "run.returned": ["stopping"],
    "run.restarted": ["stopping"],
    "run.completed": ["completed"],
    "run.failed": ["failed"],
  },
  // A person may settle a step while nobody drives the run, and the step may begin it anew.
  stopped: {
    "run.opened": ["running"],
    "run.moved": ["stopped"],
    "run.messaged": ["stopped"],
    "run.restarted": ["stopped"],
  },
  completed: {
    "run.opened": ["running"],
    "run.moved": ["completed"],
    "run.messaged": ["completed"],
  },
  failed: {
    "run.opened": ["running"],
    "run.moved": ["failed"],
    "run.messaged": ["failed"],
    "run.restarted": ["failed"],
  },
};

/** Visits that change without an event of their own when the run itself does. */
export const SIDE_TRANSITIONS: readonly {
  readonly event: RunEventType;
  readonly from: readonly VisitStatus[];
  readonly to: VisitStatus;
  readonly why: string;
}[] = [
  {
    event: "run.opened",
    from: ["interrupted"],
    to: "ready",
    why: "a new owner takes interrupted work up again",
  },
  {
    event: "run.opened",
    from: ["failed"],
    to: "unsettled",
    why: "nobody knows whether it happened, and a new owner asks its probe again",
  },
  {
    event: "run.forked",
    from: ["running"],
    to: "ready",
    why: "its process belongs to the other run",
  },
  {
    event: "run.forked",
    from: ["asked"],
    to: "ready",
    why: "the question is asked again in the fork, whatever is answered in the other run",
  },
  {
    event: "run.rewound",
    from: ["ready", "waiting", "interrupted", "unsettled", "asked", "sleeping", "failed"],
    to: "abandoned",
    why: "it lies behind the step from which the person goes on",
  },
  {
    event: "run.rewound",
    from: ["ready", "waiting", "interrupted", "unsettled", "asked", "sleeping", "failed"],
    to: "completed",
    why: "it lies before that step, so the person declared it done",
  },
  {
    event: "run.restarted",
    from: ["ready", "failed"],
    to: "abandoned",
    why: "its scope begins anew, and it belongs to the past",
  },
  {
    event: "run.updated",
    from: ["ready", "waiting", "interrupted", "asked", "sleeping", "failed"],
    to: "abandoned",
    why: "the edit changed it, something before it, or took it away",
  },
];

/** True when the event may meet a visit in this state. */
export function mayMeetVisit(status: VisitStatus, type: StepEventType): boolean {
  return VISIT_TRANSITIONS[status][type] !== undefined;
}

/** True when the event may meet a run in this state. */
export function mayMeetRun(status: RunStatusName, type: RunEventType): boolean {
  return RUN_TRANSITIONS[status][type] !== undefined;
}
