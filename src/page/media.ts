/** What the window allows: pages that must know it in code ask here; styles ask by themselves. */
import { useLayoutEffect, useState, useSyncExternalStore } from "react";

/** The width at which the page becomes one column, as in styles/shell.css. */
const PHONE = matchMedia("(max-width: 760px)");

/** True in a window as narrow as a phone. */
export function useIsPhone(): boolean {
  return useSyncExternalStore(
    (watcher) => {
      PHONE.addEventListener("change", watcher);
      return () => PHONE.removeEventListener("change", watcher);
    },
    () => PHONE.matches,
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
