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
import { Icon, Status } from "../parts/icon.tsx";
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
import {
  CHAR,
  LINE,
  lineText,
  MARK,
  PAD,
  routePath,
  SMALL_CHAR,
  SMALL_LINE,
} from "../../view/graph/geometry.ts";

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

type GraphDoc = CommandDoc<"graph">;
type Node = GraphDoc["nodes"][number];

/** A wide picture is not made smaller than this: it scrolls. */
const READABLE = 900;
const MARGIN = 12;
const HEAD_LENGTH = 7;
const HEAD_WIDTH = 4;

/** The graph of a run; nothing while it is not there. */
function GraphPicture({ run, title }: { run: string; title: string }): ReactNode {
  const { data } = useDocument<GraphDoc>(runPath(run, "graph"));
  if (data === undefined || data.nodes.length === 0) return null;
  const [width, height] = [data.width + 2 * MARGIN, data.height + 2 * MARGIN];
  const corners = cornersOf(data.nodes);
  const groups = new Set(data.nodes.map(({ parent }) => parent));
  return (
    <section className="report-part">
      <h2>The pipeline</h2>
      <section
        className="report-wide"
        aria-label="Picture of the pipeline"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
        tabIndex={0}
      >
        <svg
          className="picture"
          role="img"
          aria-label={`The graph of ${title}`}
          viewBox={`${-MARGIN} ${-MARGIN} ${width} ${height}`}
          style={{ maxWidth: width, minWidth: Math.min(width, READABLE) }}
        >
          {data.nodes.map((node) => (
            <g key={node.id} data-tint={node.tint} data-group={groups.has(node.id)}>
              <Box node={node} corner={corners.get(node.id) ?? node} />
            </g>
          ))}
          {data.edges.map((edge, index) => (
            <Route key={`${edge.from} ${edge.to} ${edge.label} ${index}`} edge={edge} />
          ))}
        </svg>
      </section>
      {data.nodes_left_out === 0 ? null : (
        <p className="faint small">{data.nodes_left_out} more steps are not drawn.</p>
      )}
    </section>
  );
}

interface Corner {
  readonly x: number;
  readonly y: number;
}

/** Where each box is in the picture: the document says where it is in its parent. */
function cornersOf(nodes: readonly Node[]): ReadonlyMap<string, Corner> {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const corner = ({ x, y, parent }: Node): Corner => {
    const around = parent === null ? undefined : byId.get(parent);
    if (around === undefined) return { x, y };
    const outer = corner(around);
    return { x: outer.x + x, y: outer.y + y };
  };
  return new Map(nodes.map((node) => [node.id, corner(node)]));
}

function Box({ node, corner }: { node: Node; corner: Corner }): ReactNode {
  const { width, label, notes, about, step, status } = node;
  const { x, y } = corner;
  const [left, middle] = [x + PAD, y + PAD / 2 + LINE / 2];
  const hasMark = step !== null && status !== null;
  const [glyph, name] = hasMark ? cutAfterWord(label) : ["", label];
  const lines = [lineText(about), lineText(notes.slice(about.length))].filter(Boolean);
  return (
    <>
      <title>{`${label}: ${status ?? "planned"}`}</title>
      <rect x={x} y={y} width={width} height={node.height} rx={8} />
      {hasMark ? (
        <>
          <circle cx={left + 8} cy={middle} r={8} />
          <text className="picture-mark" x={left + 8} y={middle + 3.5}>
            {glyph}
          </text>
        </>
      ) : null}
      <text
        className={step === null ? "picture-item" : undefined}
        x={hasMark ? left + MARK : left}
        y={middle + 4}
      >
        {shortened(name, width - 2 * PAD - (hasMark ? MARK : 0), CHAR)}
      </text>
      {lines.map((line, index) => (
        <text
          key={line}
          className="picture-note"
          x={left}
          y={y + PAD / 2 + LINE + index * SMALL_LINE + 11}
        >
          {shortened(line, width - 2 * PAD, SMALL_CHAR)}
        </text>
      ))}
    </>
  );
}

/** The mark of a label, and the name after it. */
function cutAfterWord(label: string): readonly [string, string] {
  const cut = label.indexOf(" ");
  return [label.slice(0, cut), label.slice(cut + 1)];
}

/** The text that fits in a width. */
function shortened(text: string, width: number, letter: number): string {
  const max = Math.floor(width / letter);
  return text.length > max ? `${text.slice(0, Math.max(1, max - 1))}…` : text;
}

function Route({ edge }: { edge: GraphDoc["edges"][number] }): ReactNode {
  const { points, square, label, label_at: at, taken, on_failure: isFailure } = edge;
  const end = points.at(-1) ?? { x: 0, y: 0 };
  const line = [...points.slice(0, -1), { x: end.x, y: end.y - HEAD_LENGTH + 1 }];
  return (
    <g
      className="picture-edge"
      data-look={taken === null ? "plain" : taken ? "taken" : "untaken"}
      data-failure={isFailure}
    >
      <path d={routePath(line, square)} />
      <path
        className="picture-head"
        d={`M${end.x - HEAD_WIDTH} ${end.y - HEAD_LENGTH}h${2 * HEAD_WIDTH}L${end.x} ${end.y}z`}
      />
      {label === "" ? null : (
        <text
          className="picture-note"
          x={square ? at.x + 5 : at.x}
          y={at.y + 4}
          textAnchor={square ? "start" : "middle"}
        >
          {label}
        </text>
      )}
    </g>
  );
}
