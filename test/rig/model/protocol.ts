/**
 * The port between the fake model and the four wire formats that it speaks. A protocol reads a
 * request into an `Ask`, and writes what is said as one body or as the frames of a stream.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Ask, OfferedTool } from "./ask.ts";
import { at, type Json, listAt, textAt } from "./json.ts";
import type { Fault, Usage } from "./reply.ts";
import type { Said } from "./tool-call.ts";

export interface Call {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Json;
}

/**
 * An answer cut where faults strike: `head` opens the stream, `body` holds what is said (a tool
 * call is complete in it), `tail` closes it.
 */
export interface Frames {
  readonly head: readonly string[];
  readonly body: readonly string[];
  readonly tail: readonly string[];
  /** The frame that reports the tokens of the input before the rest, where there is one. */
  readonly inputTold?: string;
  /** The frame that reports all tokens. */
  readonly allTold: string;
}

export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Json;
}

export type RefusingFault = Extract<Fault, { type: "refuse" | "quota" | "overflow" }>;

export interface Protocol {
  readonly read: (call: Call) => Ask;
  readonly whole: (ask: Ask, said: readonly Said[], usage: Usage) => Json;
  readonly frames: (ask: Ask, said: readonly Said[], usage: Usage) => Frames;
  readonly refusal: (fault: RefusingFault) => Refusal;
  /** The wrong request of an agent, or of a script. */
  readonly complaint: (message: string) => Refusal;
}

/** In how many pieces a text is streamed, so that a stream has a middle. */
const PIECES = 4;

/** A text in pieces; joined they are the text. */
export function pieces(text: string): readonly string[] {
  const letters = [...text];
  const size = Math.max(1, Math.ceil(letters.length / PIECES));
  const cuts: string[] = [];
  for (let from = 0; from < letters.length; from += size) {
    cuts.push(letters.slice(from, from + size).join(""));
  }
  return cuts.length === 0 ? [""] : cuts;
}

/** One server-sent event. */
export function frame(data: Json, event?: string): string {
  const name = event === undefined ? "" : `event: ${event}\n`;
  return `${name}data: ${JSON.stringify(data)}\n\n`;
}

/** A tool as its JSON schema describes it. */
export function offered(name: string, schema: Json | undefined, freeform = false): OfferedTool {
  const properties = at(schema, "properties");
  const parameters =
    typeof properties === "object" && properties !== null ? Object.keys(properties) : [];
  const listParameters = parameters.filter((key) => textAt(properties, key, "type") === "array");
  return { name, parameters, freeform, listParameters };
}

/** The headers of a refusal that says how long to wait. */
export function retryHeaders(fault: RefusingFault): Readonly<Record<string, string>> {
  if (fault.type !== "refuse" || fault.retryAfterS === undefined) return {};
  return { "retry-after": String(fault.retryAfterS) };
}

/** A value that fits a JSON schema, for the calls on the side that ask for one. */
export function sampleOf(schema: Json | undefined): Json {
  const [first] = listAt(schema, "enum");
  if (first !== undefined) return first;
  switch (textAt(schema, "type").toLowerCase()) {
    case "object": {
      const properties = at(schema, "properties") ?? {};
      const names = Object.keys(properties as object);
      return Object.fromEntries(names.map((name) => [name, sampleOf(at(properties, name))]));
    }
    case "array":
      return [];
    case "number":
    case "integer":
      return 0;
    case "boolean":
      return false;
    default:
      return "side call";
  }
}
