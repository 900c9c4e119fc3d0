/** What runs cost: over time, by pipeline, model and agent, and which runs were the dearest. */
import { type ReactNode, useEffect } from "react";
import { Link, useSearchParams } from "wouter";
import type { Doc, RunRow } from "../api.ts";
import { useDocument, useServer } from "../api.ts";
import { runHref } from "../links.ts";
import { Card, Empty, Failure, Loading } from "../parts/basics.tsx";
import { Ago, countText, Duration, Money, moneyText } from "../parts/figures.tsx";
import { Status } from "../parts/icon.tsx";
import { CostChart } from "./cost-chart.tsx";
import "../styles/cost.css";

type Cost = Doc<"cost">;
type Sum = Cost["by_pipeline"][number];

const PERIODS = [
  { since: "7d", label: "7 days" },
  { since: "30d", label: "30 days" },
  { since: "90d", label: "90 days" },
] as const;
const DEFAULT_PERIOD = "30d";
/** The server reads old runs little by little. */
const READ_AGAIN_MS = 700;

export function CostPage(): ReactNode {
  const [params, setParams] = useSearchParams();
  const since = PERIODS.find((one) => one.since === params.get("since"))?.since ?? DEFAULT_PERIOD;
  const project = params.get("project") ?? "";
  const { data, error, isLoading, reload } = useDocument<Cost>("/api/cost", { since, project });
  const unread = data?.unread ?? 0;
  useEffect(() => {
    if (unread === 0) return undefined;
    const timer = window.setTimeout(reload, READ_AGAIN_MS);
    return () => window.clearTimeout(timer);
  }, [unread, reload]);
  const change = (next: Record<string, string>): void => {
    const all = { since, project, ...next };
    setParams(Object.fromEntries(Object.entries(all).filter(([, value]) => value !== "")));
  };
  return (
    <>
      <header className="page-head">
        <h1>Cost</h1>
        {unread > 0 ? <span className="faint small">{unread} runs are still read</span> : null}
        <div className="actions">
          <ProjectChoice project={project} onChange={(next) => change({ project: next })} />
          <fieldset className="segments">
            <legend className="hidden-text">Period</legend>
            {PERIODS.map((one) => (
              <button
                key={one.since}
                type="button"
                aria-pressed={one.since === since}
                onClick={() => change({ since: one.since })}
              >
                {one.label}
              </button>
            ))}
          </fieldset>
        </div>
      </header>
      {error === undefined ? null : <Failure error={error} />}
      {isLoading ? <Loading lines={8} /> : null}
      {data === undefined ? null : <CostBody cost={data} />}
    </>
  );
}

function ProjectChoice(props: { project: string; onChange: (project: string) => void }): ReactNode {
  const projects = useServer()?.projects ?? [];
  if (projects.length < 2) return null;
  return (
    <select
      aria-label="Project"
      value={props.project}
      onChange={(event) => props.onChange(event.target.value)}
    >
      <option value="">All projects</option>
      {projects.map(({ project, name }) => (
        <option key={project} value={project}>
          {name}
        </option>
      ))}
    </select>
  );
}

function CostBody({ cost }: { cost: Cost }): ReactNode {
  if (cost.total.tokens === 0 && cost.total.usd === 0) {
    return (
      <Empty title="No agent has worked in this time">
        <p>Only agents cost money; commands are free.</p>
      </Empty>
    );
  }
  return (
    <>
      <Totals cost={cost} />
      <Card title={cost.total.usd > 0 ? "Dollars a day" : "Tokens a day"}>
        <div className="card-body">
          <CostChart cost={cost} />
        </div>
      </Card>
      <div className="cost-tables">
        <SumTable title="By pipeline" sums={cost.by_pipeline} />
        <SumTable title="By model" sums={cost.by_model} />
        <SumTable title="By agent" sums={cost.by_agent} />
      </div>
      <Dearest runs={cost.dearest} />
    </>
  );
}

function Totals({ cost }: { cost: Cost }): ReactNode {
  const { usd, tokens, runs, unknown_price: unknown } = cost.total;
  return (
    <dl className="totals">
      <Total label="Spent" value={moneyText(usd)} />
      <Total label="Runs with agents" value={countText(runs)} />
      <Total label="A run, on average" value={runs === 0 ? "–" : moneyText(usd / runs)} />
      <Total label="Tokens" value={countText(tokens)} />
      {unknown === 0 ? null : (
        <p className="faint small">
          {unknown === 1 ? "One run has" : `${unknown} runs have`} tokens without a known price,
          which are not in the dollars.
        </p>
      )}
    </dl>
  );
}

function Total({ label, value }: { label: string; value: string }): ReactNode {
  return (
    <div>
      <dt>{label}</dt>
      <dd className="figure">{value}</dd>
    </div>
  );
}

/** How many rows a table shows. */
const SUMS_MAX = 12;

function SumTable({ title, sums }: { title: string; sums: readonly Sum[] }): ReactNode {
  const isPriced = sums.some(({ usd }) => usd > 0);
  const size = ({ usd, tokens }: Sum): number => (isPriced ? usd : tokens);
  const largest = Math.max(...sums.map(size), Number.MIN_VALUE);
  return (
    <Card title={title}>
      <table className="sums">
        <thead className="hidden-text">
          <tr>
            <th>Name</th>
            <th>Dollars</th>
            <th>Tokens</th>
            <th>Runs</th>
          </tr>
        </thead>
        <tbody>
          {sums.slice(0, SUMS_MAX).map((sum) => (
            <tr key={sum.name}>
              <th scope="row" className="cut" title={sum.name}>
                <span
                  className="sum-bar"
                  aria-hidden="true"
                  style={{ width: `${(100 * size(sum)) / largest}%` }}
                />
                <span className="sum-name">{sum.name}</span>
              </th>
              <td>
                <Money usd={sum.usd} />
              </td>
              <td className="faint figure">{countText(sum.tokens)}</td>
              <td className="faint figure">
                {sum.runs} {sum.runs === 1 ? "run" : "runs"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {sums.length > SUMS_MAX ? (
        <p className="faint small sums-more">and {sums.length - SUMS_MAX} more</p>
      ) : null}
    </Card>
  );
}

function Dearest({ runs }: { runs: readonly RunRow[] }): ReactNode {
  if (runs.length === 0) return null;
  return (
    <Card title="Most expensive runs">
      <table className="dearest">
        <thead>
          <tr>
            <th>Pipeline</th>
            <th>State</th>
            <th className="end">Cost</th>
            <th className="end">Tokens</th>
            <th className="end">Duration</th>
            <th className="end">Started</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.run_id}>
              <th scope="row">
                <span className="run-title">
                  <Link href={runHref(run.short_id)}>{run.pipeline}</Link>
                  <span className="mono faint small">{run.short_id}</span>
                </span>
              </th>
              <td>
                <Status status={run.status} />
              </td>
              <td className="end">
                <Money usd={run.cost_usd} />
              </td>
              <td className="end faint figure">
                {run.tokens === null ? "–" : countText(run.tokens)}
              </td>
              <td className="end">
                <Duration ms={run.elapsed_ms} />
              </td>
              <td className="end faint">
                <Ago time={run.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}
