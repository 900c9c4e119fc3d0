/** The addresses of one step: its page, and the outputs and conversations of its attempts. */
import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import type { LoadedRun } from "../../app/loaded-run.ts";
import { lastQuestion } from "../../app/look/inspect.ts";
import { artifactIn, stepMeant, stepPageOf } from "../../app/look/run-content.ts";
import {
  followOutput,
  type OutputPart,
  readOutput,
  type WantedOutput,
} from "../../app/output/output-part.ts";
import { materialJson } from "../../view/json/action-json.ts";
import type { output } from "../../view/json/dashboard-documents.ts";
import type { DocumentOf } from "../../view/json/document-parts.ts";
import { stepRowJson } from "../../view/json/step-json.ts";
import { stepNode } from "../../view/step-tree.ts";
import { askedRun } from "../dashboard.ts";
import { needed, RequestError, type StreamEvent, wholeNumber } from "../endpoint.ts";
import type { Routes } from "../endpoints.ts";

function partJson(runId: string, part: OutputPart): DocumentOf<typeof output> {
  const { attempt, file, from, to, bytes, ended, text } = part;
  return { run_id: runId, attempt, file, from, to, bytes, ended, text };
}

async function* partEvents(
  runId: string,
  parts: AsyncIterable<OutputPart>,
): AsyncGenerator<StreamEvent<DocumentOf<typeof output>>> {
  for await (const part of parts) yield { id: part.to, value: partJson(runId, part) };
}

/** The size of the parts in which a download is read. */
const DOWNLOAD_BYTES = 1024 * 1024;

/** An output from its first byte to its current end, in parts. */
async function* wholeOutput(
  known: LoadedRun,
  wanted: WantedOutput,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  for (let from = 0; !signal.aborted; ) {
    const part = await readOutput(known, { ...wanted, from, limit: DOWNLOAD_BYTES });
    if (part.to <= from) return;
    yield encoder.encode(part.text);
    from = part.to;
  }
}

/** A name for a download: without quotes, control characters and other alphabets. */
function safeName(name: string): string {
  return name.replaceAll(/[^\w.-]/g, "_").slice(0, 100);
}

/** The first byte of a part; a negative number counts from the end. */
function firstByte(text: string | undefined): number | undefined {
  return wholeNumber("from", text, Number.MIN_SAFE_INTEGER);
}

export const stepRoutes = {
  step: async (dashboard, { path, query }) => {
    const { known } = await askedRun(dashboard, path.run);
    const step = stepMeant(known, needed("step", query.step));
    const { run, liveness } = known;
    const node = stepNode(run, step);
    if (node === undefined) {
      throw new RequestError(404, "unknown-step", `${step} is no longer in the pipeline`);
    }
    const row = stepRowJson(node, { liveness, now: Date.now() });
    return { row, ...(await stepPageOf(known, step)) };
  },
  output: async (dashboard, { path, query }) => {
    const { known } = await askedRun(dashboard, path.run);
    const part = await readOutput(known, {
      attempt: needed("attempt", query.attempt),
      file: query.file,
      from: firstByte(query.from),
      limit: wholeNumber("limit", query.limit),
    });
    return partJson(known.id, part);
  },
  outputLive: async (dashboard, { path, query, lastId, signal }) => {
    const { project, known } = await askedRun(dashboard, path.run);
    const wanted = {
      attempt: needed("attempt", query.attempt),
      file: query.file,
      from: wholeNumber("Last-Event-ID", lastId) ?? firstByte(query.from),
    };
    return partEvents(known.id, followOutput(project, known, wanted, signal));
  },
  outputDownload: async (dashboard, { path, query, signal }) => {
    const { known } = await askedRun(dashboard, path.run);
    const wanted = { attempt: needed("attempt", query.attempt), file: query.file };
    const first = await readOutput(known, { ...wanted, limit: 1 });
    const name = safeName(`${first.attempt}-${first.file}`);
    return {
      type: "text/plain; charset=utf-8",
      body: ReadableStream.from(wholeOutput(known, wanted, signal)),
      headers: {
        "Content-Disposition": `attachment; filename="${name}"`,
        "Content-Security-Policy": "sandbox; default-src 'none'",
      },
    };
  },
  conversation: async (dashboard, { path, query }) => {
    const { known } = await askedRun(dashboard, path.run);
    const name = needed("attempt", query.attempt);
    const { attempt, turns, leftOut, ended } = await dashboard.conversations.read(known, name);
    return { run_id: known.id, attempt, turns, left_out: leftOut, ended };
  },
  material: async (dashboard, { path, query }) => {
    const { known } = await askedRun(dashboard, path.run);
    const gate = needed("step", query.step);
    return materialJson(known.id, gate, lastQuestion(known, gate).material ?? []);
  },
  artifact: async (dashboard, { path }) => {
    const { known } = await askedRun(dashboard, path.run);
    const { file, name, media, bytes } = await artifactIn(known, path.sha256);
    const shown = media.startsWith("text/plain") || media.startsWith("image/");
    const disposition = shown ? "inline" : "attachment";
    return {
      type: media,
      body: Readable.toWeb(createReadStream(file)) as ReadableStream<Uint8Array>,
      headers: {
        "Content-Disposition": `${disposition}; filename="${safeName(name)}"`,
        "Content-Length": String(bytes),
        "Content-Security-Policy": "sandbox; default-src 'none'",
      },
    };
  },
} satisfies Partial<Routes>;
