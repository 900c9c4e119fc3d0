/** Calls that come too often, and values that change too often. */
import { useCallback, useEffect, useRef, useState } from "react";

/** Calls `act` at once, then at most every `ms`; the last call is never lost. */
export function useAtMostEvery(ms: number, act: () => void): () => void {
  const latest = useRef(act);
  latest.current = act;
  const timer = useRef<number>(undefined);
  const isWanted = useRef(false);
  useEffect(
    () => () => {
      window.clearTimeout(timer.current);
      timer.current = undefined;
    },
    [],
  );
  return useCallback(() => {
    if (timer.current !== undefined) {
      isWanted.current = true;
      return;
    }
    const next = (): void => {
      timer.current = undefined;
      if (!isWanted.current) return;
      isWanted.current = false;
      call();
    };
    const call = (): void => {
      latest.current();
      timer.current = window.setTimeout(next, ms);
    };
    call();
  }, [ms]);
}

/** The value once it has not changed for `ms`. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(value), ms);
    return () => window.clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
