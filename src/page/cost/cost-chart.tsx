/**
 * A stacked bar for each day, drawn by hand: one colour for each of the dearest pipelines, one for
 * the rest. A table shows the same figures to everybody who cannot see it.
 */
import { type ReactNode, useMemo, useState } from "react";
import type { Doc } from "../api.ts";
import { countText, moneyText } from "../parts/figures.tsx";

type Cost = Doc<"cost">;

/** Pipelines with a colour of their own (`--series-1` and so on). */
const SERIES_MAX = 5;
const DAY_MS = 86_400_000;
const LINES = 4;
const HEIGHT = 100;
/** The part of its column that a bar fills. */
const BAR_PART = 0.72;

interface Column {
  readonly day: string;
  readonly total: number;
  readonly runs: number;
  /** What each series adds, from the bottom. */
  readonly parts: readonly number[];
}

export function CostChart({ cost }: { cost: Cost }): ReactNode {
  const { names, columns, isMoney } = useMemo(() => chartOf(cost), [cost]);
  const [shown, setShown] = useState<number>();
  const top = niceTop(Math.max(...columns.map(({ total }) => total), 0));
  const text = isMoney ? moneyText : countText;
  const lines = Array.from({ length: LINES + 1 }, (_, index) => (top * (LINES - index)) / LINES);
  return (
    <figure className="cost-chart">
      <div className="chart-area">
        <div className="chart-scale figure faint" aria-hidden="true">
          {lines.map((value) => (
            <span key={value}>{isMoney ? scaleText(value, top) : countText(value)}</span>
          ))}
        </div>
        <div className="chart-plot" onPointerLeave={() => setShown(undefined)}>
          {lines.map((value) => (
            <i key={value} style={{ bottom: `${(100 * value) / top}%` }} />
          ))}
          <Bars columns={columns} top={top} shown={shown} onShow={setShown} />
          {shown === undefined ? null : (
            <Tip columns={columns} at={shown} names={names} text={text} />
          )}
        </div>
        <DayScale columns={columns} />
      </div>
      <Legend names={names} />
      <DayTable columns={columns} names={names} text={text} />
    </figure>
  );
}

/** The days of the period, including those on which nothing was spent. */
function chartOf(cost: Cost): {
  readonly names: readonly string[];
  readonly columns: readonly Column[];
  readonly isMoney: boolean;
} {
  const isMoney = cost.total.usd > 0;
  const spent = new Map(cost.days.map((day) => [day.day, day]));
  const own = isMoney
    ? cost.by_pipeline
        .filter(({ usd }) => usd > 0)
        .slice(0, SERIES_MAX)
        .map(({ name }) => name)
    : [];
  const hasRest = cost.by_pipeline.filter(({ usd }) => usd > 0).length > own.length;
  const names = isMoney ? [...own, ...(hasRest ? ["others"] : [])] : ["tokens"];
  const columns: Column[] = [];
  const end = Date.now();
  for (let at = Date.parse(cost.since.slice(0, 10)); at <= end; at += DAY_MS) {
    const day = new Date(at).toISOString().slice(0, 10);
    const { usd = 0, tokens = 0, runs = 0, by = {} } = spent.get(day) ?? {};
    const total = isMoney ? usd : tokens;
    const parts = own.map((name) => by[name] ?? 0);
    const rest = total - parts.reduce((sum, part) => sum + part, 0);
    columns.push({ day, total, runs, parts: names.length > own.length ? [...parts, rest] : parts });
  }
  return { names, columns, isMoney };
}

/** A round number at or above the largest value. */
function niceTop(largest: number): number {
  if (largest <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(largest));
  const factor = [1, 2, 4, 5, 8, 10].find((one) => one * unit >= largest) ?? 10;
  return factor * unit;
}

const DIGITS_MAX = 6;

/** An amount beside a line, with as many digits as the distance of the lines needs. */
function scaleText(value: number, top: number): string {
  if (value === 0) return "0";
  const unit = top / LINES;
  let digits = Number.isInteger(unit) ? 0 : 2;
  while (digits < DIGITS_MAX && Math.abs(unit - Number(unit.toFixed(digits))) > unit / 100)
    digits++;
  return `$${value.toFixed(digits)}`;
}

interface BarsProps {
  readonly columns: readonly Column[];
  readonly top: number;
  readonly shown: number | undefined;
  readonly onShow: (at: number) => void;
}

function Bars({ columns, top, shown, onShow }: BarsProps): ReactNode {
  return (
    <svg
      viewBox={`0 0 ${columns.length} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label="A bar for each day; the table below has the figures"
    >
      {columns.map(({ day, parts }, at) => {
        let below = HEIGHT;
        return (
          <g key={day} data-faint={shown !== undefined && shown !== at}>
            {parts.map((part, series) => {
              const height = (HEIGHT * Math.max(0, part)) / top;
              below -= height;
              return (
                <rect
                  key={series}
                  className={`series-${series + 1}`}
                  x={at + (1 - BAR_PART) / 2}
                  y={below}
                  width={BAR_PART}
                  height={height}
                />
              );
            })}
            <rect
              className="chart-touch"
              x={at}
              y={0}
              width={1}
              height={HEIGHT}
              onPointerEnter={() => onShow(at)}
            />
          </g>
        );
      })}
    </svg>
  );
}

interface TipProps {
  readonly columns: readonly Column[];
  readonly at: number;
  readonly names: readonly string[];
  readonly text: (value: number) => string;
}

function Tip({ columns, at, names, text }: TipProps): ReactNode {
  const column = columns[at];
  if (column === undefined) return null;
  const left = (100 * (at + 0.5)) / columns.length;
  return (
    <div className="chart-tip" data-end={left > 50} style={{ left: `${left}%` }}>
      <strong>{dayText(column.day)}</strong>
      <span className="figure">
        {text(column.total)}, {column.runs} {column.runs === 1 ? "run" : "runs"}
      </span>
      {names.map((name, series) => {
        const part = column.parts[series] ?? 0;
        return part <= 0 ? null : (
          <span key={name}>
            <b className={`key series-${series + 1}`} />
            <span className="cut">{name}</span>
            <span className="figure">{text(part)}</span>
          </span>
        );
      })}
    </div>
  );
}

function dayText(day: string): string {
  return new Date(`${day}T00:00:00Z`).toLocaleDateString(undefined, {
    day: "numeric",
    month: "short",
    timeZone: "UTC",
  });
}

/** About six labels below the bars. */
const LABELS = 6;

function DayScale({ columns }: { columns: readonly Column[] }): ReactNode {
  const every = Math.max(1, Math.ceil(columns.length / LABELS));
  return (
    <div className="chart-days figure faint" aria-hidden="true">
      {columns.map(({ day }, at) => {
        if (at % every !== 0) return null;
        // Below the middle of its bar; at the ends it stays inside.
        const left = `${(100 * (at + 0.5)) / columns.length}%`;
        return (
          <span key={day} style={{ left, transform: `translateX(-${left})` }}>
            {dayText(day)}
          </span>
        );
      })}
    </div>
  );
}

function Legend({ names }: { names: readonly string[] }): ReactNode {
  return (
    <figcaption className="legend">
      {names.map((name, series) => (
        <span key={name}>
          <b className={`key series-${series + 1}`} />
          <span className="cut">{name}</span>
        </span>
      ))}
    </figcaption>
  );
}

function DayTable(props: Pick<TipProps, "columns" | "names" | "text">): ReactNode {
  const { columns, names, text } = props;
  const spent = columns.filter(({ total }) => total > 0).toReversed();
  return (
    <details className="day-table">
      <summary>The figures as a table</summary>
      <table>
        <thead>
          <tr>
            <th>Day</th>
            <th className="end">All</th>
            {names.map((name) => (
              <th key={name} className="end">
                {name}
              </th>
            ))}
            <th className="end">Runs</th>
          </tr>
        </thead>
        <tbody>
          {spent.map(({ day, total, runs, parts }) => (
            <tr key={day}>
              <th scope="row" className="figure">
                {day}
              </th>
              <td className="end figure">{text(total)}</td>
              {names.map((name, series) => (
                <td key={name} className="end figure faint">
                  {text(parts[series] ?? 0)}
                </td>
              ))}
              <td className="end figure">{runs}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
