/**
 * `report --format html`: the post-mortem as one page, for a mail or a ticket.
 *
 * Owns: the page and its style.
 * Does not: load or run anything: no scripts, nothing from outside, and a policy that says so.
 */
import { svgText } from "./graph-svg.ts";
import { styleSheet, xmlLines, xmlText } from "./markup.ts";
import { DARK, GROUND, INK, LIGHT, type Tint } from "./palette.ts";
import type { PostMortem } from "./post-mortem.ts";
import {
  type Cell,
  headTable,
  ROWS_MAX,
  type Section,
  sectionsOf,
  shortened,
  type Table,
} from "./post-mortem-sections.ts";
import { timelineSvg } from "./timeline-svg.ts";

/** The whole page. */
export function postMortemHtml(story: PostMortem): string {
  const title = `${story.pipeline}: run ${story.runId.slice(0, 8)} ${story.status}`;
  const { happened, done, next, output = [] } = story.words;
  const state = { text: story.status, tint: STATE_TINTS[story.status] };
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
    `<h1>${xmlText(story.pipeline)} ${cellHtml(state)}</h1>`,
    `<p class="lead">${[happened, done, next].map(xmlText).join("<br>")}</p>`,
    ...(output.length === 0 ? [] : [`<pre>${output.map(xmlText).join("\n")}</pre>`]),
    "<dl>",
    ...headTable(story).map(
      ([name, cell]) => `<dt>${xmlText(name)}</dt><dd>${cellHtml(cell)}</dd>`,
    ),
    "</dl>",
    ...figure(
      "The pipeline",
      story.drawing.picture.nodes.length === 0 ? "" : svgText(story.drawing),
    ),
    ...figure("Timeline", timelineSvg(story)),
    ...sectionsOf(story).flatMap(sectionHtml),
    ...outputHtml(story),
    "</body>",
    "</html>",
  ];
  return `${lines.join("\n")}\n`;
}

const STATE_TINTS: Readonly<Record<PostMortem["status"], Tint>> = {
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

function outputHtml({ outputs }: PostMortem): readonly string[] {
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
  return `:root{--ink:${INK[mode]};--dim:${plain.line};--ground:${GROUND[mode]};--soft:${skipped.fill}}
    ${tints.join("\n")}`;
}

const MONOSPACE = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace";

const STYLE = styleSheet(`
  body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground)}
  body{margin:2rem auto;max-width:72rem;padding:0 1.5rem}
  h1{font-size:1.6rem;margin:0 0 .5rem}
  h1 .state{font-size:.95rem;vertical-align:middle}
  h2{font-size:1.15rem;margin:2.2rem 0 .7rem}
  .lead{margin:0 0 1.2rem}
  .dim,dt,th{color:var(--dim)}
  dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.2rem;margin:0}
  dd{margin:0;overflow-wrap:anywhere}
  code,pre{font:.86em ${MONOSPACE};overflow-wrap:anywhere}
  pre{background:var(--soft);padding:.8rem;overflow-x:auto;border-radius:6px}
  .wide{overflow-x:auto}
  table{border-collapse:collapse;width:100%;font-size:.92rem}
  th,td{text-align:left;vertical-align:top;padding:.3rem .9rem .3rem 0}
  th,td{border-bottom:1px solid color-mix(in srgb,var(--dim) 35%,transparent)}
  td{font-variant-numeric:tabular-nums}
  .state{padding:.05rem .5rem;border-radius:.7rem;font-size:.85em;white-space:nowrap}
  .timeline text{font:11px ${MONOSPACE};fill:var(--ink)}
  .timeline text.dim{fill:var(--dim)}
  .timeline path{stroke:var(--dim);stroke-width:1;fill:none}
  .timeline .tick{opacity:.3}
  .timeline .owner{stroke-dasharray:3 3;stroke-width:1.5}
  ${rules(LIGHT, "light")}
  @media (prefers-color-scheme:dark){${rules(DARK, "dark")}}
  @media print{.wide{overflow:visible}}
`);
