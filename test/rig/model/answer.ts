/**
 * Puts an answer on the wire in segments, so that a fault can strike between them.
 *
 * Invariant: what comes before a point has been handed to the kernel when the point is reached, so
 * an agent that is killed during a stall has been sent exactly that.
 */
import type { ServerResponse } from "node:http";
import type { Json } from "./json.ts";
import type { Frames } from "./protocol.ts";
import type { Fault, StreamPoint } from "./reply.ts";

/** What is sent before each point, and after the last. */
interface Segments {
  readonly type: "application/json" | "text/event-stream";
  readonly start: readonly string[];
  readonly middle: readonly string[];
  readonly end: readonly string[];
  readonly rest: readonly string[];
  readonly inputTold?: string;
  readonly allTold: string;
}

/** The segments of a stream. */
export function streamed({ head, body, tail, ...reported }: Frames): Segments {
  const half = Math.ceil(body.length / 2);
  return {
    type: "text/event-stream",
    start: head,
    middle: body.slice(0, half),
    end: body.slice(half),
    rest: tail,
    ...reported,
  };
}

/** The segments of one body: its end is missing until it is all there. */
export function single(body: Json): Segments {
  const text = JSON.stringify(body);
  const half = Math.ceil(text.length / 2);
  return {
    type: "application/json",
    start: [],
    middle: [text.slice(0, half)],
    end: [text.slice(half, -1)],
    rest: [text.slice(-1)],
    allTold: text.slice(-1),
  };
}

/** What happens on the way. */
interface Course {
  readonly fault: Fault | undefined;
  /** Asked to wait where the fault says so. */
  readonly hold: (point: StreamPoint) => Promise<void>;
  /** Called for each piece of the answer that the kernel has taken. */
  readonly wrote: (piece: string) => void;
}

/** Sends an answer. */
export async function send(
  response: ServerResponse,
  segments: Segments,
  { fault, hold, wrote }: Course,
): Promise<"complete" | "cut" | "gone"> {
  const reach = async (point: StreamPoint): Promise<boolean> => {
    if (fault?.type === "stall" && fault.at === point) await hold(point);
    if (fault?.type === "cut" && fault.at === point) response.destroy();
    return !response.destroyed;
  };
  const ended = (): "cut" | "gone" => (fault?.type === "cut" ? "cut" : "gone");
  if (!(await reach("accept"))) return ended();
  response.writeHead(200, { "content-type": segments.type, "cache-control": "no-cache" });
  response.flushHeaders();
  for (const point of ["start", "middle", "end"] as const) {
    await put(response, segments[point], wrote);
    if (!(await reach(point))) return ended();
  }
  await put(response, segments.rest, wrote);
  if (response.destroyed) return "gone";
  response.end();
  return "complete";
}

/** Each frame is a write of its own, so that it is a chunk of its own. */
async function put(
  response: ServerResponse,
  frames: readonly string[],
  wrote: Course["wrote"],
): Promise<void> {
  for (const text of frames) {
    if (response.destroyed || text === "") continue;
    // An error means that the agent has hung up: `destroyed` says so too.
    const error = await new Promise<Error | null | undefined>((done) => {
      response.write(text, done);
    });
    if (error === undefined || error === null) wrote(text);
  }
}
