/** One run in the table; a compact card on a phone. */
import { memo, type ReactNode } from "react";
import { Link } from "wouter";
import type { RunRow } from "../api.ts";
import { Ago, countText, Duration, Money, Progress } from "../parts/figures.tsx";
import { Icon } from "../parts/icon.tsx";
import { Status, tintOf } from "../parts/status.tsx";

interface RowProps {
  readonly row: RunRow;
  readonly index: number;
  readonly project: string | undefined;
  readonly top: number;
  readonly height: number;
  readonly isChosen: boolean;
  readonly onChoose: (run: string) => void;
}

export const RunTableRow = memo(function RunTableRow(props: RowProps): ReactNode {
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
export function rowId(run: string): string {
  return `run-${run}`;
}
