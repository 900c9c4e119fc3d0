/** Documents as state of a component: loading, loaded, or refused; read again when asked. */
import { useCallback, useEffect, useRef, useState } from "react";
import { ApiError, address, type Query, read } from "./api.ts";

export interface Loaded<T> {
  readonly data: T | undefined;
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
  /** Reads it again; what is shown stays until the answer is there. */
  readonly reload: () => void;
  /** Replaces what is shown, with news from a stream. */
  readonly set: (change: (before: T) => T) => void;
}

/** A document of the server; `path` undefined reads nothing. */
export function useDocument<T>(path: string | undefined, query: Query = {}): Loaded<T> {
  const [data, setData] = useState<T>();
  const [error, setError] = useState<ApiError>();
  const [round, setRound] = useState(0);
  const key = path === undefined ? undefined : address(path, query);
  const shown = useRef<string>(undefined);
  useEffect(() => {
    if (key === undefined) return undefined;
    const controller = new AbortController();
    // Another document: the old one would be wrong. The same one again: it stays until then.
    if (shown.current !== undefined && shown.current !== key) setData(undefined);
    shown.current = key;
    read<T>(key, {}, controller.signal)
      .then((answer) => {
        setData(answer);
        setError(undefined);
      })
      .catch((failure: unknown) => {
        if (!controller.signal.aborted) setError(asApiError(failure));
      });
    return () => controller.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  const set = useCallback((change: (before: T) => T) => {
    setData((before) => (before === undefined ? before : change(before)));
  }, []);
  const isLoading = data === undefined && error === undefined && key !== undefined;
  return { data, error, isLoading, reload, set };
}

/** Any failure in the form of a refusal. */
export function asApiError(failure: unknown): ApiError {
  if (failure instanceof ApiError) return failure;
  return new ApiError(0, "failed", failure instanceof Error ? failure.message : String(failure));
}
