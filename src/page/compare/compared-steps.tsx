/** The steps of two runs, each beside its counterpart. Only the rows in view are in the document. */
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useRef, useState } from "react";
import { Link } from "wouter";
import type { Doc, StepRow } from "../api.ts";
import { stepHref } from "../links.ts";
import { useTop } from "../media.ts";
import { durationText, moneyText } from "../parts/figures.tsx";
import { StatusMark } from "../parts/status.tsx";

type ComparedStep = Doc<"comparison">["steps"][number];

const ROW_PX = 38;

interface ComparedStepsProps {
  readonly steps: readonly ComparedStep[];
  readonly names: readonly [left: string, right: string];
}

export function ComparedSteps({ steps, names }: ComparedStepsProps): ReactNode {
  const differing = steps.filter(({ same }) => !same);
  const [isAll, setAll] = useState(differing.length === 0);
  const shown = isAll ? steps : differing;
  return (
    <section className="card" aria-labelledby="compared-steps">
      <header className="card-head">
        <h2 id="compared-steps">Steps</h2>
        <label className="flag small">
          <input
            type="checkbox"
            checked={!isAll}
            onChange={(event) => setAll(!event.target.checked)}
          />
          only the {differing.length} of {steps.length} that differ
        </label>
      </header>
      {shown.length === 0 ? (
        <p className="card-body faint">Every step went the same way.</p>
      ) : (
        <StepTable steps={shown} names={names} />
      )}
    </section>
  );
}

function StepTable({ steps, names }: ComparedStepsProps): ReactNode {
  const list = useRef<HTMLTableSectionElement>(null);
  const top = useTop(list);
  const virtual = useWindowVirtualizer({
    count: steps.length,
    estimateSize: () => ROW_PX,
    overscan: 10,
    scrollMargin: top,
  });
  return (
    <table className="compared-steps" aria-rowcount={steps.length + 1}>
      <thead>
        <tr>
          <th>Step</th>
          <th className="mono">{names[0]}</th>
          <th className="mono">{names[1]}</th>
          <th>Difference</th>
        </tr>
      </thead>
      <tbody ref={list} style={{ height: `${virtual.getTotalSize()}px` }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const step = steps[index];
          return step === undefined ? null : (
            <tr
              key={step.step}
              aria-rowindex={index + 2}
              style={{ height: `${ROW_PX}px`, transform: `translateY(${start - top}px)` }}
            >
              <th scope="row" className="mono cut" title={step.step}>
                {step.step}
              </th>
              <Outcome row={step.left} run={names[0]} />
              <Outcome row={step.right} run={names[1]} />
              <td className="faint cut">{stepDifference(step)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Outcome({ row, run }: { row: StepRow | null; run: string }): ReactNode {
  if (row === null) return <td className="faint">–</td>;
  return (
    <td>
      <Link className="outcome" href={stepHref(run, row.step)}>
        <StatusMark status={row.status} />
        <span className="cut">{row.status}</span>
        {row.worked_ms === 0 ? null : (
          <span className="figure faint">{durationText(row.worked_ms)}</span>
        )}
        {row.cost_usd === null ? null : (
          <span className="figure faint">{moneyText(row.cost_usd)}</span>
        )}
      </Link>
    </td>
  );
}

/** What is not the same: the state, the attempts, the time or the cost. */
function stepDifference({ left, right, same }: ComparedStep): string {
  if (left === null) return "only in the second run";
  if (right === null) return "only in the first run";
  const times = (row: StepRow): string => `${row.visit}.${row.attempt}`;
  const parts = [
    left.status === right.status ? "" : `${left.status} → ${right.status}`,
    times(left) === times(right) || left.attempt === 0 || right.attempt === 0
      ? ""
      : `attempt ${times(left)} → ${times(right)}`,
    ratioText(left.worked_ms, right.worked_ms),
    left.cost_usd === null || right.cost_usd === null || left.cost_usd === right.cost_usd
      ? ""
      : `${moneyText(left.cost_usd)} → ${moneyText(right.cost_usd)}`,
  ].filter((part) => part !== "");
  if (parts.length > 0) return parts.join(", ");
  return same ? "the same" : "differs";
}

/** Times below this are noise. */
const NOISE_MS = 1_000;

function ratioText(left: number, right: number): string {
  if (Math.max(left, right) < NOISE_MS || left === 0 || right === 0) return "";
  const ratio = right / left;
  if (ratio > 0.8 && ratio < 1.25) return "";
  return ratio > 1 ? `${ratio.toFixed(1)}× slower` : `${(1 / ratio).toFixed(1)}× faster`;
}
