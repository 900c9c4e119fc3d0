/**
 * The table of step keys. Schema, types, validation, lowering, fingerprint and docs/REFERENCE.md
 * follow from it, so a new key is a new row here and the code that uses its field.
 *
 * Owns: every key of a step, apart from the settings of its agent (agent-keys.ts).
 * Does not: lower the work (lower.ts) or the edges of a step (step-list.ts).
 * Invariants:
 * - keys/K1 A key that is not in the table does not exist: the schema is made from the table.
 */

import * as z from "zod";
import { type FieldsOf, key, STEP_KINDS } from "./key-row.ts";
import {
  type Capture,
  type Check,
  cache,
  capture,
  check,
  edge,
  gate,
  loop,
  lowerCache,
  lowerOnce,
  lowerRetry,
  NEEDS_MAX,
  once,
  type RetrySettings,
  retry,
  wait,
} from "./key-values.ts";
import { bareCondition } from "./rules/expression.ts";
import { ISOLATE, RUNS_IN } from "./sandbox.ts";
import {
  BRIEFING_MODES,
  bounded,
  command,
  duration,
  env,
  FIDELITIES,
  id,
  lowerEnv,
  milliseconds,
  name,
  path,
  visits,
} from "./values.ts";

export const PARALLEL_MAX = 1_000;

const PROCESS = ["command", "agent"] as const;
const WORKING = ["command", "agent", "group"] as const;
/** The kinds of steps that lead to others. */
const LEADING = [...WORKING, "gate", "wait", "pass"] as const;
const REPEATED = ["command", "agent", "group", "gate", "wait"] as const;

/** The identity and the work of a step. */
const WORK = {
  id: key({
    schema: id,
    doc: "The name of the step: letters, digits, _ and -. Results and logs use it.",
    example: "id: build",
    on: STEP_KINDS,
    fingerprint: true,
  }),
  run: key({
    schema: command,
    doc: "A shell command (POSIX sh); may hold ${{ }}.",
    example: "run: npm test",
    on: ["command"],
    fingerprint: true,
  }),
  agent: key({
    schema: z.string(),
    doc: "The agent: claude, codex, gemini, opencode, or a name under `agents`.",
    example: "agent: claude",
    on: ["agent"],
    fingerprint: true,
  }),
  prompt: key({
    schema: command,
    doc: "What the agent is asked to do; may hold ${{ }}.",
    example: "prompt: Make the tests pass.",
    on: ["agent"],
    fingerprint: true,
  }),
  prompt_file: key({
    schema: path,
    doc: "A file with the prompt, relative to the pipeline's file; read when a run starts.",
    example: "prompt_file: prompts/review.md",
    on: ["agent"],
    fingerprint: true,
  }),
  session: key({
    schema: id,
    doc: "Steps that name the same session share one conversation, one after the other.",
    example: "session: main",
    on: ["agent"],
    fingerprint: true,
  }),
  gate: key({
    schema: gate,
    doc: "A question to a person; the steps after it wait for the answer.",
    example: "gate: Ship it?",
    on: ["gate"],
    expects: "a question or an object",
    fingerprint: true,
  }),
  wait: key({
    schema: wait,
    doc: "Waits: 10m, {for: 10m} or {until: 2026-12-01T08:00:00Z}.",
    example: "wait: 10m",
    on: ["wait"],
    expects: "a duration, {for: 10m} or {until: 2026-12-01T08:00:00Z}",
    fingerprint: true,
  }),
  pass: key({
    schema: z.literal(true),
    doc: "Runs nothing: a point where edges meet and part.",
    example: "pass: true",
    on: ["pass"],
    fingerprint: true,
  }),
  fail: key({
    schema: command,
    doc: "Fails the run with this message; may hold ${{ }}. Use it with `when`, or lead an edge to it.",
    example: "fail: The review rejected the change.",
    on: ["fail"],
    fingerprint: true,
  }),
  pipeline: key({
    schema: path,
    doc:
      "Another pipeline's file, relative to this one; read when a run starts. With ${{ }}: one of " +
      "`pipelines`, chosen when the step starts.",
    example: "pipeline: release.yaml",
    on: ["group"],
    fingerprint: true,
  }),
  pipelines: key({
    schema: z.union([path, z.array(path).min(1).max(NEEDS_MAX)]),
    doc: "The files that a `pipeline` with ${{ }} may choose from: paths, or patterns with *.",
    example: "pipelines: audits/*.yaml",
    on: ["group"],
    expects: "a path or a list of paths",
    fingerprint: true,
  }),
  input: key({
    schema: z.record(name, z.unknown()),
    doc: "The input of `pipeline` or `steps`; texts may hold ${{ }}.",
    example: "input: {version: 1.2.0}",
    on: ["group"],
    fingerprint: true,
  }),
  loop: key({
    schema: loop,
    doc: "Repeats `steps` until a condition holds; `index` counts from 0.",
    example: "loop: {until: results.test.exit == 0, max_iterations: 5}",
    on: ["group"],
    fingerprint: true,
  }),
  iterations: key({
    schema: visits,
    doc: "Repeats `steps` this many times; `index` counts from 0.",
    example: "iterations: 3",
    on: ["group"],
    fingerprint: true,
  }),
};

/** How a fan-out treats its items; these keys may also be inside `for_each`. */
export const FAN_OUT_KEYS = {
  as: key({
    schema: name,
    doc: "A name for the item in expressions, in addition to `item`.",
    example: "as: file",
    on: REPEATED,
    fingerprint: true,
  }),
  max_parallel: key({
    schema: z.int().min(1).max(PARALLEL_MAX),
    doc: "How many items may run at the same time. Default: `max_parallel` of the pipeline.",
    example: "max_parallel: 8",
    on: REPEATED,
    fingerprint: false,
  }),
  on_item_failure: key({
    schema: z.enum(["fail", "continue"]),
    doc: "After a failed item: start no others and fail (the default), or run all the others.",
    example: "on_item_failure: continue",
    on: REPEATED,
    fingerprint: true,
  }),
};

/** When a step starts, and its edges. */
const EDGES = {
  needs: key({
    schema: z.union([z.string(), z.array(z.string()).max(NEEDS_MAX)]),
    doc: "Steps that must finish first. Default: the step above; [] starts at once.",
    example: "needs: [build, lint]",
    on: STEP_KINDS,
    expects: "an id or a list of ids",
    fingerprint: true,
  }),
  join: key({
    schema: z.enum(["all", "any"]),
    doc: "all: starts when all its `needs` have finished (the default); any: whenever one has.",
    example: "join: any",
    on: STEP_KINDS,
    fingerprint: true,
    lower: (join): { join?: "any" } => (join === "any" ? { join } : {}),
  }),
  when: key({
    schema: z.union([z.string(), z.boolean()]),
    doc: "An expression; when it is false, the step is skipped.",
    example: "when: context.risk == 'high'",
    on: STEP_KINDS,
    expects: "an expression",
    fingerprint: true,
    lower: (when) => ({ when: bareCondition(String(when)).source }),
  }),
  on_failure: key({
    schema: z.string(),
    doc: "After the last failed attempt: a step to go to, `continue`, or `fail` (the default).",
    example: "on_failure: rollback",
    on: LEADING,
    fingerprint: true,
  }),
  goto: key({
    schema: z.string(),
    doc: "The next step, instead of the one below.",
    example: "goto: test",
    on: LEADING,
    fingerprint: true,
  }),
  edges: key({
    schema: z.array(edge).min(1).max(NEEDS_MAX),
    doc:
      "Which step is next: of the edges whose `when` is true, the one with the highest weight; if " +
      "there is none, the edge whose label the step reports.",
    example: "edges: [{to: fix, when: results.test.exit != 0}, {to: ship}]",
    on: LEADING,
    fingerprint: true,
  }),
  stall_after: key({
    schema: visits.min(2),
    doc: "This many equal failures in a row stop the loop that the step is in. Default: 3.",
    example: "stall_after: 5",
    on: LEADING,
    fingerprint: false,
    lower: (stallAfter) => ({ stallAfter }),
  }),
  goal: key({
    schema: z.union([z.boolean(), z.literal("visited")]),
    doc: "true: the run succeeds only if this step completes; visited: only if the run visits it.",
    example: "goal: true",
    on: LEADING,
    expects: "true, false or visited",
    fingerprint: false,
    lower: (goal): { goal?: "always" | "visited" } =>
      goal === false ? {} : { goal: goal === true ? "always" : goal },
  }),
  retry_target: key({
    schema: z.string(),
    doc: "For a `goal`: the step to return to while the goal is not reached.",
    example: "retry_target: implement",
    on: LEADING,
    fingerprint: false,
    lower: (retryTarget) => ({ retryTarget }),
  }),
};

/** How the work of one step runs and is checked. */
const SETTINGS = {
  workspace: key({
    schema: z.enum(["own", "shared"]),
    doc: "own: the step works in a directory of its own, which is merged back when it completes.",
    example: "workspace: own",
    on: WORKING,
    fingerprint: false,
    lower: (workspace): { own?: true } => (workspace === "own" ? { own: true } : {}),
  }),
  check: key({
    schema: check,
    doc:
      "Checks the work after it exited with 0: a command, {file, schema}, " +
      "{judge}, or a list of them.",
    example: "check: npm test",
    on: PROCESS,
    expects: "a command, an object or a list of them",
    fingerprint: true,
    lower: (_, { checks }): { check: readonly Check[] } => ({ check: checks() }),
  }),
  outputs: key({
    schema: bounded(z.record(id, path)),
    doc: "Files of the step that later steps can use: name -> path, relative to its directory.",
    example: "outputs: {app: dist/app.js}",
    on: PROCESS,
    fingerprint: true,
    lower: (outputs): { outputs: Readonly<Record<string, string>> } => ({ outputs }),
  }),
  capture: key({
    schema: capture,
    doc:
      "Puts what the step prints to stdout, or what its agent answers, into the context: as text, " +
      "lines, json or number, under the step's id or the key `to`.",
    example: "capture: {as: json, to: report}",
    on: PROCESS,
    expects: "text, lines, json, number or an object",
    fingerprint: true,
    lower: (value, at): { capture: Capture } => ({
      capture: typeof value === "string" ? { as: value, to: at.id } : value,
    }),
  }),
  once: key({
    schema: once,
    doc: "For an effect that must never happen twice: true, or an object with `probe`, `not_done`.",
    example: "once: {probe: ./was-published.sh}",
    on: PROCESS,
    expects: "true, false or an object",
    fingerprint: false,
    lower: lowerOnce,
  }),
  cache: key({
    schema: cache,
    doc: "Reuses the result of an earlier run with the same work and files: true, or an object.",
    example: "cache: {files: [src/**], max_age: 7d}",
    on: PROCESS,
    expects: "true, false or an object",
    fingerprint: false,
    lower: lowerCache,
  }),
  leaves_running: key({
    schema: z.boolean(),
    doc: "true: background processes of the step keep running until the run ends or stops.",
    example: "leaves_running: true",
    on: PROCESS,
    fingerprint: true,
    lower: (leaves): { leavesRunning?: true } => (leaves ? { leavesRunning: true } : {}),
  }),
};

/** Settings that `defaults` may have, too: they apply to every step that does not set them. */
export const INHERITED_KEYS = {
  env: key({
    schema: env,
    doc: "Environment variables of the step; values may hold ${{ }}.",
    example: "env: {NODE_ENV: test}",
    on: WORKING,
    perItem: true,
    fingerprint: true,
    lower: (variables, { spelling }): { env: Readonly<Record<string, string>> } => ({
      env: lowerEnv(variables, (one) => spelling("env", one)),
    }),
  }),
  cwd: key({
    schema: path,
    doc: "The directory to work in, relative to the workspace; may hold ${{ }}.",
    example: "cwd: packages/app",
    on: PROCESS,
    fingerprint: true,
    lower: (cwd) => ({ cwd }),
  }),
  timeout: key({
    schema: duration,
    doc: "The longest time that one attempt may take.",
    example: "timeout: 10m",
    on: PROCESS,
    fingerprint: false,
    lower: (timeout) => ({ timeoutMs: milliseconds(timeout) }),
  }),
  idle_timeout: key({
    schema: duration,
    doc: "The longest time that an attempt may go without any output.",
    example: "idle_timeout: 5m",
    on: PROCESS,
    fingerprint: false,
    lower: (timeout) => ({ idleTimeoutMs: milliseconds(timeout) }),
  }),
  grace: key({
    schema: duration,
    doc:
      "When the run is stopped: how long an agent may finish its current call and tool, and how " +
      "long a command has to end after SIGTERM. Default: 10s.",
    example: "grace: 30s",
    on: PROCESS,
    fingerprint: false,
    lower: (grace) => ({ graceMs: milliseconds(grace) }),
  }),
  retry: key({
    schema: retry,
    doc: "The total number of attempts, or an object with the whole rule.",
    example: "retry: {attempts: 3, backoff: 5s}",
    on: WORKING,
    perItem: true,
    expects: "a number of attempts or an object",
    fingerprint: false,
    lower: (value): { retry: RetrySettings } => ({ retry: lowerRetry(value) }),
  }),
  max_visits: key({
    schema: visits,
    doc: "How many times a run may visit the step. Default: 10 in a loop.",
    example: "max_visits: 20",
    on: STEP_KINDS,
    fingerprint: false,
    lower: (maxVisits) => ({ maxVisits }),
  }),
  isolate: ISOLATE,
  runs_in: RUNS_IN,
  recover: key({
    schema: z.enum(["continue", "restart"]),
    doc: "After an interruption: the agent's conversation continues, or a new one starts.",
    example: "recover: restart",
    on: PROCESS,
    fingerprint: false,
    lower: (recover) => ({ recover }),
  }),
  fidelity: key({
    schema: z.enum(FIDELITIES),
    doc: "How much the agent learns about the steps before it. Default: nothing.",
    example: "fidelity: summary:high",
    on: ["agent"],
    fingerprint: true,
    lower: (fidelity) => ({ fidelity }),
  }),
  thread: key({
    schema: id,
    doc: "For `fidelity: full`: the conversation to continue. Default: that of the step before.",
    example: "thread: main",
    on: ["agent"],
    fingerprint: true,
    lower: (thread) => ({ thread }),
  }),
  resume_fidelity: key({
    schema: z.enum(BRIEFING_MODES),
    doc: "What the agent learns after its conversation was lost. Default: compact.",
    example: "resume_fidelity: summary:low",
    on: ["agent"],
    fingerprint: false,
    lower: (resumeFidelity) => ({ resumeFidelity }),
  }),
};

/** The table; key-row.ts defines the rows. Steps that contain steps have two more (schema.ts). */
export const STEP_KEYS = { ...WORK, ...FAN_OUT_KEYS, ...EDGES, ...SETTINGS, ...INHERITED_KEYS };

/** The fields of a plan's step that its keys set, without its work and its edges. */
export type StepFields = FieldsOf<typeof STEP_KEYS>;
