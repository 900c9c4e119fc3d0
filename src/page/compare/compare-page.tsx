/**
 * Two runs side by side: their figures, steps, input, context and files. Of the steps, only the rows in
 * view are in the document.
 */
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useRef, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { address, type Doc, type StepRow, useDocument } from "../api.ts";
import { useTop } from "../browser.ts";
import { runHref, stepHref } from "../links.ts";
import { Button, Card, Empty, Failure, Loading } from "../parts/basics.tsx";
import { FileList } from "../parts/diff.tsx";
import { countText, durationText, moneyText } from "../parts/figures.tsx";
import { Status, StatusMark } from "../parts/icon.tsx";
import { Json } from "../parts/json.tsx";
import "../styles/compare.css";

type Comparison = Doc<"comparison">;
type Side = Comparison["left"];

export function ComparePage(): ReactNode {
  const [params] = useSearchParams();
  const [, go] = useLocation();
  const left = params.get("left") ?? "";
  const right = params.get("right") ?? "";
  const isComplete = left !== "" && right !== "";
  const path = isComplete ? "/api/compare" : undefined;
  const { data, error, isLoading } = useDocument<Comparison>(path, { left, right });
  const choose = (next: { left?: string; right?: string }): void =>
    go(address("/compare", { left, right, ...next }));
  return (
    <>
      <header className="page-head">
        <h1>Compare two runs</h1>
        <div className="actions">
          <Button
            icon="compare"
            disabled={!isComplete}
            onClick={() => choose({ left: right, right: left })}
          >
            Swap
          </Button>
        </div>
      </header>
      <div className="sides">
        <RunChoice label="First run" value={left} onChange={(run) => choose({ left: run })} />
        <RunChoice label="Second run" value={right} onChange={(run) => choose({ right: run })} />
      </div>
      {error === undefined ? null : <Failure error={error} />}
      {isLoading && isComplete ? <Loading lines={8} /> : null}
      {isComplete ? null : (
        <Empty title="Choose two runs">
          <p>Above, or by the boxes in the list of runs.</p>
        </Empty>
      )}
      {data === undefined ? null : <Compared comparison={data} />}
    </>
  );
}

/** How many of the latest runs can be chosen. */
const CHOICES_MAX = 200;

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (run: string) => void;
}

function RunChoice({ label, value, onChange }: ChoiceProps): ReactNode {
  const { data } = useDocument<Doc<"runRows">>("/api/runs", { limit: CHOICES_MAX });
  const runs = data?.runs ?? [];
  const known = runs.find(({ run_id: id, short_id: short }) => id === value || short === value);
  return (
    <select
      aria-label={label}
      value={known?.run_id ?? value}
      onChange={(event) => onChange(event.target.value)}
    >
      <option value="">–</option>
      {known === undefined && value !== "" ? <option value={value}>{value}</option> : null}
      {runs.map(({ run_id: id, short_id: short, pipeline, status }) => (
        <option key={id} value={id}>
          {pipeline} {short} ({status})
        </option>
      ))}
    </select>
  );
}

function Compared({ comparison }: { comparison: Comparison }): ReactNode {
  const { left, right, steps, input, context, files } = comparison;
  return (
    <>
      <Figures left={left} right={right} />
      <ComparedSteps steps={steps} names={[left.short_id, right.short_id]} />
      <Inputs input={input} names={[left.short_id, right.short_id]} />
      <ContextCard context={context} names={[left.short_id, right.short_id]} />
      <Card title="Files">
        <div className="card-body">
          {files === null ? (
            <p className="faint">The files of these runs cannot be compared.</p>
          ) : files.length === 0 ? (
            <p className="faint">Both runs have the same files.</p>
          ) : (
            <FileList files={files} />
          )}
        </div>
      </Card>
    </>
  );
}

function Figures({ left, right }: { left: Side; right: Side }): ReactNode {
  return (
    <Card>
      <table className="compared">
        <thead>
          <tr>
            <th>
              <span className="hidden-text">Figure</span>
            </th>
            {[left, right].map((side, index) => (
              // Both sides may show the same run.
              <th key={`${index}${side.run_id}`} scope="col">
                <span className="run-title">
                  <Link href={runHref(side.short_id)}>{side.pipeline}</Link>
                  <span className="mono faint small">{side.short_id}</span>
                </span>
              </th>
            ))}
            <th scope="col">Difference</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">State</th>
            <td>
              <Status status={left.status} />
            </td>
            <td>
              <Status status={right.status} />
            </td>
            <td className="faint">{left.status === right.status ? "the same" : "differs"}</td>
          </tr>
          <Figure label="Duration" of={[left.elapsed_ms, right.elapsed_ms]} text={durationText} />
          <Figure label="Cost" of={[left.cost_usd, right.cost_usd]} text={moneyText} />
          <Figure label="Tokens" of={[left.tokens, right.tokens]} text={countText} />
        </tbody>
      </table>
    </Card>
  );
}

interface FigureProps {
  readonly label: string;
  readonly of: readonly [number | null, number | null];
  readonly text: (value: number) => string;
}

function Figure({ label, of: [left, right], text }: FigureProps): ReactNode {
  return (
    <tr>
      <th scope="row">{label}</th>
      <td className="figure">{left === null ? "–" : text(left)}</td>
      <td className="figure">{right === null ? "–" : text(right)}</td>
      <td className="figure faint">{differenceText(left, right, text)}</td>
    </tr>
  );
}

/** `+2m (1.5×)`. */
function differenceText(
  left: number | null,
  right: number | null,
  text: (value: number) => string,
): string {
  if (left === null || right === null) return "–";
  if (left === right) return "the same";
  const sign = right > left ? "+" : "−";
  const ratio = left > 0 ? ` (${(right / left).toFixed(2)}×)` : "";
  return `${sign}${text(Math.abs(right - left))}${ratio}`;
}

type Names = readonly [left: string, right: string];

function Inputs({ input, names }: { input: Comparison["input"]; names: Names }): ReactNode {
  const isSame = JSON.stringify(input.left) === JSON.stringify(input.right);
  return (
    <Card
      title="Input"
      aside={<span className="faint small">{isSame ? "the same" : "differs"}</span>}
    >
      <div className="card-body compared-values">
        {isSame ? (
          <Json value={input.left} label="the input" />
        ) : (
          <>
            <Json value={input.left} label={`the input of ${names[0]}`} levels={2} />
            <Json value={input.right} label={`the input of ${names[1]}`} levels={2} />
          </>
        )}
      </div>
    </Card>
  );
}

function ContextCard(props: { context: Comparison["context"]; names: Names }): ReactNode {
  const { context, names } = props;
  const rows: readonly (readonly [key: string, left: unknown, right: unknown])[] = [
    ...Object.entries(context.changed).map(([key, { from, to }]) => [key, from, to] as const),
    ...Object.entries(context.added).map(([key, value]) => [key, undefined, value] as const),
    ...context.removed.map((key) => [key, REMOVED, undefined] as const),
  ];
  return (
    <Card title="Context">
      {rows.length === 0 ? (
        <p className="card-body faint">Both runs have the same context.</p>
      ) : (
        <table className="compared">
          <thead>
            <tr>
              <th>Key</th>
              <th className="mono">{names[0]}</th>
              <th className="mono">{names[1]}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(([key, left, right]) => (
              <tr key={key}>
                <th scope="row" className="mono">
                  {key}
                </th>
                <td>
                  <ContextValue name={key} value={left} />
                </td>
                <td>
                  <ContextValue name={key} value={right} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

/** Only its key is known. */
const REMOVED = Symbol("removed");

function ContextValue({ name, value }: { name: string; value: unknown }): ReactNode {
  if (value === undefined) return <span className="faint">–</span>;
  if (value === REMOVED) return <span className="faint">is set</span>;
  return <Json value={value} label={name} />;
}

type ComparedStep = Doc<"comparison">["steps"][number];

const ROW_PX = 38;

interface ComparedStepsProps {
  readonly steps: readonly ComparedStep[];
  readonly names: readonly [left: string, right: string];
}

function ComparedSteps({ steps, names }: ComparedStepsProps): ReactNode {
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
