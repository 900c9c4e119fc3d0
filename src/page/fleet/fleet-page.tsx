/** The fleet: its workers with what they do, its queues, groups and schedules, and its dead letters. */
import { type ReactNode, useEffect } from "react";
import { Link } from "wouter";
import { type CommandDoc, useDocument } from "../api.ts";
import { runHref } from "../links.ts";
import { Card, CommandLine, Empty, Failure, Loading } from "../parts/basics.tsx";
import { Ago, fullTime } from "../parts/figures.tsx";
import { type AnyStatus, Status } from "../parts/icon.tsx";
import "../styles/fleet.css";

type Fleet = CommandDoc<"workers">;
type Worker = Fleet["workers"][number];

const READ_AGAIN_MS = 3_000;
const SHORT_ID_LENGTH = 8;
/** How many runs of a worker are named. */
const RUNS_MAX = 6;

const LOOKS: Readonly<Record<Worker["state"], AnyStatus>> = {
  working: "running",
  draining: "waiting",
  silent: "failed",
  ended: "skipped",
};

export function FleetPage(): ReactNode {
  const { data, error, isLoading, reload } = useDocument<Fleet>("/api/fleet");
  useRepeated(reload);
  return (
    <>
      <header className="page-head">
        <h1>Fleet</h1>
      </header>
      {error === undefined ? null : <Failure error={error} />}
      {isLoading ? <Loading lines={8} /> : null}
      {data === undefined ? null : <FleetBody fleet={data} />}
    </>
  );
}

function FleetBody({ fleet }: { fleet: Fleet }): ReactNode {
  return (
    <>
      <Totals fleet={fleet} />
      <DeadLetters letters={fleet.dead_letters} />
      <Workers workers={fleet.workers} />
      <div className="fleet-tables">
        <Queues queues={fleet.queues} />
        <Groups groups={fleet.groups} />
        <Schedules schedules={fleet.schedules} />
      </div>
    </>
  );
}

function Totals({ fleet: { workers, queues } }: { fleet: Fleet }): ReactNode {
  const working = workers.filter(({ state }) => state === "working");
  const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);
  const places = sum(working.map(({ concurrency }) => concurrency));
  const runs = sum(workers.filter(({ state }) => state !== "ended").map((one) => one.runs.length));
  const totals = {
    "Workers that take runs": String(working.length),
    "Runs at workers": `${runs} of ${places}`,
    "Runs that want a worker": String(sum(queues.map(({ queued }) => queued))),
    "Runs that wait for a time": String(sum(queues.map(({ deferred }) => deferred))),
  };
  return (
    <dl className="totals">
      {Object.entries(totals).map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd className="figure">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function DeadLetters({ letters }: { letters: Fleet["dead_letters"] }): ReactNode {
  return letters.map(({ run_id: id, reason, time }) => (
    <Card
      key={id}
      className="fleet-letter"
      tint="failed"
      title={`No worker could drive run ${id.slice(0, SHORT_ID_LENGTH)}`}
      aside={
        <span className="faint small">
          <Ago time={time} />
        </span>
      }
    >
      <div className="card-body">
        <p>{reason}</p>
        <Link href={runHref(id)}>See the run</Link>
        <CommandLine command={`perdure resume ${id.slice(0, SHORT_ID_LENGTH)}`} />
      </div>
    </Card>
  ));
}

function Workers({ workers }: { workers: readonly Worker[] }): ReactNode {
  if (workers.length === 0) {
    return (
      <Empty title="No worker has been here yet">
        <p>Start one on a machine that can reach the store:</p>
        <CommandLine command="perdure worker" />
      </Empty>
    );
  }
  return (
    <Card title="Workers">
      <table className="fleet-table">
        <thead>
          <tr>
            <th>Worker</th>
            <th>State</th>
            <th>Load</th>
            <th>Runs</th>
            <th>Labels</th>
            <th className="end">Last contact</th>
          </tr>
        </thead>
        <tbody>
          {workers.map((worker) => (
            <WorkerRow key={worker.worker} worker={worker} />
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function WorkerRow({ worker }: { worker: Worker }): ReactNode {
  const { state, host, labels, runs, concurrency } = worker;
  const started = `version ${worker.version}, started ${fullTime(worker.started_at)}`;
  return (
    <tr>
      <th scope="row" title={started}>
        {host} <span className="mono faint small">{worker.worker.slice(0, SHORT_ID_LENGTH)}</span>
      </th>
      <td>
        <Status status={LOOKS[state]} word={state} />
      </td>
      <td>
        <Load used={runs.length} all={concurrency} />
      </td>
      <td data-label="Runs" className="fleet-runs mono small">
        {runs.length === 0 ? <span className="faint">–</span> : null}
        {runs.slice(0, RUNS_MAX).map((run) => (
          <Link key={run} href={runHref(run)}>
            {run.slice(0, SHORT_ID_LENGTH)}
          </Link>
        ))}
        {runs.length > RUNS_MAX ? <span>and {runs.length - RUNS_MAX} more</span> : null}
      </td>
      <td data-label="Labels">{labels.join(", ") || <span className="faint">none</span>}</td>
      <td data-label="Last contact" className="end">
        <Ago time={worker.seen_at} />
      </td>
    </tr>
  );
}

function Load({ used, all }: { used: number; all: number }): ReactNode {
  return (
    <span className="fleet-load figure">
      <span className="fleet-bar" aria-hidden="true">
        <span style={{ width: `${Math.min(100, (100 * used) / all)}%` }} />
      </span>
      {used} of {all}
    </span>
  );
}

interface TableProps {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly [string, ...ReactNode[]])[];
}

/** A small table whose first column names the row; without rows it is left out. */
function NamedTable({ title, columns, rows }: TableProps): ReactNode {
  if (rows.length === 0) return null;
  return (
    <Card title={title}>
      <table className="fleet-table fleet-small">
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column}>{column}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, ...cells]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {cells.map((cell, at) => (
                <td key={columns[at + 1]} className="figure">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function Queues({ queues }: { queues: Fleet["queues"] }): ReactNode {
  const columns = ["Needs", "Want a worker", "Wait for a time"];
  const rows = queues.map(
    ({ requires, queued, deferred }) =>
      [requires.join(", ") || "any worker", queued, deferred] as const,
  );
  return <NamedTable title="Queues" columns={columns} rows={rows} />;
}

function Groups({ groups }: { groups: Fleet["groups"] }): ReactNode {
  const columns = ["Group", "Under way", "Wait for a slot"];
  const rows = groups.map(
    ({ group, max, running, waiting }) => [group, `${running} of ${max}`, waiting] as const,
  );
  return <NamedTable title="Concurrency groups" columns={columns} rows={rows} />;
}

function Schedules({ schedules }: { schedules: Fleet["schedules"] }): ReactNode {
  const columns = ["Pipeline", "Times (UTC)", "Next", "Last run"];
  const rows = schedules.map(
    ({ name, schedule, next_at: next, last_run: last }) =>
      [
        name,
        <code key="times">{schedule}</code>,
        next === null ? "–" : fullTime(next),
        last === null ? (
          "–"
        ) : (
          <Link key="last" href={runHref(last)}>
            {last.slice(0, SHORT_ID_LENGTH)}
          </Link>
        ),
      ] as const,
  );
  return <NamedTable title="Schedules" columns={columns} rows={rows} />;
}

/** Repeats a function while somebody sees the page. */
function useRepeated(repeat: () => void): void {
  useEffect(() => {
    const timer = window.setInterval(() => {
      if (!document.hidden) repeat();
    }, READ_AGAIN_MS);
    return () => window.clearInterval(timer);
  }, [repeat]);
}
