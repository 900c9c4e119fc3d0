/**
 * The post-mortem of a run as a page that prints well; one button gives it as one HTML file.
 *
 * Owns: the order of the report.
 * Does not: make its words; the report of the command line has the same ones.
 */
import type { ReactNode } from "react";
import { type CommandDoc, runPath, useDocument } from "../api.ts";
import { useTitle } from "../browser.ts";
import { Breadcrumb, Button, CommandLine, Loading, Refused } from "../parts/basics.tsx";
import { countText, durationText, fullTime, moneyText } from "../parts/figures.tsx";
import { Icon } from "../parts/icon.tsx";
import { Status } from "../parts/status.tsx";
import { GraphPicture } from "./graph-picture.tsx";
import {
  ContextTable,
  Decisions,
  Path,
  Problems,
  Runners,
  Steps,
  Timeline,
} from "./report-tables.tsx";
import "../styles/report.css";

type ReportDoc = CommandDoc<"report">;

export function ReportPage({ run }: { run: string }): ReactNode {
  const { data, error } = useDocument<ReportDoc>(runPath(run, "report"));
  useTitle(data === undefined ? undefined : `Report of ${data.pipeline}`);
  if (error !== undefined) return <Refused title="Report" error={error} />;
  if (data === undefined) return <Loading lines={10} />;
  return (
    <article className="report">
      <Head report={data} run={run} />
      <Lead report={data} />
      <Facts report={data} />
      <GraphPicture run={run} title={data.pipeline} />
      <Timeline report={data} />
      <Steps report={data} run={run} />
      <Problems report={data} />
      <Path report={data} />
      <ContextTable report={data} />
      <Runners report={data} />
      <Decisions report={data} />
      <Outputs report={data} />
    </article>
  );
}

function Head({ report, run }: { report: ReportDoc; run: string }): ReactNode {
  return (
    <header className="report-head">
      <Breadcrumb run={run} runId={report.run_id} parts={[{ name: "Report" }]} />
      <div className="page-head">
        <h1>{report.pipeline}</h1>
        <Status status={report.status} />
        <div className="actions">
          <Button icon="print" onClick={() => window.print()}>
            Print
          </Button>
          <a
            className="button"
            href={runPath(run, "report.html")}
            download={`report-${report.run_id.slice(0, 8)}.html`}
          >
            <Icon name="file" />
            Download as one HTML file
          </a>
        </div>
      </div>
    </header>
  );
}

function Lead({ report }: { report: ReportDoc }): ReactNode {
  const { happened, done, next, check_output } = report;
  return (
    <div className="report-lead">
      <p>{happened}</p>
      <p>{done}</p>
      {check_output.length === 0 ? null : <pre>{check_output.join("\n")}</pre>}
      {next.map(({ text, command }) => (
        <p key={`${text} ${command}`} className="report-next">
          {text} {command === null ? null : <CommandLine command={command} />}
        </p>
      ))}
    </div>
  );
}

type Fact = readonly [name: string, value: ReactNode];

function Facts({ report }: { report: ReportDoc }): ReactNode {
  const { spent, file, cwd, input } = report;
  const figures: readonly Fact[] = [
    ["Took", durationText(report.elapsed_ms)],
    ["Active time", durationText(report.worked_ms)],
    ["Cost", spent?.cost_usd === undefined ? null : moneyText(spent.cost_usd)],
    ["Tokens", spent === null ? null : tokensText(spent)],
    ["Budget", budgetText(report.budget)],
    ["Started", report.started_at === null ? null : fullTime(report.started_at)],
    ["Last event", fullTime(report.ended_at)],
  ];
  const names: readonly Fact[] = [
    ["Run", <code key="run">{report.run_id}</code>],
    ["File", file === null ? null : <code key="file">{file}</code>],
    ["Directory", cwd === null ? null : <code key="cwd">{cwd}</code>],
    ["Input", input === null ? null : <code key="input">{JSON.stringify(input)}</code>],
  ];
  return (
    <div className="report-facts">
      <FactList facts={figures} look="figures" />
      <FactList facts={names} look="names" />
    </div>
  );
}

function FactList({ facts, look }: { facts: readonly Fact[]; look: string }): ReactNode {
  return (
    <dl data-look={look}>
      {facts
        .filter(([, value]) => value !== null)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd className="figure">{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function tokensText(spent: NonNullable<ReportDoc["spent"]>): string {
  const { input_tokens, cached_tokens, output_tokens } = spent;
  return `${countText(input_tokens + cached_tokens)} in, ${countText(output_tokens)} out`;
}

function budgetText({ usd, tokens, turns, time_ms }: ReportDoc["budget"]): string | null {
  const parts = [
    ...(usd === null ? [] : [moneyText(usd)]),
    ...(tokens === null ? [] : [`${countText(tokens)} tokens`]),
    ...(turns === null ? [] : [`${turns} turns`]),
    ...(time_ms === null ? [] : [durationText(time_ms)]),
  ];
  return parts.length === 0 ? null : parts.join(", ");
}

function Outputs({ report }: { report: ReportDoc }): ReactNode {
  if (report.outputs.length === 0) return null;
  return (
    <section className="report-part">
      <h2>The last lines that attempts printed</h2>
      {report.outputs.map(({ step, visit, attempt, output }) => (
        <figure key={`${step}@${visit}.${attempt}`} className="report-output">
          <figcaption>
            <code>{`${step}@${visit}.${attempt}`}</code>
          </figcaption>
          <pre>{output}</pre>
        </figure>
      ))}
    </section>
  );
}
