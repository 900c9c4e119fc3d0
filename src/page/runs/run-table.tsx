/**
 * The table of runs. Only the rows in view are in the document, so thousands scroll as ten do; rows
 * that appear above or leave do not move what a person looks at.
 */
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useLayoutEffect, useRef } from "react";
import type { RunRow } from "../api.ts";
import { useKeys } from "../keys.ts";
import { useIsPhone, useTop } from "../media.ts";
import { RunTableRow, rowId } from "./run-table-row.tsx";

const ROW_PX = 46;
const CARD_PX = 92;
/** Rows drawn beyond the edges of the window. */
const OVERSCAN = 12;
/** The next page is read this many rows before the end is in view. */
const ROWS_AHEAD = 60;

interface RunTableProps {
  readonly rows: readonly RunRow[];
  readonly total: number;
  /** The names of projects by key; empty when there is only one. */
  readonly projects: ReadonlyMap<string, string>;
  readonly chosen: readonly string[];
  readonly onChoose: (run: string) => void;
  readonly onMore: () => void;
}

export function RunTable(props: RunTableProps): ReactNode {
  const { rows, total, projects, chosen, onChoose, onMore } = props;
  const list = useRef<HTMLTableSectionElement>(null);
  const rowPx = useIsPhone() ? CARD_PX : ROW_PX;
  const top = useTop(list);
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => rowPx,
    overscan: OVERSCAN,
    scrollMargin: top,
    getItemKey: (index) => rows[index]?.run_id ?? index,
  });
  useEffect(() => virtual.measure(), [virtual, rowPx]);
  useSteadyRows(rows, { top, rowPx });
  useRowKeys(rows, { onChoose, show: (index) => virtual.scrollToIndex(index) });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= rows.length - ROWS_AHEAD) onMore();
  }, [last, rows.length, onMore]);
  return (
    <table
      className="run-table"
      aria-label="Runs"
      aria-rowcount={total + 1}
      data-projects={projects.size > 0}
    >
      <Head hasProjects={projects.size > 0} />
      <tbody className="run-rows" ref={list} style={{ height: `${virtual.getTotalSize()}px` }}>
        {items.map(({ index, start }) => {
          const row = rows[index];
          return row === undefined ? null : (
            <RunTableRow
              key={row.run_id}
              row={row}
              index={index}
              project={projects.get(row.project)}
              top={start - top}
              height={rowPx}
              isChosen={chosen.includes(row.run_id)}
              onChoose={onChoose}
            />
          );
        })}
      </tbody>
    </table>
  );
}

function Head({ hasProjects }: { hasProjects: boolean }): ReactNode {
  return (
    <thead className="run-head">
      <tr className="run-row">
        <th>
          <span className="hidden-text">Compare</span>
        </th>
        <th>State</th>
        <th>Pipeline</th>
        {hasProjects ? <th className="run-project">Project</th> : null}
        <th>Progress</th>
        <th>Current step</th>
        <th className="end">Duration</th>
        <th className="end">Cost</th>
        <th className="run-owner">Owner</th>
        <th className="end">Started</th>
      </tr>
    </thead>
  );
}

/** Keeps the rows in view where they are when rows above them appear or leave. */
function useSteadyRows(
  rows: readonly RunRow[],
  { top, rowPx }: { readonly top: number; readonly rowPx: number },
): void {
  const before = useRef(rows);
  useLayoutEffect(() => {
    const known = before.current;
    before.current = rows;
    const at = Math.floor((window.scrollY - top) / rowPx);
    const anchor = known[at]?.run_id;
    if (at <= 0 || anchor === undefined || known === rows) return;
    const now = rows.findIndex(({ run_id: id }) => id === anchor);
    if (now !== -1 && now !== at) window.scrollBy(0, (now - at) * rowPx);
  }, [rows, top, rowPx]);
}

interface RowKeys {
  readonly onChoose: (run: string) => void;
  readonly show: (index: number) => void;
}

/** `j` and `k` move the focus from row to row; Enter opens the row's link; `x` chooses it. */
function useRowKeys(rows: readonly RunRow[], { onChoose, show }: RowKeys): void {
  const active = useRef<string>(undefined);
  const move = (step: number): void => {
    const at = rows.findIndex(({ run_id: id }) => id === active.current);
    const next = Math.min(rows.length - 1, Math.max(0, at === -1 ? 0 : at + step));
    const row = rows[next];
    if (row === undefined) return;
    active.current = row.run_id;
    show(next);
    document.getElementById(rowId(row.run_id))?.focus({ preventScroll: true });
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    x: () => {
      if (active.current !== undefined) onChoose(active.current);
    },
  });
}
