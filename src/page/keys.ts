/**
 * Keys that work everywhere on a page. A key that a person types into a field is not one of them.
 */
import { useEffect, useRef } from "react";

/** What each key does; `g r` is g, then r. */
type Keys = Readonly<Record<string, () => void>>;

const SEQUENCE_MS = 1_000;

/** Listens while the component is shown. */
export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
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
