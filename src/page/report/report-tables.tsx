/**
 * The tables of a report, of which a long one shows its beginning and its end, and its attempts over
 * time, as bars that print.
 */
import type { ReactNode } from "react";
import { Link } from "wouter";
import type { CommandDoc } from "../api.ts";
import { stepHref } from "../links.ts";
import { durationText, fullTime, moneyText } from "../parts/figures.tsx";
import { markOf, Status, tintOf } from "../parts/icon.tsx";

type ReportDoc = CommandDoc<"report">;

/** How many rows a table has at most. */
const ROWS_MAX = 400;

interface Column<T> {
  readonly name: string;
  readonly cell: (row: T) => ReactNode;
  /** Figures are aligned at the right. */
  readonly isFigure?: boolean;
}

interface TableProps<T> {
  readonly title: string;
  readonly rows: readonly T[];
  readonly columns: readonly Column<T>[];
  readonly keyOf: (row: T) => string;
  readonly none?: string;
}

function ReportTable<T>(props: TableProps<T>): ReactNode {
  const { title, rows, keyOf, none } = props;
  // A column that is empty in every row says nothing.
  const columns = props.columns.filter(({ cell }) => rows.some((row) => cell(row) !== ""));
  if (rows.length === 0 && none === undefined) return null;
  const half = ROWS_MAX / 2;
  const leftOut = Math.max(0, rows.length - ROWS_MAX);
  const shown = leftOut === 0 ? rows : [...rows.slice(0, half), ...rows.slice(-half)];
  return (
    <section className="report-part">
      <h2>{title}</h2>
      {rows.length === 0 ? (
        <p className="faint">{none}</p>
      ) : (
        <section
          className="report-wide"
          aria-label={title}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
          tabIndex={0}
        >
          <table>
            <thead>
              <tr>
                {columns.map(({ name, isFigure = false }) => (
                  <th key={name} scope="col" data-figure={isFigure}>
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {shown.map((row) => (
                <tr key={keyOf(row)}>
                  {columns.map(({ name, cell, isFigure = false }) => (
                    <td key={name} data-figure={isFigure}>
                      {cell(row)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      {leftOut === 0 ? null : (
        <p className="faint small">{leftOut} rows between these are left out.</p>
      )}
    </section>
  );
}

function usedText(spent: ReportDoc["spent"]): string {
  if (spent === null) return "";
  const tokens = spent.input_tokens + spent.cached_tokens + spent.output_tokens;
  const cost = spent.cost_usd === undefined ? [] : [moneyText(spent.cost_usd)];
  return [...cost, `${tokens.toLocaleString("en")} tokens`].join(", ");
}

export function Steps({ report, run }: { report: ReportDoc; run: string }): ReactNode {
  return (
    <ReportTable
      title="Steps"
      rows={report.steps}
      keyOf={({ step }) => step}
      columns={[
        { name: "Step", cell: ({ step }) => <Link href={stepHref(run, step)}>{step}</Link> },
        { name: "State", cell: ({ status, detail }) => <Status status={status} word={detail} /> },
        { name: "Visits", isFigure: true, cell: ({ visits }) => visits || "" },
        { name: "Attempts", isFigure: true, cell: ({ attempts }) => attempts || "" },
        {
          name: "Time",
          isFigure: true,
          cell: ({ attempts, worked_ms }) => (attempts === 0 ? "" : durationText(worked_ms)),
        },
        { name: "Used", isFigure: true, cell: ({ spent }) => usedText(spent) },
        { name: "Result", cell: ({ result }) => result },
      ]}
    />
  );
}

export function Problems({ report }: { report: ReportDoc }): ReactNode {
  return (
    <ReportTable
      title="Problems"
      rows={report.problems}
      keyOf={({ sequence }) => String(sequence)}
      none="None."
      columns={[
        { name: "When", cell: ({ time }) => fullTime(time) },
        {
          name: "Attempt",
          cell: ({ step, visit, attempt }) => <code>{`${step}@${visit}.${attempt}`}</code>,
        },
        {
          name: "What",
          cell: ({ kind }) => (
            <Status
              status={kind === "failed" || kind === "lost" ? "failed" : "waiting"}
              word={kind}
            />
          ),
        },
        { name: "Why", cell: ({ why }) => why },
        { name: "Handled", cell: ({ handling }) => handling.join("; then ") || "not yet" },
      ]}
    />
  );
}

export function Path({ report }: { report: ReportDoc }): ReactNode {
  return (
    <ReportTable
      title="Path"
      rows={report.visits}
      keyOf={({ step, visit }) => `${step}@${visit}`}
      none="No step has started."
      columns={[
        { name: "Visit", cell: ({ step, visit }) => <code>{`${step}@${visit}`}</code> },
        { name: "Began", cell: ({ started_at }) => fullTime(started_at) },
        {
          name: "Took",
          isFigure: true,
          cell: ({ started_at, ended_at }) =>
            ended_at === null
              ? ""
              : durationText(Math.max(0, Date.parse(ended_at) - Date.parse(started_at))),
        },
        { name: "Attempts", isFigure: true, cell: ({ attempts }) => attempts || "" },
        { name: "Outcome", cell: ({ detail }) => detail },
        { name: "Next", cell: ({ led_to }) => led_to.join(", ") },
      ]}
    />
  );
}

const VALUE_MAX = 400;

function valueText(value: unknown): string {
  const text = JSON.stringify(value) ?? "";
  return text.length > VALUE_MAX ? `${text.slice(0, VALUE_MAX)}…` : text;
}

export function ContextTable({ report }: { report: ReportDoc }): ReactNode {
  return (
    <ReportTable
      title="Context"
      rows={report.context}
      keyOf={({ sequence, key }) => `${sequence} ${key}`}
      columns={[
        { name: "When", cell: ({ time }) => fullTime(time) },
        { name: "By", cell: ({ by }) => <code>{by}</code> },
        { name: "Key", cell: ({ key }) => <code>{key}</code> },
        {
          name: "Before",
          cell: ({ before, is_new }) => (is_new ? "" : <code>{valueText(before)}</code>),
        },
        { name: "After", cell: ({ after }) => <code>{valueText(after)}</code> },
      ]}
    />
  );
}

export function Runners({ report }: { report: ReportDoc }): ReactNode {
  return (
    <ReportTable
      title="Runners"
      rows={report.owners}
      keyOf={({ epoch }) => String(epoch)}
      columns={[
        { name: "Owner", cell: ({ user, host, pid }) => `${user} on ${host} (process ${pid})` },
        { name: "From", cell: ({ from }) => fullTime(from) },
        {
          name: "For",
          isFigure: true,
          cell: ({ from, until }) =>
            durationText(Math.max(0, Date.parse(until) - Date.parse(from))),
        },
        { name: "How it ended", cell: ({ left }) => left },
      ]}
    />
  );
}

export function Decisions({ report }: { report: ReportDoc }): ReactNode {
  return (
    <ReportTable
      title="Decisions"
      rows={report.decisions}
      keyOf={({ sequence }) => String(sequence)}
      columns={[
        { name: "Event", isFigure: true, cell: ({ sequence }) => sequence },
        { name: "When", cell: ({ time }) => fullTime(time) },
        { name: "Decision", cell: ({ what }) => what },
      ]}
    />
  );
}

/** A picture stays one that can be read. */
const BARS_MAX = 200;
const TICKS = 4;

export function Timeline({ report }: { report: ReportDoc }): ReactNode {
  const { attempts, started_at, ended_at } = report;
  if (attempts.length === 0) return null;
  const from = Date.parse(started_at ?? attempts[0]?.started_at ?? ended_at);
  const total = Math.max(1, Date.parse(ended_at) - from);
  const percent = (time: number): number =>
    Math.min(100, Math.max(0, (100 * (time - from)) / total));
  return (
    <section className="report-part">
      <h2>Timeline</h2>
      <div className="report-axis" aria-hidden="true">
        {Array.from({ length: TICKS + 1 }, (_, index) => index / TICKS).map((part) => (
          <span key={part}>{durationText(total * part)}</span>
        ))}
      </div>
      <ol className="report-bars">
        {attempts.slice(0, BARS_MAX).map((attempt) => {
          const name = `${attempt.step}@${attempt.visit}.${attempt.attempt}`;
          const start = percent(Date.parse(attempt.started_at));
          const end = percent(
            attempt.ended_at === null ? from + total : Date.parse(attempt.ended_at),
          );
          return (
            <li key={name}>
              <code title={name}>{shortName(name)}</code>
              <span className="report-track">
                <i
                  data-tint={tintOf(markOf(attempt.status))}
                  data-composite={attempt.composite}
                  style={{ left: `${start}%`, width: `${end - start}%` }}
                />
              </span>
              <span className="faint figure small">
                {attempt.status} {durationText(attempt.worked_ms)}
              </span>
            </li>
          );
        })}
      </ol>
      {attempts.length > BARS_MAX ? (
        <p className="faint small">{attempts.length - BARS_MAX} more attempts are not drawn.</p>
      ) : null}
    </section>
  );
}

const NAME_MAX = 26;
const NAME_START = 9;

/** The beginning and the end of a long name: the end says which item and which attempt. */
function shortName(name: string): string {
  if (name.length <= NAME_MAX) return name;
  return `${name.slice(0, NAME_START)}…${name.slice(NAME_START + 1 - NAME_MAX)}`;
}
