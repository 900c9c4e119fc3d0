/**
 * A run while a page shows it: its documents, and the news that change them.
 *
 * Owns: how news are merged into what is shown, and how often something is read again.
 * Does not: show anything.
 */
import {
  createContext,
  useContext,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import {
  type ApiError,
  type CommandDoc,
  type Doc,
  type Loaded,
  runPath,
  type StepRow,
  useDocument,
} from "../api.ts";
import { useLive } from "../live.ts";
import { mergedLines, mergedRows, type RunLine } from "./step-rows.ts";

export type GraphDoc = CommandDoc<"graph">;

/** Between two readings of a document that changes all the time. */
const READ_AGAIN_MS = 1_000;
/** Reading takes at most one part in so many of the time. */
const READ_SHARE = 4;

export interface LiveRun {
  readonly page: Doc<"runPage"> | undefined;
  readonly error: ApiError | undefined;
  /** The events since the page was opened. */
  readonly lines: readonly RunLine[];
  readonly rows: RowStore;
  readonly reload: () => void;
}

/** A run that keeps up with its events. */
export function useRun(run: string): LiveRun {
  const loaded = useDocument<Doc<"runPage">>(runPath(run));
  const [lines, setLines] = useState<readonly RunLine[]>([]);
  const [rows] = useState(() => new RowStore());
  const { data, error, reload, set } = loaded;
  useLive<Doc<"runNews">>(
    data === undefined
      ? undefined
      : { path: runPath(run, "live"), event: "news", after: data.overview.sequence },
    (news) => {
      set((before) => ({
        ...before,
        overview: news.overview,
        graph_version: news.graph_version,
        steps: mergedRows(before.steps, news.steps),
      }));
      if (news.lines.length > 0) setLines((before) => mergedLines(before, news.lines));
    },
  );
  useEffect(() => {
    if (data !== undefined) rows.replace(data.steps);
  }, [data, rows]);
  return { page: data, error, lines, rows, reload };
}

/** The rows by their step; each part of the page follows only those that it shows. */
export class RowStore {
  #rows: ReadonlyMap<string, StepRow> = new Map();
  readonly #watchers = new Set<() => void>();

  replace(rows: readonly StepRow[]): void {
    this.#rows = new Map(rows.map((row) => [row.step, row]));
    for (const watcher of this.#watchers) watcher();
  }

  get(step: string): StepRow | undefined {
    return this.#rows.get(step);
  }

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };
}

export const RowsContext = createContext(new RowStore());

/** The row of a step; undefined when it is no step, or not there yet. */
export function useRow(step: string | null): StepRow | undefined {
  const rows = useContext(RowsContext);
  return useSyncExternalStore(rows.subscribe, () => (step === null ? undefined : rows.get(step)));
}

/**
 * A document that is read again when `version` changed: at most once a second, and less often if it
 * takes long to read.
 */
export function useFreshDocument<T>(path: string | undefined, version: unknown): Loaded<T> {
  const loaded = useDocument<T>(path);
  const { reload, data } = loaded;
  const read = useRef<{ version: unknown; at: number; tookMs: number }>(undefined);
  const hasData = data !== undefined;
  useEffect(() => {
    if (data !== undefined && read.current !== undefined) {
      read.current.tookMs = Date.now() - read.current.at;
    }
  }, [data]);
  useEffect(() => {
    read.current ??= { version, at: Date.now(), tookMs: 0 };
    const { version: before, at, tookMs } = read.current;
    if (!hasData || before === version) return undefined;
    const next = at + Math.max(READ_AGAIN_MS, tookMs * READ_SHARE);
    const timer = window.setTimeout(
      () => {
        read.current = { version, at: Date.now(), tookMs };
        reload();
      },
      Math.max(0, next - Date.now()),
    );
    return () => window.clearTimeout(timer);
  }, [version, hasData, reload]);
  return loaded;
}
