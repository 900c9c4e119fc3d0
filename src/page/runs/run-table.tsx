/**
 * The table of runs. Only the rows in view are in the document, so thousands scroll as ten do; rows
 * that appear above or leave do not move what a person looks at.
 */
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { memo, type ReactNode, useEffect, useLayoutEffect, useRef } from "react";
import { Link } from "wouter";
import type { RunRow } from "../api.ts";
import { useIsPhone, useKeys, useTop } from "../browser.ts";
import { Ago, countText, Duration, Money, Progress } from "../parts/figures.tsx";
import { Icon, Status, tintOf } from "../parts/icon.tsx";

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

interface RowProps {
  readonly row: RunRow;
  readonly index: number;
  readonly project: string | undefined;
  readonly top: number;
  readonly height: number;
  readonly isChosen: boolean;
  readonly onChoose: (run: string) => void;
}

const RunTableRow = memo(function RunTableRow(props: RowProps): ReactNode {
  const { row, index, project, top, height, isChosen, onChoose } = props;
  const name = `${row.pipeline} ${row.short_id}`;
  return (
    <tr
      className="run-row"
      aria-rowindex={index + 2}
      data-chosen={isChosen}
      style={{ height: `${height}px`, transform: `translateY(${top}px)` }}
    >
      <td className="run-choice">
        <input
          type="checkbox"
          aria-label={`Compare ${name}`}
          checked={isChosen}
          onChange={() => onChoose(row.run_id)}
        />
      </td>
      <td className="run-status">
        <Status status={row.status} />
      </td>
      <td className="run-name">
        <Link id={rowId(row.run_id)} href={`/runs/${row.short_id}`} className="row-link">
          <span className="cut">{row.pipeline}</span>
          <span className="mono faint">{row.short_id}</span>
          {row.about === null ? null : (
            <span className="row-about cut faint" title={row.about}>
              {row.about}
            </span>
          )}
        </Link>
        {row.forked_from === null ? null : (
          <span className="faint" title="A fork of another run">
            <Icon name="fork" size={13} />
            <span className="hidden-text">fork</span>
          </span>
        )}
      </td>
      {project === undefined ? null : <td className="run-project cut faint">{project}</td>}
      <Figures row={row} />
    </tr>
  );
});

function Figures({ row }: { row: RunRow }): ReactNode {
  const isOpen = row.owner !== null && row.status !== "completed" && row.status !== "failed";
  return (
    <>
      <td className="run-progress">
        <StepProgress row={row} />
      </td>
      <td className="run-step cut mono" title={row.current_step ?? undefined}>
        {row.current_step ?? <span className="faint">–</span>}
      </td>
      <td className="run-duration end">
        <Duration ms={row.elapsed_ms} runningSince={isOpen ? row.created_at : undefined} />
      </td>
      <td className="run-cost end" title={tokensText(row.tokens)}>
        <Money usd={row.cost_usd} />
      </td>
      <td className="run-owner cut faint" title={row.owner ?? undefined}>
        {row.owner ?? "–"}
      </td>
      <td className="run-started end faint">
        <Ago time={row.created_at} />
      </td>
    </>
  );
}

function tokensText(tokens: number | null): string | undefined {
  return tokens === null ? undefined : `${countText(tokens)} tokens`;
}

function StepProgress({ row }: { row: RunRow }): ReactNode {
  const { steps_completed: done, steps_total: total, status } = row;
  const rest = status === "completed" || status === "queued" ? 0 : 1;
  const parts = [
    { tint: "done", count: done },
    { tint: tintOf(status), count: done < total ? rest : 0 },
  ];
  return (
    <>
      <Progress parts={parts} total={total} label={`${done} of ${total} steps completed`} />
      <span className="figure faint small" aria-hidden="true">
        {done}/{total}
      </span>
    </>
  );
}

/** The id of the link in a run's row. */
function rowId(run: string): string {
  return `run-${run}`;
}
