/** The addresses of the attractor language (its specification, 9.5): runs as pipelines. */
import { json, optional, text } from "../core/shape.ts";
import * as attractor from "../view/json/attractor-documents.ts";
import { bytes, document, get, post, stream } from "./endpoint.ts";

export const ATTRACTOR_ENDPOINTS = {
  submit: post(
    "/pipelines",
    "Starts a pipeline in DOT, in the project of the server's directory or in `project`.",
    document(attractor.submitted),
    { dot_source: text, input: optional(json), project: optional(text) },
  ),
  pipelineStatus: get(
    "/pipelines/:run",
    "How a pipeline stands.",
    document(attractor.pipelineStatus),
  ),
  pipelineEvents: get(
    "/pipelines/:run/events",
    "The events of a pipeline by the names of the language, from the first one on.",
    stream("PipelineStarted", attractor.pipelineEvent),
  ),
  cancel: post(
    "/pipelines/:run/cancel",
    "Stops a pipeline; `perdure resume` can continue it.",
    document(attractor.cancelled),
    {},
  ),
  pipelineGraph: get(
    "/pipelines/:run/graph",
    "The graph of a pipeline with the states of its nodes.",
    bytes("image/svg+xml"),
  ),
  pipelineQuestions: get(
    "/pipelines/:run/questions",
    "The questions that a pipeline asks.",
    document(attractor.pipelineQuestions),
  ),
  pipelineAnswer: post(
    "/pipelines/:run/questions/:question/answer",
    "Answers a question; a pipeline that nobody drives continues.",
    document(attractor.pipelineAnswer),
    {
      /** The key or the label of an option. */
      value: optional(text),
      text: optional(text),
    },
  ),
  pipelineCheckpoint: get(
    "/pipelines/:run/checkpoint",
    "The checkpoint of a pipeline, as the language describes it.",
    document(attractor.pipelineCheckpoint),
  ),
  pipelineContext: get(
    "/pipelines/:run/context",
    "The context of a pipeline.",
    document(attractor.pipelineContext),
  ),
};
