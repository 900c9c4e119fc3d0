/** The title of the window, by which a person finds a page among many. */
import { useEffect } from "react";

/** Names the page while it is shown; undefined names nothing. */
export function useTitle(title: string | undefined): void {
  useEffect(() => {
    if (title === undefined) return undefined;
    document.title = `${title} · Perdure`;
    return () => {
      document.title = "Perdure";
    };
  }, [title]);
}
