/**
 * The addresses that change a run. A run with a living owner gets a request, which its owner handles;
 * a run that nobody drives is continued in the background.
 */
import { verdict } from "../core/event-parts.ts";
import { boolean, integer, json, listOf, number, oneOf, optional, text } from "../core/shape.ts";
import { done } from "../view/json/dashboard-documents.ts";
import { document, post } from "./endpoint.ts";

const sent = document(done);
const files = optional(oneOf("keep", "restore"));
const dryRun = { dry_run: optional(boolean) };
/** The person agrees that effects which must happen once happen again. */
const agreed = { agreed: optional(boolean) };

export const ACTION_ENDPOINTS = {
  start: post("/api/runs", "Starts a run in the background.", sent, {
    project: text,
    pipeline: text,
    input: optional(json),
    /** `5usd`, `2M tokens`, `1h`. */
    budget: optional(text),
    /** Starts beside other runs with agents in the same directory. */
    beside: optional(boolean),
  }),
  resume: post("/api/runs/:run/resume", "Continues a run in the background.", sent, {
    budget: optional(text),
    recover: optional(oneOf("continue", "restart")),
    files,
    turns: optional(integer),
    beside: optional(boolean),
    ...dryRun,
  }),
  retry: post("/api/runs/:run/retry", "Runs a step again, and every step after it.", sent, {
    step: text,
    /** Of a fan-out: the positions of its items. */
    items: optional(listOf(integer)),
    /** Of a fan-out: only the items that failed. */
    failed: optional(boolean),
    files,
    turns: optional(integer),
    ...agreed,
    ...dryRun,
  }),
  stop: post("/api/runs/:run/stop", "Stops a run.", sent, {
    mode: oneOf("now", "after-turn", "after-step"),
  }),
  answer: post("/api/runs/:run/answer", "Answers a question.", sent, {
    /** The gate: a step or a visit, or exactly this attempt. */
    step: optional(text),
    attempt: optional(text),
    choice: optional(text),
    text: optional(text),
  }),
  settle: post(
    "/api/runs/:run/settle",
    "Says what happened to an effect that must happen once.",
    sent,
    { step: text, as: verdict, identity: optional(text) },
  ),
  skip: post("/api/runs/:run/skip", "Skips a step.", sent, { step: text }),
  rewind: post(
    "/api/runs/:run/rewind",
    "Rewinds a run to the start of a step or a visit, or its files to a snapshot.",
    sent,
    { to: text, files, ...agreed, ...dryRun },
  ),
  fork: post(
    "/api/runs/:run/fork",
    "Makes a new run that shares the past of this one up to a step.",
    sent,
    {
      at: optional(text),
      input: optional(json),
      files,
      /** Starts the new run in the background. */
      start: optional(boolean),
      ...dryRun,
    },
  ),
  budget: post("/api/runs/:run/budget", "Adds to the budget of a run.", sent, {
    usd: optional(number),
    tokens: optional(integer),
    turns: optional(integer),
    /** Milliseconds, or a text such as `30m`. */
    time: optional(json),
  }),
  message: post("/api/runs/:run/message", "Leaves a message for the agent of a step.", sent, {
    step: text,
    text,
  }),
};
