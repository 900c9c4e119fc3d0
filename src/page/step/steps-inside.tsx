/** The steps inside a composite step; those that failed come first. */
import { type ReactNode, useEffect, useMemo } from "react";
import { type Doc, runPath, type StepRow } from "../api.ts";
import { useDocument } from "../data.ts";
import { Empty, Failure, Loading } from "../parts/basics.tsx";
import { StepTable } from "./step-table.tsx";

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
