/**
 * The moments of a run, and the one that is shown.
 *
 * Owns: the position: from the address, the slider, the list and the keys.
 * Does not: show anything.
 */
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { type Doc, type Loaded, runPath, useDocument } from "../api.ts";
import { useSettled } from "../browser.ts";
import { timeHref } from "../links.ts";

export type Moment = Doc<"moments">["moments"][number];
export type MomentDoc = Doc<"moment">;

/** A slider that moves reads a moment when it rests. */
const REST_MS = 120;
/** How far an arrow key goes with shift. */
const JUMP = 10;

export interface TimePosition {
  readonly moments: readonly Moment[];
  /** The position in the list. */
  readonly index: number;
  readonly go: (index: number) => void;
  /** The moment at which the slider rests. */
  readonly sequence: number;
}

/** The position over these moments; the address holds its sequence number. */
export function useTravel(
  run: string,
  moments: readonly Moment[],
  addressed: string | undefined,
): TimePosition {
  const last = moments.length - 1;
  const wanted = addressed === undefined ? last : indexOf(moments, Number(addressed));
  const [index, setIndex] = useState(wanted);
  const [, navigate] = useLocation();
  const sequence = useSettled(moments[index]?.sequence ?? 0, REST_MS);
  const written = useRef(addressed);
  // Another address, from a link or the back button.
  useEffect(() => {
    if (addressed === written.current) return;
    written.current = addressed;
    setIndex(wanted);
  }, [addressed, wanted]);
  useEffect(() => {
    const text = String(sequence);
    if (sequence === 0 || text === written.current) return;
    written.current = text;
    navigate(`${timeHref(run, sequence)}${window.location.search}`, { replace: true });
  }, [sequence, run, navigate]);
  // Who looks at the end of a living run stays at its end.
  const end = useRef(last);
  useEffect(() => {
    const before = end.current;
    end.current = last;
    setIndex((now) => (now === before ? last : now));
  }, [last]);
  const go = (next: number): void => setIndex(Math.max(0, Math.min(last, next)));
  useTravelKeys((key, isFar) => {
    const step = isFar ? JUMP : 1;
    if (key === "ArrowLeft") go(index - step);
    if (key === "ArrowRight") go(index + step);
    if (key === "Home") go(0);
    if (key === "End") go(last);
  });
  return { moments, index, go, sequence };
}

/** The last moment that is not after a sequence number. */
function indexOf(moments: readonly Moment[], sequence: number): number {
  const found = moments.findLastIndex((moment) => moment.sequence <= sequence);
  return Math.max(0, found);
}

const KEYS = ["ArrowLeft", "ArrowRight", "Home", "End"];
/** Parts of the page that use these keys themselves. */
const OWN_KEYS = "[role=tablist], [role=tree], dialog, select, textarea, input:not(.time-slider)";

function useTravelKeys(move: (key: string, isFar: boolean) => void): void {
  const latest = useRef(move);
  latest.current = move;
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (!KEYS.includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target instanceof Element && event.target.closest(OWN_KEYS) !== null) return;
      event.preventDefault();
      latest.current(event.key, event.shiftKey);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}

/** A run as it was after an event; the last answer stays until the next one is there. */
export function useMoment(run: string, sequence: number | undefined): Loaded<MomentDoc> {
  const path = sequence === undefined ? undefined : runPath(run, `moment/${sequence}`);
  return useKept(useDocument<MomentDoc>(path));
}

/** What was loaded last, while another document is being read: nothing jumps. */
export function useKept<T>(loaded: Loaded<T>): Loaded<T> {
  const kept = useRef(loaded.data);
  if (loaded.data !== undefined) kept.current = loaded.data;
  return { ...loaded, data: kept.current };
}
