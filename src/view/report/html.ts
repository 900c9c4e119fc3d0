/**
 * `report --format html`: the report as one page, for a mail or a ticket, with the timeline as SVG.
 *
 * Owns: the page and its style.
 * Does not: load or run anything: no scripts, no external files, and a policy that says so.
 */
import { formatDuration } from "../../util/duration.ts";
import {
  DARK,
  element,
  GROUND,
  INK,
  LIGHT,
  LINE,
  MONOSPACE,
  rounded,
  SANS,
  styleSheet,
  type Tint,
  xmlLines,
  xmlText,
} from "../graph/markup.ts";
import { svgText } from "../graph/svg.ts";
import { cutText, displayWidth, plainText } from "../text.ts";
import type { Bar, RunReport } from "./report.ts";
import {
  type Cell,
  headTable,
  ROWS_MAX,
  type Section,
  sectionsOf,
  shortened,
  type Table,
} from "./sections.ts";

/** The whole page. */
export function reportHtml(report: RunReport): string {
  const title = `${report.pipeline}: run ${report.runId.slice(0, 8)} ${report.status}`;
  const { happened, done, next, output = [] } = report.words;
  const state = { text: report.status, tint: STATE_TINTS[report.status] };
  const lines = [
    "<!doctype html>",
    '<html lang="en">',
    "<head>",
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">`,
    `<title>${xmlText(title)}</title>`,
    `<style>${STYLE}</style>`,
    "</head>",
    "<body>",
    `<h1>${xmlText(report.pipeline)} ${cellHtml(state)}</h1>`,
    `<p class="lead">${[happened, done, next].map(xmlText).join("<br>")}</p>`,
    ...(output.length === 0 ? [] : [`<pre>${output.map(xmlText).join("\n")}</pre>`]),
    "<dl>",
    ...headTable(report).map(
      ([name, cell]) => `<dt>${xmlText(name)}</dt><dd>${cellHtml(cell)}</dd>`,
    ),
    "</dl>",
    ...figure(
      "The pipeline",
      report.drawing.picture.nodes.length === 0 ? "" : svgText(report.drawing),
    ),
    ...figure("Timeline", timelineSvg(report)),
    ...sectionsOf(report).flatMap(sectionHtml),
    ...outputHtml(report),
    "</body>",
    "</html>",
  ];
  return `${lines.join("\n")}\n`;
}

const STATE_TINTS: Readonly<Record<RunReport["status"], Tint>> = {
  queued: "pending",
  running: "running",
  waiting: "waiting",
  interrupted: "waiting",
  completed: "done",
  failed: "failed",
};

function figure(title: string, svg: string): readonly string[] {
  return svg === "" ? [] : [`<h2>${xmlText(title)}</h2>`, `<div class="wide">${svg}</div>`];
}

function sectionHtml({ id, title, lines, table }: Section): readonly string[] {
  return [
    `<h2 id="${id}">${xmlText(title)}</h2>`,
    ...lines.map((line) => `<p>${xmlText(line)}</p>`),
    ...(table === undefined ? [] : tableHtml(table)),
  ];
}

function tableHtml({ head, rows }: Table): readonly string[] {
  const { first, leftOut, last } = shortened(rows, ROWS_MAX);
  const row = (cells: readonly Cell[]): string =>
    `<tr>${cells.map((cell) => `<td>${cellHtml(cell)}</td>`).join("")}</tr>`;
  const note =
    leftOut === 0
      ? []
      : [`<tr><td class="dim" colspan="${head.length}">… ${leftOut} more …</td></tr>`];
  return [
    '<div class="wide"><table>',
    `<thead><tr>${head.map((name) => `<th>${xmlText(name)}</th>`).join("")}</tr></thead>`,
    "<tbody>",
    ...first.map(row),
    ...note,
    ...last.map(row),
    "</tbody></table></div>",
  ];
}

function cellHtml(cell: Cell): string {
  if (typeof cell === "string") return xmlText(cell);
  if ("code" in cell) return `<code>${xmlText(cell.code)}</code>`;
  return `<span class="state ${cell.tint}">${xmlText(cell.text)}</span>`;
}

function outputHtml({ outputs }: RunReport): readonly string[] {
  if (outputs.size === 0) return [];
  return [
    "<h2>The last lines that attempts printed</h2>",
    ...Array.from(
      outputs,
      ([at, text]) =>
        `<details><summary><code>${xmlText(at)}</code></summary><pre>${xmlLines(text)}</pre></details>`,
    ),
  ];
}

function rules(
  paints: Readonly<Record<Tint, { readonly fill: string; readonly line: string }>>,
  mode: "light" | "dark",
): string {
  const tints = Object.entries(paints).map(
    ([tint, { fill, line }]) =>
      `.state.${tint}{background:${fill};color:${line}}.timeline .${tint}{fill:${line}}`,
  );
  const { plain, skipped } = paints;
  return `:root{--ink:${INK[mode]};--dim:${plain.line};--ground:${GROUND[mode]}}
    :root{--soft:${skipped.fill};--line:${LINE[mode]}}
    ${tints.join("\n")}`;
}

const STYLE = styleSheet(`
  body{font:14px/1.5 ${SANS};color:var(--ink);background:var(--ground)}
  body{margin:2rem auto;max-width:65rem;padding:0 1.5rem}
  h1{font-size:1.3rem;font-weight:600;margin:0 0 .8rem}
  h1 .state{font-size:.8rem;font-weight:500;vertical-align:middle}
  h2{font-size:1.05rem;font-weight:600;margin:2rem 0 .6rem}
  .lead{margin:0 0 1.2rem;font-size:1.05rem}
  .dim,dt,th{color:var(--dim)}
  dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.4rem;margin:0}
  dl{padding:.9rem 1.1rem;border:1px solid var(--line);border-radius:8px}
  dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
  code,pre{font:.9em ${MONOSPACE};overflow-wrap:anywhere}
  pre{background:var(--soft);padding:.7rem 1rem;overflow-x:auto}
  pre{border:1px solid var(--line);border-radius:8px}
  .wide{overflow-x:auto}
  .wide>svg{display:block;margin:0 auto}
  table{border-collapse:collapse;width:100%}
  th,td{text-align:left;vertical-align:top;padding:.4rem 1.1rem .4rem 0}
  th,td{border-bottom:1px solid var(--line)}
  th{font-size:.86rem;font-weight:500;white-space:nowrap}
  td{font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
  .state{padding:.1rem .6rem;border-radius:99px;font-size:.86em;white-space:nowrap}
  .timeline text{font:11px ${MONOSPACE};fill:var(--ink)}
  .timeline text.dim{fill:var(--dim)}
  .timeline path{stroke:var(--dim);stroke-width:1;fill:none}
  .timeline .tick{opacity:.3}
  .timeline .owner{stroke-dasharray:3 3;stroke-width:1.5}
  ${rules(LIGHT, "light")}
  @media (prefers-color-scheme:dark){${rules(DARK, "dark")}}
  @media print{.wide{overflow:visible}tr,pre,svg,dl{break-inside:avoid}h2{break-after:avoid}}
`);

/** A picture stays one that can be read. */
const BARS_MAX = 200;
const LABEL_WIDTH_MAX = 32;
const ROW = 20;
const CHAR = 6.7;
const PLOT = 620;
const TOP = 24;
const RIGHT = 130;
const TICKS = 4;

/** The picture, or nothing when no attempt has started. */
function timelineSvg(report: RunReport): string {
  const { bars, startedAt = 0, endedAt, owners } = report;
  if (bars.length === 0) return "";
  const { first, last, leftOut } = shortened(bars, BARS_MAX);
  const shown = [...first, ...last];
  const left = 12 + CHAR * Math.max(...shown.map(({ at }) => displayWidth(labelOf(at))));
  const total = Math.max(1, endedAt - startedAt);
  const x = (time: number): number =>
    left + Math.min(1, Math.max(0, (time - startedAt) / total)) * PLOT;
  const width = Math.ceil(left + PLOT + RIGHT);
  const height = TOP + (shown.length + (leftOut > 0 ? 1 : 0)) * ROW + 8;
  const row = (index: number): number =>
    TOP + (index + (leftOut > 0 && index >= first.length ? 1 : 0)) * ROW;
  const frame = { width, height, viewBox: `0 0 ${width} ${height}` };
  const note = { x: left, y: TOP + first.length * ROW + 13 };
  const content = [
    "<title>The attempts of the run over time</title>",
    ...ticks(total, left, height),
    ...owners.slice(1).map(({ from, epoch }) => ownerLine(x(from), epoch, height)),
    ...shown.map((bar, index) => {
      const ends = { from: x(bar.startedAt), to: x(bar.endedAt ?? endedAt) };
      return barLine(bar, row(index), left, ends);
    }),
    ...(leftOut === 0 ? [] : [element("text", note, `… ${leftOut} more attempts …`)]),
  ];
  const svg = { xmlns: "http://www.w3.org/2000/svg", class: "timeline", role: "img", ...frame };
  return element("svg", svg, "\n", content.join("\n"), "\n");
}

function labelOf(at: string): string {
  return cutText(plainText(at), LABEL_WIDTH_MAX);
}

function ticks(total: number, left: number, height: number): readonly string[] {
  return Array.from({ length: TICKS + 1 }, (_, index) => {
    const x = left + (PLOT * index) / TICKS;
    const text = formatDuration((total * index) / TICKS);
    return (
      element("path", { class: "tick", d: `M${rounded(x)} 18V${height}` }) +
      element("text", { class: "dim", "text-anchor": "middle", x, y: 12 }, text)
    );
  });
}

function ownerLine(x: number, epoch: number, height: number): string {
  const path = { class: "owner", d: `M${rounded(x)} 18V${height}` };
  return element("path", path, `<title>owner ${epoch}</title>`);
}

function barLine(
  bar: Bar,
  y: number,
  left: number,
  { from, to }: { readonly from: number; readonly to: number },
): string {
  const width = Math.max(2, to - from);
  const took = `${bar.outcome} ${formatDuration(bar.workedMs)}`;
  const height = bar.composite ? 4 : 12;
  const rect = { class: bar.tint, x: from, y: y + 9 - height / 2, width, height, rx: 2 };
  return element(
    "g",
    {},
    element("text", { "text-anchor": "end", x: left - 8, y: y + 13 }, xmlText(labelOf(bar.at))),
    element("rect", rect),
    element("text", { class: "dim", x: from + width + 6, y: y + 13 }, xmlText(took)),
  );
}
