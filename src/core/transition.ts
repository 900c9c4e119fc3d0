/**
 * The transition tables: which events each state allows, and which states follow. `evolve` refuses
 * every other event, a test checks all pairs, and docs/STATE_MACHINE.md is made from the tables.
 */
import type { RunEvent, StepEvent } from "./event.ts";
import type { StateName } from "./graph/visit-state.ts";
import type { RunState } from "./run.ts";

type RunEventType = Extract<RunEvent["type"], `run.${string}`>;
type RunStatusName = RunState["status"];

/** The states that may follow the end of an attempt. */
const ENDED = {
  "step.completed": ["completed"],
  "step.failed": ["waiting for retry", "failed"],
} as const;
const AGAIN = ["waiting for slot", "waiting for owner"] as const;
const LOST = ["waiting for retry", "failed"] as const;

/** The states that each event may lead a visit to. */
export const VISIT_TRANSITIONS: Readonly<
  Record<StateName, Partial<Readonly<Record<StepEvent["type"], readonly StateName[]>>>>
> = {
  "waiting for start": {
    "step.started": ["running", "waiting for time"],
    "step.skipped": ["skipped"],
  },
  "waiting for slot": {
    "step.started": ["running", "waiting for close"],
    "step.skipped": ["skipped"],
  },
  "waiting for retry": {
    "step.started": ["running", "waiting for close"],
    "step.skipped": ["skipped"],
  },
  running: {
    ...ENDED,
    "step.lost": LOST,
    "step.paused": LOST,
    "step.session": ["running"],
    "step.adopted": ["running"],
    "step.based": ["running"],
    "step.recalled": ["running"],
    "step.saved": ["running"],
    "step.continued": AGAIN,
    "step.relayed": AGAIN,
    "step.submitted": AGAIN,
    "step.conflicted": ["waiting for owner"],
    "step.interrupted": AGAIN,
    "step.uncertain": ["waiting for probe", "failed"],
    "step.asked": ["waiting for person"],
  },
  "waiting for owner": { "step.skipped": ["skipped"] },
  "waiting for probe": {
    ...ENDED,
    "step.probed": ["waiting for probe", "failed"],
    "step.settled": ["waiting for probe"],
    "step.lost": LOST,
    "step.interrupted": AGAIN,
    "step.skipped": ["skipped"],
  },
  "waiting for person": {
    ...ENDED,
    "step.skipped": ["skipped"],
    "step.answered": ["waiting for person"],
    "step.continued": AGAIN,
  },
  "waiting for time": {
    "step.completed": ["completed"],
    "step.failed": ["failed"],
    "step.skipped": ["skipped"],
  },
  "waiting for close": { ...ENDED, "step.iterated": ["running", "waiting for close"] },
  completed: {},
  failed: {
    "step.granted": ["waiting for start", "waiting for slot"],
    "step.settled": ["waiting for probe"],
    "step.skipped": ["skipped"],
  },
  skipped: {},
  abandoned: {},
};

/** The states that each event may lead a run to. */
export const RUN_TRANSITIONS: Readonly<
  Record<RunStatusName, Partial<Readonly<Record<RunEventType, readonly RunStatusName[]>>>>
> = {
  created: {
    "run.created": ["created"],
    "run.opened": ["running"],
    "run.moved": ["created"],
    "run.messaged": ["created"],
    "run.skipping": ["created"],
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
    "run.committed": ["running"],
    "run.forked": ["stopped"],
    "run.skipping": ["running"],
    "run.finishing": ["running"],
    "run.stopped": ["stopped"],
    "run.completed": ["completed"],
    "run.failed": ["failed"],
  },
  stopping: {
    "run.opened": ["running"],
    "run.moved": ["stopping"],
    "run.messaged": ["stopping"],
    "run.skipping": ["stopping"],
    "run.placed": ["stopping"],
    "run.restored": ["stopping"],
    "run.committed": ["stopping"],
    "run.forked": ["stopped"],
    "run.stopping": ["stopping"],
    "run.stopped": ["stopped"],
    "run.returned": ["stopping"],
    "run.restarted": ["stopping"],
    "run.finishing": ["running"],
    "run.completed": ["completed"],
    "run.failed": ["failed"],
  },
  // A person may settle a step while nothing drives the run, and the step may restart the run.
  stopped: {
    "run.opened": ["running"],
    "run.moved": ["stopped"],
    "run.messaged": ["stopped"],
    "run.skipping": ["stopped"],
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
    "run.skipping": ["failed"],
    "run.restarted": ["failed"],
  },
};

/** Of running visits only composite ones: these events end no process. */
const UNFINISHED = [
  "running",
  "waiting for start",
  "waiting for slot",
  "waiting for retry",
  "waiting for owner",
  "waiting for probe",
  "waiting for person",
  "waiting for time",
  "waiting for close",
  "failed",
] as const;

/** Visits that change state without an event of their own, with an event of the run. */
export const SIDE_TRANSITIONS: readonly {
  readonly events: readonly RunEvent["type"][];
  readonly from: readonly StateName[];
  readonly to: StateName;
  readonly why: string;
}[] = [
  {
    events: ["run.opened"],
    from: ["waiting for owner"],
    to: "waiting for slot",
    why: "a new owner continues interrupted work",
  },
  {
    events: ["run.opened"],
    from: ["failed"],
    to: "waiting for probe",
    why: "whether its effect happened is unknown, and a new owner asks its probe again",
  },
  {
    events: ["run.forked"],
    from: ["running"],
    to: "waiting for slot",
    why: "its process belongs to the other run",
  },
  {
    events: ["run.forked"],
    from: ["waiting for person"],
    to: "waiting for start",
    why: "the question is asked again in the fork, whatever is answered in the other run",
  },
  {
    events: ["run.rewound"],
    from: UNFINISHED,
    to: "abandoned",
    why: "the person continues from a step before it",
  },
  {
    events: ["run.rewound"],
    from: UNFINISHED,
    to: "completed",
    why: "the person continues from a step after it, and declared it done",
  },
  {
    events: ["run.rewound"],
    from: ["waiting for close", "waiting for retry", "failed", "completed"],
    to: "running",
    why: "an item of it runs again",
  },
  {
    events: ["run.restarted"],
    from: ["waiting for start", "waiting for slot", "failed"],
    to: "abandoned",
    why: "its scope restarts",
  },
  {
    events: ["run.updated"],
    from: UNFINISHED,
    to: "abandoned",
    why: "the edit changed it, changed a step before it, or removed it",
  },
  {
    events: [
      ...(["step.completed", "step.failed", "step.lost", "step.paused", "step.skipped"] as const),
      ...(["step.uncertain", "step.probed", "scope.merged"] as const),
    ],
    from: ["running"],
    to: "waiting for close",
    why: "its last instance has ended",
  },
  {
    events: ["step.failed"],
    from: UNFINISHED,
    to: "abandoned",
    why: "the composite visit around it failed at its start, or was watched and failed",
  },
  {
    events: ["step.completed"],
    from: UNFINISHED,
    to: "abandoned",
    why: "the composite visit around it has its result, and needs no more",
  },
  {
    events: ["step.granted", "step.settled", "step.skipped", "run.opened", "run.returned"],
    from: ["waiting for close", "waiting for retry", "failed", "completed"],
    to: "running",
    why: "a step inside it runs again",
  },
  {
    events: ["step.skipped"],
    from: ["waiting for retry", "failed"],
    to: "waiting for close",
    why: "a person skipped the last failed step inside it",
  },
];

/** True when a visit in this state allows an event of this type. */
export function visitAllows(state: StateName, type: StepEvent["type"]): boolean {
  return VISIT_TRANSITIONS[state][type] !== undefined;
}

/** True when a run in this state allows an event of this type; events of steps are always allowed. */
export function runAllows(status: RunStatusName, type: RunEvent["type"]): boolean {
  return !type.startsWith("run.") || RUN_TRANSITIONS[status][type as RunEventType] !== undefined;
}
