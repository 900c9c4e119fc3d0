/**
 * An output as state of a component: loads chunks around what is shown, and follows a living step.
 *
 * Owns: when which chunk is asked for.
 * Does not: show it (output-view.tsx).
 */
import { useCallback, useEffect, useRef, useState } from "react";
import { type ApiError, asApiError, type Doc, type Query, read, runPath } from "../api.ts";
import { useLive } from "../live.ts";
import {
  CHUNK_BYTES,
  HELD_BYTES_MAX,
  type HeldOutput,
  heldFrom,
  heldTo,
  holdsEnd,
  windowOf,
  withNext,
  withPrevious,
} from "./output-window.ts";

type Part = Doc<"output">;

/** Where an output is. */
export interface OutputSource {
  readonly run: string;
  readonly attempt: string;
  readonly file: string;
}

export interface Output {
  readonly window: HeldOutput | undefined;
  readonly error: ApiError | undefined;
  /** Shows the part at a byte; a negative number counts from the end. */
  readonly jump: (from: number) => void;
  /** Loads what comes before and after what is held. */
  readonly more: (direction: "previous" | "next") => void;
}

/** The address of an output, for a stream or a download. */
export function outputQuery({ attempt, file }: OutputSource): Query {
  return { attempt, file };
}

/** An output from its end on, and more of it as it is wanted. */
export function useOutput(source: OutputSource): Output {
  const { run, attempt, file } = source;
  const [window, setWindow] = useState<HeldOutput>();
  const [error, setError] = useState<ApiError>();
  const isBusy = useRef(false);
  const latest = useRef<HeldOutput>(undefined);
  latest.current = window;
  const load = useCallback(
    (work: (get: Get) => Promise<(before: HeldOutput | undefined) => HeldOutput>) => {
      const get: Get = (from, limit) =>
        read<Part>(runPath(run, "output"), { attempt, file, from, limit });
      isBusy.current = true;
      work(get)
        .finally(() => {
          isBusy.current = false;
        })
        .then((change) => setWindow(change))
        .catch((failure: unknown) => setError(asApiError(failure)));
    },
    [run, attempt, file],
  );
  const jump = useCallback(
    (from: number) =>
      load(async (get) => {
        const part = await get(from, CHUNK_BYTES);
        return () => windowOf(part);
      }),
    [load],
  );
  const more = useCallback(
    (direction: "previous" | "next") => {
      const now = latest.current;
      if (now === undefined || isBusy.current) return;
      if (direction === "previous") {
        if (heldFrom(now) === 0) return;
        load(async (get) => {
          const parts = await previousParts(get, heldFrom(now));
          return (before) => parts.reduceRight(withPrevious, before ?? now);
        });
      } else if (!holdsEnd(now)) {
        load(async (get) => {
          const part = await get(heldTo(now), CHUNK_BYTES);
          return (before) => withNext(before ?? now, part);
        });
      }
    },
    [load],
  );
  useEffect(() => jump(-CHUNK_BYTES), [jump]);
  useNews(source, window, setWindow);
  return { window, error, jump, more };
}

type Get = (from: number, limit: number) => Promise<Part>;
/** A part may end early, at the end of a line; more than a few do not. */
const PARTS_MAX = 8;

/** The parts that end exactly where something that is held begins. */
async function previousParts(get: Get, end: number): Promise<readonly Part[]> {
  for (let span = CHUNK_BYTES; ; span *= 2) {
    const start = Math.max(0, end - span);
    let part = await get(start, end - start);
    // A part of an agent's stream begins at a line, which may be later than what was asked for.
    if (part.to > end && part.from < end) part = await get(part.from, end - part.from);
    const parts = [part];
    while (part.to < end && part.to > part.from && parts.length < PARTS_MAX) {
      part = await get(part.to, end - part.to);
      parts.push(part);
    }
    if (part.to === end && part.from < end) return parts;
    if (start === 0 || span > HELD_BYTES_MAX) return [];
  }
}

/** What a living step prints; it is added when the end is held. */
function useNews(
  source: OutputSource,
  window: HeldOutput | undefined,
  setWindow: (change: (before: HeldOutput | undefined) => HeldOutput | undefined) => void,
): void {
  const isFollowed = window !== undefined && !window.ended && holdsEnd(window);
  const { run } = source;
  useLive<Part>(
    isFollowed
      ? {
          path: runPath(run, "output/live"),
          query: outputQuery(source),
          event: "output",
          after: heldTo(window),
          position: "from",
        }
      : undefined,
    (part) => setWindow((before) => (before === undefined ? before : withNext(before, part))),
  );
}
