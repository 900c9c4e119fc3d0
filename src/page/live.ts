/**
 * Streams of the server: each message has a number, and a connection that was lost continues after
 * the last one that arrived.
 *
 * Owns: connecting again, and whether the page is up to date.
 * Does not: interpret a message.
 */
import { useEffect, useRef, useSyncExternalStore } from "react";
import { address, type Query } from "./api.ts";

/** Pauses between attempts to connect again. */
const PAUSES_MS = [500, 1_000, 2_000, 5_000];

interface Stream {
  readonly path: string;
  readonly query?: Query;
  /** The name of the messages. */
  readonly event: string;
  /** The number after which the stream starts. */
  readonly after?: number | undefined;
  /** The parameter that takes the number of the last message; `after` if it is not said. */
  readonly position?: string;
}

/** Follows a stream until `close` is called. */
function follow<T>(stream: Stream, onMessage: (data: T) => void): () => void {
  let last = stream.after === undefined ? undefined : String(stream.after);
  let source: EventSource | undefined;
  let failures = 0;
  let timer: number | undefined;
  const key = Symbol(stream.path);
  const position = stream.position ?? "after";
  const connect = (): void => {
    source = new EventSource(address(stream.path, { ...stream.query, [position]: last }));
    source.addEventListener("open", () => {
      failures = 0;
      setLost(key, false);
    });
    source.addEventListener(stream.event, (message: MessageEvent<string>) => {
      if (message.lastEventId !== "") last = message.lastEventId;
      onMessage(JSON.parse(message.data) as T);
    });
    source.addEventListener("error", () => {
      setLost(key, true);
      source?.close();
      const pause = PAUSES_MS[Math.min(failures++, PAUSES_MS.length - 1)];
      timer = window.setTimeout(connect, pause);
    });
  };
  const disconnect = (): void => {
    window.clearTimeout(timer);
    source?.close();
    setLost(key, false);
  };
  // A browser has six connections to a server for all its tabs together. A tab that nobody sees gives
  // its streams up, and continues after the last message when somebody looks at it.
  const onVisible = (): void => {
    disconnect();
    if (!document.hidden) connect();
  };
  document.addEventListener("visibilitychange", onVisible);
  onVisible();
  return () => {
    document.removeEventListener("visibilitychange", onVisible);
    disconnect();
  };
}

/** Follows a stream while the component is shown; `stream` undefined follows nothing. */
export function useLive<T>(stream: Stream | undefined, onMessage: (data: T) => void): void {
  const handler = useRef(onMessage);
  handler.current = onMessage;
  const key = stream === undefined ? undefined : address(stream.path, stream.query);
  const latest = useRef(stream);
  latest.current = stream;
  useEffect(() => {
    if (key === undefined || latest.current === undefined) return undefined;
    return follow<T>(latest.current, (data) => handler.current(data));
  }, [key]);
}

const lost = new Set<symbol>();
const watchers = new Set<() => void>();

function setLost(key: symbol, isLost: boolean): void {
  const had = lost.size > 0;
  if (isLost) lost.add(key);
  else lost.delete(key);
  if (had !== lost.size > 0) for (const watcher of watchers) watcher();
}

/** True while a stream has no connection: what the page shows may be old. */
export function useConnectionLost(): boolean {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => lost.size > 0,
  );
}
