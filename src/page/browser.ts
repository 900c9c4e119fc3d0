/**
 * What components ask of the browser: keys that work everywhere on a page, the title and the width of
 * the window, and timers for calls and values that change too often.
 */
import {
  useCallback,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";

/** What each key does; `g r` is g, then r. */
type Keys = Readonly<Record<string, () => void>>;

const SEQUENCE_MS = 1_000;

/**
 * Keys from the moment when the component is shown. A key that a person types into a field is not one
 * of them.
 */
export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  useLayoutEffect(() => {
    let first = "";
    let firstAt = 0;
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const isSecond = first !== "" && event.timeStamp - firstAt < SEQUENCE_MS;
      const typed = isSecond ? `${first} ${event.key}` : event.key;
      const act = latest.current[typed] ?? latest.current[event.key];
      first = isSecond ? "" : event.key;
      firstAt = event.timeStamp;
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.closest("dialog[open]") !== null) return true;
  return target.isContentEditable || target.matches("input, textarea, select");
}

/** The title of the window while the page is shown; undefined changes nothing. */
export function useTitle(title: string | undefined): void {
  useEffect(() => {
    if (title === undefined) return undefined;
    document.title = `${title} · Perdure`;
    return () => {
      document.title = "Perdure";
    };
  }, [title]);
}

/** The width at which the page becomes one column, as in styles/shell.css. */
const PHONE = "(max-width: 760px)";

/** True in a window as narrow as a phone. */
export function useIsPhone(): boolean {
  const [phone] = useState(() => matchMedia(PHONE));
  return useSyncExternalStore(
    (watcher) => {
      phone.addEventListener("change", watcher);
      return () => phone.removeEventListener("change", watcher);
    },
    () => phone.matches,
  );
}

/** How far the list is from the top of the document. */
export function useTop(list: { readonly current: HTMLElement | null }): number {
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const measure = (): void => {
      const box = list.current?.getBoundingClientRect();
      if (box !== undefined) setTop(Math.round(box.top + window.scrollY));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(document.body);
    return () => observer.disconnect();
  }, [list]);
  return top;
}

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
