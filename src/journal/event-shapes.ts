/**
 * The shapes of what several events have in common, for event-codec.ts.
 *
 * Owns: the check of each such part, field by field.
 * Does not: know which event has which part.
 */
import type {
  Answer,
  CheckEvidence,
  Conversation,
  Deadline,
  Held,
  KeptExit,
  KnownEffect,
  LastTool,
  LeftRunning,
  Message,
  Origin,
  Owner,
  Placed,
  Question,
  RememberedEnvironment,
  Saved,
  Spent,
  Telling,
  Thread,
  Told,
  UsedBefore,
} from "../core/event.ts";
import type { SecretMarks } from "../util/secret-mark.ts";
import {
  boolean,
  type Fields,
  integer,
  json,
  listOf,
  mapOf,
  number,
  oneOf,
  optional,
  record,
  text,
} from "./field-check.ts";

export const owner = record({
  pid: integer,
  started: text,
  boot: text,
  namespace: optional(text),
  machine: optional(text),
  host: text,
  user: text,
  unsignalled: optional(boolean),
  opens: optional(text),
} satisfies Fields<Owner>);
export const place = { scope: text, step: text, visit: integer };
export const attempt = { ...place, attempt: integer };
export const retry = optional(record({ at: number, delayMs: number }));
export const arrows = listOf(integer);
export const output = record({
  path: text,
  sha256: text,
  bytes: integer,
  executable: optional(boolean),
});
export const savedOnce = record({
  commit: text,
  skipped: optional(listOf(record({ path: text, bytes: number, why: text }))),
  tookMs: optional(number),
} satisfies Fields<Saved>);
export const saved = optional(savedOnce);
export const placed = record({
  kind: oneOf("here", "worktree", "directory", "copy"),
  path: text,
  branch: optional(text),
  base: optional(text),
} satisfies Fields<Placed>);
export const origin = record({ run: text, seq: integer } satisfies Fields<Origin>);
export const knownEffect = record({
  name: text,
  place: text,
  run: optional(text),
  done: optional(boolean),
} satisfies Fields<KnownEffect>);
export const recover = oneOf("continue", "restart");
/** When a run is to stop. */
export const stopMode = oneOf("now", "after-turn", "after-step");
export const stopReason = record({
  code: oneOf("requested", "budget", "conflict", "forked"),
  by: optional(text),
  limit: optional(
    record({
      kind: oneOf("usd", "tokens", "turns", "time", "price"),
      used: optional(number),
      of: optional(number),
      model: optional(text),
    }),
  ),
  paths: optional(listOf(text)),
});
export const lastTool = optional(
  record({ name: text, input: text, ok: optional(boolean) } satisfies Fields<LastTool>),
);
export const finding = record({
  kind: text,
  subject: text,
  exit: integer,
  outputPath: optional(text),
  outputSha256: optional(text),
  agent: optional(text),
  message: optional(text),
  output: optional(text),
  onFail: optional(oneOf("warn", "fail")),
} satisfies Fields<CheckEvidence>);
export const findings = {
  check: optional(finding),
  checks: optional(listOf(finding)),
};

export const tokens = { inputTokens: number, cachedTokens: number, outputTokens: number };
export const spent = optional(
  record({
    ...tokens,
    turns: integer,
    costUsd: optional(number),
    estimated: optional(boolean),
    unmeasured: optional(boolean),
    unpriced: optional(text),
    model: optional(text),
    session: optional(text),
  } satisfies Fields<Spent>),
);
export const left = optional(
  listOf(
    record({
      pid: integer,
      command: text,
      survived: optional(boolean),
    } satisfies Fields<LeftRunning>),
  ),
);
/** What every event that ends an attempt may have. */
export const trace = { snapshot: saved, spent, left, denied: optional(listOf(text)) };
export const conversation = optional(
  record({
    session: optional(text),
    kind: oneOf("start", "continue"),
    says: oneOf("task", "relayed", "interrupted", "relay", "correct", "failed", "permitted"),
    gone: optional(boolean),
    why: text,
    used: optional(
      record({
        ...tokens,
        turns: integer,
        long: optional(record(tokens)),
      } satisfies Fields<UsedBefore>),
    ),
  } satisfies Fields<Conversation>),
);

/** The shape of a message. */
export const message = record({
  id: text,
  text,
  by: text,
  given: number,
} satisfies Fields<Message>);

export const deadline = optional(
  record({ at: number, delayMs: optional(number) } satisfies Fields<Deadline>),
);
export const choice = record({
  key: text,
  label: text,
  fails: optional(boolean),
  next: optional(text),
} satisfies Fields<Question["choices"][number]>);
/** The fields of an answer. */
export const answer = {
  choice: optional(text),
  text: optional(text),
  by: text,
  from: oneOf("terminal", "command", "program", "dashboard", "timeout", "auto-approve"),
  given: number,
} satisfies Fields<Answer>;
export const told = optional(
  record({
    outcome: optional(text),
    label: optional(text),
    next: optional(listOf(text)),
    notes: optional(text),
  } satisfies Fields<Told>),
);
export const held = {
  exit: integer,
  outputs: mapOf(output),
  context: mapOf(json),
  answer: optional(json),
  output: optional(text),
  ...findings,
  told,
} satisfies Fields<Held>;
export const keptExit = record({
  ...held,
  problem: optional(record({ reason: text, message: text, trouble: optional(text) })),
  said: optional(text),
  signature: optional(text),
  left,
} satisfies Fields<KeptExit>);
export const telling = optional(
  record({
    mode: oneOf("full", "truncate", "compact", "summary:low", "summary:medium", "summary:high"),
    by: oneOf("edge", "step", "pipeline", "resume"),
    why: text,
    thread: optional(
      record({
        name: text,
        by: oneOf("step", "edge", "pipeline", "group", "previous"),
      } satisfies Fields<Thread>),
    ),
    preamble: optional(text),
  } satisfies Fields<Telling>),
);

export const environment = {
  variables: optional(mapOf(text)),
  secrets: optional(
    record({ salt: text, marks: mapOf(listOf(text)) } satisfies Fields<SecretMarks>),
  ),
} satisfies Fields<RememberedEnvironment>;
