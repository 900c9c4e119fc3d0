/**
 * Steps as rows: state, path, words and time; only those in sight are in the document. Of the steps
 * inside a composite step, those that failed come first.
 */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useMemo, useRef } from "react";
import { Link } from "wouter";
import { type Doc, runPath, type StepRow, useDocument } from "../api.ts";
import { stepHref } from "../links.ts";
import { Empty, Failure, Loading } from "../parts/basics.tsx";
import { Duration } from "../parts/figures.tsx";
import { StatusMark } from "../parts/icon.tsx";
import "../styles/step-table.css";

const ROW_PX = 34;

interface StepTableProps {
  readonly run: string;
  readonly rows: readonly StepRow[];
  readonly label: string;
}

export function StepTable({ run, rows, label }: StepTableProps): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 10,
  });
  return (
    <div className="step-table" ref={box}>
      <ol style={{ height: virtual.getTotalSize() }} aria-label={label}>
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index];
          if (row === undefined) return null;
          return (
            <li key={row.step} style={{ transform: `translateY(${item.start}px)` }}>
              <StatusMark status={row.status} />
              <Link className="cut" href={stepHref(run, row.step)} title={row.step}>
                {row.label}
              </Link>
              <span className="faint cut">{row.message ?? row.detail}</span>
              {row.worked_ms > 0 ? <Duration ms={row.worked_ms} /> : <span />}
            </li>
          );
        })}
      </ol>
    </div>
  );
}

interface StepsInsideProps {
  readonly run: string;
  readonly step: string;
  /** Changes when the step has changed. */
  readonly version: number;
}

export function StepsInside({ run, step, version }: StepsInsideProps): ReactNode {
  const { data, error, reload } = useDocument<Doc<"runPage">>(runPath(run));
  useEffect(() => {
    if (version > 0) reload();
  }, [version, reload]);
  const rows = useMemo(() => rowsInside(data?.steps ?? [], step), [data, step]);
  if (error !== undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading lines={6} />;
  if (rows.length === 0) return <Empty title="Nothing inside it has started" />;
  return <StepTable run={run} rows={rows} label={`Steps inside ${step}`} />;
}

const RANKS: Readonly<Partial<Record<StepRow["status"], number>>> = {
  failed: 0,
  running: 1,
  retrying: 1,
  waiting: 1,
  interrupted: 1,
};

function rowsInside(rows: readonly StepRow[], step: string): readonly StepRow[] {
  const rank = ({ status }: StepRow): number => RANKS[status] ?? 2;
  return rows.filter(({ parent }) => parent === step).toSorted((a, b) => rank(a) - rank(b));
}
