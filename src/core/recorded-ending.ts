/**
 * From the event that ended an attempt back to the endings that may have led to it.
 *
 * Owns: this way back, for every reason of a failure.
 * Does not: know the other facts (recorded-fact.ts).
 */
import { unreachable } from "../util/assert.ts";
import { findingsIn } from "./check.ts";
import type { AttemptEnd, FailureReason, StepFailed } from "./event.ts";
import type { Ending } from "./fact.ts";
import { stepOf, type Visit } from "./run.ts";

/** How the attempt may have ended (G1). */
export function endingsOf(event: AttemptEnd, visit: Visit): readonly Ending[] {
  const paid: Paid = {
    ...(event.spent === undefined ? {} : { spent: event.spent }),
    ...(event.snapshot === undefined ? {} : { snapshot: event.snapshot }),
    ...(event.left === undefined ? {} : { left: event.left }),
    ...(event.denied === undefined ? {} : { denied: event.denied }),
  };
  switch (event.type) {
    case "step.conflicted": {
      const { paths, message, base, held } = event;
      return [{ how: "conflicted", paths, message, base, held, ...paid }];
    }
    case "step.completed": {
      const { exit, outputs, context, answer, output, told } = event;
      const known = {
        ...(answer === undefined ? {} : { answer }),
        ...(output === undefined ? {} : { output }),
        ...findingsIn(event),
        ...(told === undefined ? {} : { told }),
      };
      return [{ how: "exited", exit, outputs, context, ...known, ...paid }];
    }
    case "step.failed":
      return FAILURES[event.reason](event, paid);
    case "step.lost": {
      const { message, tool } = event;
      const lost = {
        how: "lost",
        message,
        ...(tool === undefined ? {} : { tool }),
        ...paid,
      } as const;
      // Of a step that must not happen twice only what never ran is lost; of others nobody knows.
      return stepOf(visit).once
        ? [{ ...lost, started: false }]
        : [
            { ...lost, started: true },
            { ...lost, started: false },
          ];
    }
    case "step.paused": {
      const { reason, message, retry } = event;
      const paused = { how: "paused", reason, message, ...paid } as const;
      return retry === undefined ? [paused] : [paused, { ...paused, retryAfterMs: retry.delayMs }];
    }
    case "step.interrupted": {
      const { message, tool } = event;
      return [{ how: "stopped", message, ...(tool === undefined ? {} : { tool }), ...paid }];
    }
    case "step.continued":
      return [{ how: "asked", ask: event.ask, ...paid }];
    case "step.submitted": {
      const { held, message } = event;
      if (message === undefined) return [{ how: "exited", ...held, ...paid }];
      return [{ how: "asked", ask: { kind: "correct", why: message }, ...paid }];
    }
    case "step.relayed":
      return [{ how: "relayed", checkpoint: event.checkpoint, ...paid }];
    default:
      return unreachable(event);
  }
}

type Paid = Pick<Ending, "spent" | "snapshot" | "left" | "denied">;
type EndingsOf = (event: StepFailed, paid: Paid) => readonly Ending[];

/** It exited; what is wrong with what it left is in the event. */
const exited: EndingsOf = (event, paid) => {
  const { reason, message, exit = 0, told, context = {}, signature, output } = event;
  const known = {
    ...(output === undefined ? {} : { output }),
    ...findingsIn(event),
    ...(told === undefined ? {} : { told }),
    ...(signature === undefined ? {} : { signature }),
  };
  const base = { how: "exited", exit, outputs: {}, context, ...known, ...paid } as const;
  switch (reason) {
    case "output":
    case "context":
    case "check":
    case "agent":
    case "status":
      return [{ ...base, problem: { reason, message } }];
    default:
      return [base];
  }
};

const limited: EndingsOf = ({ reason, message }, paid) =>
  reason === "timeout" || reason === "idle" || reason === "output-limit"
    ? [{ how: "timed-out", limit: reason, message, ...paid }]
    : [];

/** An agent was stopped at its limit; or a loop got nowhere, whatever the failure was. */
const stalled: EndingsOf = (event, paid) => {
  if (event.signature === undefined) return reined(event, paid);
  const message = event.message.replace(STALL_WORDS, "");
  return [
    ...exited({ ...event, reason: "check", message }, paid),
    ...notStarted({ ...event, reason: "expression", message }, paid),
    ...reined(event, paid),
    ...exited({ ...event, reason: "exit", message }, paid),
  ];
};

/** However it ended, an arrow led to a new beginning that must not be. */
const refused: EndingsOf = (event, paid) => [
  ...exited({ ...event, reason: "exit" }, paid),
  ...exited({ ...event, reason: "check" }, paid),
  ...notStarted({ ...event, reason: "expression" }, paid),
  ...limited({ ...event, reason: "timeout" }, paid),
];

const reined: EndingsOf = ({ reason, message }, paid) =>
  reason === "stall" || reason === "turns" ? [{ how: "reined", reason, message, ...paid }] : [];

const notStarted: EndingsOf = ({ reason, message }) =>
  reason === "spawn" || reason === "expression" ? [{ how: "not-started", reason, message }] : [];

const asked: EndingsOf = ({ message }, paid) => [
  { how: "asked", ask: { kind: "correct", why: message }, ...paid },
];

/** The agent did not hand over when it was asked, or the visit was handed over too often. */
const relayed: EndingsOf = ({ message }, paid) => [
  { how: "asked", ask: { kind: "relay", why: message }, ...paid },
  { how: "relayed", checkpoint: { path: "", sha256: "", bytes: 0 }, ...paid },
];

const vanished: EndingsOf = ({ message }, paid) => [
  { how: "lost", started: true, message, ...paid },
];

/** How the end of a loop that got nowhere begins to be told. */
const STALL_WORDS = /^the same failure came \d+ times in a row: /;

/** No ending of an attempt leads to a failure of this kind. */
const none: EndingsOf = () => [];

const FAILURES: Readonly<Record<FailureReason, EndingsOf>> = {
  exit: exited,
  told: exited,
  retry: exited,
  "no-arrow": exited,
  status: exited,
  restart: refused,
  pick: none,
  rejected: none,
  check: exited,
  output: exited,
  context: exited,
  agent: exited,
  timeout: limited,
  idle: limited,
  "output-limit": limited,
  spawn: notStarted,
  expression: notStarted,
  answer: asked,
  relay: relayed,
  stall: stalled,
  turns: reined,
  once: vanished,
  aborted: none,
  iterations: none,
  goal: none,
  items: none,
  visits: none,
  paused: none,
  lost: none,
};
