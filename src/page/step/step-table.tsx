/** Steps as rows: state, path, words and time; only those in sight are in the document. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useRef } from "react";
import { Link } from "wouter";
import type { StepRow } from "../api.ts";
import { stepHref } from "../links.ts";
import { Duration } from "../parts/figures.tsx";
import { StatusMark } from "../parts/status.tsx";
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
