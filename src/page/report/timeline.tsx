/** The attempts of a run over time, as bars that print. */
import type { ReactNode } from "react";
import type { CommandDoc } from "../api.ts";
import { durationText } from "../parts/figures.tsx";
import { tintOf } from "../parts/status.tsx";
import { markOf } from "../step/attempt-list.tsx";

type ReportDoc = CommandDoc<"report">;

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
