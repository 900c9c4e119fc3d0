/** The attempts of a run as bars over time, in SVG; owners are marked by lines across. */
import { formatDuration } from "../util/duration.ts";
import { cutText, displayWidth, plainText } from "./display-text.ts";
import { element, rounded, xmlText } from "./markup.ts";
import type { Bar, PostMortem } from "./post-mortem.ts";
import { shortened } from "./post-mortem-sections.ts";

/** A picture stays one that can be read. */
export const BARS_MAX = 200;
const LABEL_WIDTH_MAX = 32;
const ROW = 20;
const CHAR = 6.7;
const PLOT = 620;
const TOP = 24;
const RIGHT = 130;
const TICKS = 4;

/** The picture, or nothing when no attempt has started. */
export function timelineSvg(story: PostMortem): string {
  const { bars, startedAt = 0, endedAt, owners } = story;
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
