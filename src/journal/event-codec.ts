/**
 * Events as JSON text and back. What is read was perhaps written by another version or damaged, so
 * it is checked field by field before anything believes it.
 *
 * Owns: the shape of each event type, as a table.
 * Does not: use a schema library, since loading one costs more than a whole `perdure list`.
 * Invariants:
 * - D1 What `encode` writes, `decode` reads back equal.
 * - D2 An unknown type or a higher version is "newer", a wrong shape is "broken"; neither is
 *   skipped. A field that is not in the table is kept as it is.
 */
import {
  EVENT_VERSION,
  type Exposure,
  type Owner,
  type Recorded,
  type Rerun,
  type RunEvent,
} from "../core/event.ts";
import type { StoredEvent, UnsealedEvent } from "./chain.ts";
import {
  answer,
  arrows,
  attempt,
  choice,
  conversation,
  deadline,
  environment,
  findings,
  held,
  keptExit,
  knownEffect,
  lastTool,
  message,
  origin,
  output,
  owner,
  place,
  placed,
  recover,
  retry,
  saved,
  savedOnce,
  spent,
  stopMode,
  stopReason,
  telling,
  told,
  trace,
} from "./event-shapes.ts";
import {
  boolean,
  type Check,
  type Fields,
  integer,
  json,
  listOf,
  mapOf,
  number,
  oneOf,
  optional,
  parseObject,
  record,
  text,
} from "./field-check.ts";
import { JournalError, type Write } from "./journal.ts";

const SHAPES: { readonly [T in RunEvent["type"]]: Fields<Extract<RunEvent, { type: T }>> } = {
  "run.created": {
    pipeline: text,
    file: text,
    fileSha256: optional(text),
    fingerprint: text,
    input: json,
    args: listOf(text),
    cwd: text,
    project: optional(text),
    envNames: listOf(text),
    envMarks: optional(mapOf(text)),
    ...environment,
    logs: optional(text),
    from: optional(origin),
  },
  "run.opened": {
    owner,
    epoch: integer,
    recover: optional(recover),
    choices: optional(mapOf(recover)),
    files: optional(oneOf("keep")),
    ...environment,
  },
  "run.restoring": { commit: text, of: text },
  "run.forked": {
    from: origin,
    input: optional(json),
    restore: optional(text),
    effects: optional(listOf(knownEffect)),
  },
  "run.placed": { workspace: placed },
  "run.restored": { commit: text, aside: optional(text) },
  "run.stopping": { mode: stopMode, reason: stopReason },
  "run.stopped": { reason: stopReason },
  "run.completed": {},
  "run.failed": { message: text, from: optional(text) },
  "run.funded": {
    added: record({
      usd: optional(number),
      tokens: optional(number),
      turns: optional(number),
      timeMs: optional(number),
    }),
    lateCostUsd: optional(number),
  },
  "run.messaged": { scope: text, step: text, message },
  "run.rewound": {
    step: text,
    reopened: listOf(text),
    assumed: listOf(text),
    outputs: optional(mapOf(mapOf(output))),
    restore: optional(text),
    visit: optional(integer),
    items: optional(listOf(text)),
    repeat: optional(boolean),
  },
  "run.moved": {
    from: text,
    to: text,
    commit: optional(text),
    files: optional(oneOf("keep", "restore")),
  },
  "run.updated": {
    fingerprint: text,
    fileSha256: optional(text),
    envNames: listOf(text),
    input: optional(json),
    kept: listOf(text),
    rerun: listOf(
      record({
        step: text,
        because: oneOf("new", "definition", "input", "upstream"),
        names: listOf(text),
      } satisfies Fields<Rerun>),
    ),
    gone: listOf(text),
    restore: optional(text),
  },
  "step.started": {
    ...attempt,
    items: optional(listOf(json)),
    input: optional(mapOf(json)),
    conversation,
    messages: optional(listOf(text)),
    fidelity: telling,
    report: optional(text),
    base: optional(text),
    restore: optional(boolean),
    keep: optional(boolean),
    wake: deadline,
    judge: optional(text),
  },
  "step.asked": {
    ...attempt,
    question: text,
    choices: listOf(choice),
    text: oneOf("none", "optional", "required"),
    deadline,
    default: optional(text),
  },
  "step.answered": { ...attempt, ...answer, label: optional(text) },
  "step.based": { ...attempt, base: text, aside: optional(text) },
  "step.saved": { ...attempt, snapshot: record({ commit: text }) },
  "run.returned": { scope: text, step: text, goal: text },
  "scope.based": { scope: text, base: text },
  "scope.merged": { scope: text, snapshot: savedOnce, base: text },
  "scope.conflicted": { scope: text, paths: listOf(text), message: text, base: text },
  "run.restarted": { scope: text, step: text, number: integer, keep: listOf(text) },
  "step.iterated": { ...attempt, iteration: integer },
  "step.session": { ...attempt, session: text },
  "step.adopted": { ...attempt, found: oneOf("alive", "ended", "result") },
  "step.conflicted": {
    ...attempt,
    paths: listOf(text),
    message: text,
    base: text,
    held: record(held),
    ...trace,
  },
  "step.continued": {
    ...attempt,
    ask: record({
      kind: oneOf("message", "relay", "correct", "permission", "permitted"),
      why: text,
      calls: optional(listOf(text)),
      allow: optional(listOf(text)),
      refuse: optional(listOf(text)),
    }),
    ...trace,
  },
  "step.relayed": { ...attempt, checkpoint: output, why: optional(text), ...trace },
  "step.submitted": { ...attempt, held: record(held), message: optional(text), ...trace },
  "step.completed": {
    ...attempt,
    exit: integer,
    outputs: mapOf(output),
    context: mapOf(json),
    answer: optional(json),
    output: optional(text),
    identity: optional(text),
    settledBy: optional(text),
    told,
    exposes: optional(listOf(record({ secret: text, in: text } satisfies Fields<Exposure>))),
    ...findings,
    ...trace,
    arrows,
  },
  "step.failed": {
    ...attempt,
    reason: text,
    message: text,
    exit: optional(integer),
    told,
    answer: optional(json),
    output: optional(text),
    effect: optional(oneOf("done", "uncertain")),
    context: optional(mapOf(json)),
    ...findings,
    trouble: optional(text),
    conversation: optional(oneOf("continue")),
    ...trace,
    retry,
    signature: optional(text),
    handled: optional(boolean),
    arrows,
  },
  "step.lost": {
    ...attempt,
    message: text,
    retry,
    tool: lastTool,
    ...trace,
  },
  "step.paused": {
    ...attempt,
    reason: text,
    message: text,
    retry,
    ...trace,
  },
  "step.interrupted": {
    ...attempt,
    message: text,
    tool: lastTool,
    ...trace,
  },
  "step.unsettled": {
    ...attempt,
    cause: oneOf(
      "lost",
      "stopped",
      "timeout",
      "idle",
      "output-limit",
      "stall",
      "turns",
      "exit",
      "repeated",
      "identity",
    ),
    message: text,
    asks: oneOf("probe", "person"),
    tool: lastTool,
    snapshot: saved,
    exited: optional(keptExit),
    spent,
  },
  "step.probed": {
    ...attempt,
    answer: oneOf("done", "not-done", "unknown"),
    identity: optional(text),
    message: optional(text),
  },
  "step.settled": {
    ...attempt,
    as: oneOf("done", "redo", "abort"),
    by: text,
    identity: optional(text),
  },
  "step.skipped": { ...place, arrows },
  "step.granted": {
    ...place,
    attempts: integer,
    files: optional(oneOf("keep")),
    turns: optional(integer),
  },
};

const CHECKS = new Map<string, Check>(
  Object.entries(SHAPES).map(([type, fields]) => [type, record(fields)]),
);

/** An event as it is kept, without its checksum. */
export function encode(event: RunEvent, seq: number, time: number): UnsealedEvent {
  const { type, ...data } = event;
  return { seq, type, version: EVENT_VERSION, time, data: JSON.stringify(data) };
}

/** A recorded event as it was kept, without its checksum. */
export function encodeRecorded({ event, seq, time, version, facts }: Recorded): UnsealedEvent {
  const encoded = { ...encode(event, seq, time), version };
  return facts === undefined ? encoded : { ...encoded, facts };
}

/** The events of an append; the first one carries the turns behind them. */
export function encodeAll({ events, afterSeq, time, facts }: Write): readonly UnsealedEvent[] {
  return events.map((event, index) => {
    const encoded = encode(event, afterSeq + 1 + index, time);
    return index > 0 || facts === undefined ? encoded : { ...encoded, facts };
  });
}

/** The event that was kept. Throws "broken" or "newer", naming run, event and field. */
export function decode(runId: string, stored: UnsealedEvent): Recorded {
  const { seq, type, version, time, facts } = stored;
  const where = `Event ${seq} of run ${runId}`;
  const check = CHECKS.get(type);
  if (version > EVENT_VERSION || check === undefined) {
    const written = `"${type}" in version ${version}, and this program knows version`;
    const message = `${where} is ${written} ${EVENT_VERSION}: a newer perdure wrote it.`;
    throw new JournalError("newer", message);
  }
  const data = parseObject(stored.data, where);
  const fault = check(data);
  if (fault !== undefined) {
    throw new JournalError("broken", `${where} (${type}) is damaged: wrong value at ${fault}.`);
  }
  const event = { type, ...data } as unknown as RunEvent;
  return { seq, time, version, event, ...(facts === undefined ? {} : { facts }) };
}

/** Decodes a stretch of events. */
export function decodeAll(runId: string, stored: readonly StoredEvent[]): Recorded[] {
  return stored.map((event) => decode(runId, event));
}

/** The owner in a lease's row. Throws "broken". */
export function decodeOwner(runId: string, data: string): Owner {
  const value = parseObject(data, `The lease of run ${runId}`);
  const fault = owner(value);
  if (fault !== undefined) {
    throw new JournalError("broken", `The lease of run ${runId} is damaged at ${fault}.`);
  }
  return value as unknown as Owner;
}
