/**
 * What the `/pipelines` addresses of the attractor language send: runs, events, questions and
 * checkpoints in the words of that language. docs/HTTP.md lists the addresses.
 */
import {
  boolean,
  integer,
  json,
  listOf,
  mapOf,
  nullable,
  number,
  oneOf,
  optional,
  record,
  text,
  time,
} from "../../core/shape.ts";
import * as part from "./document-parts.ts";
import { document } from "./document-parts.ts";

export const submitted = document("A pipeline that was submitted and has started.", {
  id: text,
  status: part.runStatus,
});

export const pipelineStatus = document("How a pipeline stands.", {
  id: text,
  name: text,
  status: part.runStatus,
  /** `success` or `fail` once it has ended. */
  outcome: nullable(oneOf("success", "fail")),
  current_node: nullable(text),
  completed_nodes: listOf(text),
  nodes_total: integer,
  started_at: nullable(time),
  updated_at: time,
  error: nullable(text),
});

export const pipelineEvent = document("Something that happened in a pipeline.", {
  event: text,
  timestamp: time,
  run_id: text,
  name: optional(text),
  node_id: optional(text),
  visit: optional(integer),
  attempt: optional(integer),
  scope: optional(text),
  error: optional(text),
  will_retry: optional(boolean),
  delay_ms: optional(number),
  outcome: optional(json),
  question: optional(text),
  answer: optional(text),
  branch: optional(json),
  branches: optional(integer),
});

export const pipelineQuestions = document("The questions that a pipeline asks.", {
  id: text,
  questions: listOf(
    record({
      /** For the address of its answer. */
      id: text,
      text,
      type: oneOf("YES_NO", "MULTIPLE_CHOICE", "FREEFORM", "CONFIRMATION"),
      options: listOf(record({ key: text, label: text })),
      default: nullable(text),
      stage: text,
      deadline: nullable(time),
    }),
  ),
});

export const pipelineAnswer = document("An answer that was recorded.", {
  id: text,
  question: text,
  value: nullable(text),
  text: nullable(text),
});

export const pipelineCheckpoint = document("The checkpoint of a pipeline.", {
  timestamp: time,
  current_node: nullable(text),
  completed_nodes: listOf(text),
  node_retries: mapOf(integer),
  node_outcomes: mapOf(text),
  context: mapOf(json),
  logs: listOf(text),
});

export const pipelineContext = document("The context of a pipeline.", {
  id: text,
  context: mapOf(json),
});

export const cancelled = document("A pipeline that was asked to stop.", {
  id: text,
  /** `asked`: its owner stops it; `ended`: what its dead owner left running has ended. */
  outcome: oneOf("asked", "ended"),
});
