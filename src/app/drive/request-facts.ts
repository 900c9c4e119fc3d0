/**
 * Turns lasting requests into facts, for the owner of a run: the living one, or the next one.
 *
 * Owns: what a request needs from the disk (the files to restore, the outputs of a step). The owner
 *   finds it when it reads the request, because the asker may have seen an older state.
 * Does not: decide what follows from a request (core/request.ts).
 */

import type { Fact, RequestedFact } from "../../core/fact.ts";
import { keyOf, type LastingRequest } from "../../journal/inbox.ts";
import { defined } from "../../util/defined.ts";
import type { LoadedRun } from "../loaded-run.ts";
import type { Project } from "../project/project.ts";
import { asRefusal } from "../refusal.ts";
import { settledFact } from "../request/settle.ts";
import { previewRewind, type RewindRequest, rewindFact } from "../rewind/rewind-preview.ts";

type AskedOfRun = Exclude<LastingRequest, { type: "message" }>;

/** The fact of a request; `load` returns the present run, for requests that depend on it. */
export async function factOf(
  project: Project,
  load: () => Promise<LoadedRun>,
  request: LastingRequest,
): Promise<Fact> {
  if (request.type === "message") {
    const { scope, step, message } = request;
    return { type: "message-left", scope, step, message };
  }
  const { type: asks, by = "" } = request;
  const step = "step" in request ? request.step : undefined;
  const attempt = "attempt" in request ? request.attempt : undefined;
  const about = defined({ step, attempt });
  const fact = await askedFact(project, load, request);
  return { type: "requested", request: keyOf(request) ?? "", by, asks, ...about, fact };
}

async function askedFact(
  project: Project,
  load: () => Promise<LoadedRun>,
  request: AskedOfRun,
): Promise<RequestedFact> {
  if (request.type === "add-budget") return { type: "funds-added", added: request.added };
  if (request.type === "skip") {
    const { step, by } = request;
    return { type: "skip-requested", step, by };
  }
  const known = await load();
  try {
    if (request.type === "settle") return await settledFact(known, request);
    const preview = await previewRewind(project, known, wantedBy(request));
    return await rewindFact(known, preview);
  } catch (error) {
    const refusal = asRefusal(error, known.shortId);
    if (refusal === undefined) throw error;
    const { code, message, next } = refusal;
    return { type: "refused", refused: { code, message, next } };
  }
}

/** A request to retry or rewind, in the form that the commands use. */
function wantedBy(request: Extract<AskedOfRun, { type: "retry" | "rewind" }>): RewindRequest {
  const { step, repeat } = request;
  const files = request.type === "rewind" && request.verb === "invalidate" ? "keep" : request.files;
  const about = { step, ...defined({ files, repeat }), ofOwner: true } as const;
  if (request.type === "rewind") return { verb: "rewind", ...about };
  const { failed, items, turns } = request;
  return { verb: "retry", ...about, ...defined({ failed, items, turns }) };
}
