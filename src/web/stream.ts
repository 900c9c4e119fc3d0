/**
 * Server-sent events. The next event is asked for when the last one has left for the client, so a slow
 * client costs no memory: it gets fewer and newer events.
 *
 * Owns: their form, and the sign of life between them.
 * Does not: know what is sent.
 */
import type { StreamEvent } from "./answer.ts";

/** How often a stream without news sends a comment, so that a lost connection is noticed. */
const SIGN_OF_LIFE_MS = 15_000;
/** How long a client waits before it connects again. */
const RECONNECT_MS = 1_000;

interface StreamOptions<T> {
  readonly event: string;
  readonly events: AsyncIterable<StreamEvent<T>>;
  /** The JSON of a value. */
  readonly textOf: (value: T) => string;
  /** Ends the events when the client is gone. */
  readonly abort: () => void;
}

/** The body of a response with these events. */
export function eventStream<T>(options: StreamOptions<T>): ReadableStream<Uint8Array> {
  const { event, events, textOf, abort } = options;
  const encoder = new TextEncoder();
  const iterator = events[Symbol.asyncIterator]();
  let next: Promise<IteratorResult<StreamEvent<T>>> | undefined;
  return new ReadableStream(
    {
      start: (controller) => controller.enqueue(encoder.encode(`retry: ${RECONNECT_MS}\n\n`)),
      pull: async (controller) => {
        next ??= iterator.next();
        const found = await firstOf(next, SIGN_OF_LIFE_MS);
        if (found === "late") {
          controller.enqueue(encoder.encode(": \n\n"));
          return;
        }
        next = undefined;
        if (found.done === true) {
          controller.close();
          return;
        }
        const { id, name = event, value } = found.value;
        const text = `event: ${name}\nid: ${id}\ndata: ${textOf(value)}\n\n`;
        controller.enqueue(encoder.encode(text));
      },
      cancel: async () => {
        abort();
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

async function firstOf<T>(promise: Promise<T>, ms: number): Promise<T | "late"> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((done) => {
    timer = setTimeout(() => done("late"), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
