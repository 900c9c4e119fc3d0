/** The addresses of pages. */
import { useSearchParams } from "wouter";

/** The page of a run. */
export function runHref(run: string): string {
  return `/runs/${encodeURIComponent(run)}`;
}

/** The page of a step, or of one of its attempts. */
export function stepHref(run: string, step: string, attempt?: string): string {
  const query = attempt === undefined ? "" : `?attempt=${encodeURIComponent(attempt)}`;
  return `${runHref(run)}/steps/${encodedPath(step)}${query}`;
}

/** The form that starts a pipeline, or the pipelines of a project. */
export function startHref(project: string, pipeline?: string): string {
  const rest = pipeline === undefined ? "" : `/${encodedPath(pipeline)}`;
  return `/start/${encodeURIComponent(project)}${rest}`;
}

/** A path with slashes as the end of an address. */
function encodedPath(path: string): string {
  return encodeURI(path).replaceAll("?", "%3F").replaceAll("#", "%23");
}

/** The path that the end of an address names: the router leaves some letters encoded. */
export function pathInAddress(path: string): string {
  return path.replaceAll("%3F", "?").replaceAll("%23", "#");
}

/** The run as it was after an event. */
export function timeHref(run: string, sequence?: number): string {
  return `${runHref(run)}/time${sequence === undefined ? "" : `/${sequence}`}`;
}

/** The report of a run. */
export function reportHref(run: string): string {
  return `${runHref(run)}/report`;
}

/** The query of the address, and how one of its parts changes without a new step of the back button. */
export function useAddressQuery(): readonly [
  URLSearchParams,
  (name: string, value: string) => void,
] {
  const [query, setQuery] = useSearchParams();
  const change = (name: string, value: string): void =>
    setQuery(
      (before) => {
        before.set(name, value);
        return before;
      },
      { replace: true },
    );
  return [query, change];
}
