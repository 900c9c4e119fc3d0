/**
 * The rows of the list of runs: pages from the server as a person scrolls, and changes as they
 * happen.
 */
import { useCallback, useEffect, useRef, useState } from "react";
import { type ApiError, type Doc, read } from "../api.ts";
import { asApiError } from "../data.ts";
import { useLive } from "../live.ts";
import { paramsOf, type RunFilter, type RunRows, withChanges } from "./run-filter.ts";

const ROWS_PER_PAGE = 200;

interface RunList {
  /** What was read; undefined before the first answer. */
  readonly list: RunRows | undefined;
  readonly error: ApiError | undefined;
  /** What is shown belongs to an earlier filter. */
  readonly isOld: boolean;
  /** Reads the next page, if there is one. */
  readonly more: () => void;
}

/** The runs that the filter lets through. */
export function useRunList(filter: RunFilter): RunList {
  const query = paramsOf(filter);
  const key = JSON.stringify(query);
  const [loaded, setLoaded] = useState<{ key: string; list: RunRows }>();
  const [error, setError] = useState<ApiError>();
  const isReading = useRef(false);
  const latest = useRef({ key, filter });
  latest.current = { key, filter };

  useEffect(() => {
    const controller = new AbortController();
    const first = { ...(JSON.parse(key) as Record<string, string>), limit: ROWS_PER_PAGE };
    read<RunRows>("/api/runs", first, controller.signal)
      .then((list) => {
        setLoaded({ key, list });
        setError(undefined);
      })
      .catch((failure: unknown) => {
        if (!controller.signal.aborted) setError(asApiError(failure));
      });
    return () => controller.abort();
  }, [key]);

  const next = loaded?.key === key ? (loaded.list.next ?? undefined) : undefined;
  const more = useCallback(() => {
    if (next === undefined || isReading.current) return;
    isReading.current = true;
    const after = { ...(JSON.parse(key) as Record<string, string>), cursor: next };
    read<RunRows>("/api/runs", { ...after, limit: ROWS_PER_PAGE })
      .then((page) => {
        setLoaded((before) =>
          before?.key === key ? { key, list: joined(before.list, page) } : before,
        );
      })
      .catch((failure: unknown) => setError(asApiError(failure)))
      .finally(() => {
        isReading.current = false;
      });
  }, [key, next]);

  useLive<Doc<"runChanges">>(
    loaded === undefined ? undefined : { path: "/api/runs/changes", event: "runs" },
    (changes) => {
      setLoaded((before) =>
        before?.key === latest.current.key
          ? { ...before, list: withChanges(before.list, changes, latest.current.filter) }
          : before,
      );
    },
  );
  return { list: loaded?.list, error, isOld: loaded !== undefined && loaded.key !== key, more };
}

function joined(before: RunRows, page: RunRows): RunRows {
  const known = new Set(before.runs.map(({ run_id: id }) => id));
  const added = page.runs.filter(({ run_id: id }) => !known.has(id));
  return { ...page, runs: [...before.runs, ...added] };
}
