/**
 * What an agent answered: the value that its step's schema asks for, or its text.
 *
 * Owns: finding and judging the answer, and the bound on it.
 * Does not: ask again (core/decide.ts decides that).
 */

import type { AgentReport } from "../../runner/agents/report.ts";
import type { Json } from "../../util/json.ts";
import { schemaFault } from "../../util/json-schema.ts";

/** An answer goes into the journal; what is larger belongs into a file. */
const ANSWER_BYTES_MAX = 256 * 1024;

export type Answer =
  | { readonly ok: true; readonly value: Json }
  | { readonly ok: false; readonly problem: string };

/** The answer in a report of an agent that succeeded. */
export async function answerOf(report: AgentReport, schema: Json | undefined): Promise<Answer> {
  const { structured, text = report.text } = report.result ?? {};
  if (schema === undefined) return { ok: true, value: text };
  const value = structured ?? jsonIn(text);
  if (value === undefined) return { ok: false, problem: "it is not JSON" };
  const fault = await schemaFault(value, schema);
  if (fault !== undefined) return { ok: false, problem: `it does not fit its schema: ${fault}` };
  if (Buffer.byteLength(JSON.stringify(value)) > ANSWER_BYTES_MAX) {
    return { ok: false, problem: `it is larger than ${ANSWER_BYTES_MAX} bytes: write a file` };
  }
  return { ok: true, value };
}

/** The JSON of an answer: all of it, or the last fenced block in it. */
function jsonIn(text: string): Json | undefined {
  const fenced = [...text.matchAll(/```(?:json)?\s*\n([\s\S]*?)```/g)].at(-1)?.[1];
  return parsed(text) ?? (fenced === undefined ? undefined : parsed(fenced));
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
