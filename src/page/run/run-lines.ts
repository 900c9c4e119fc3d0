/** The events of a run as lines: news are added, a filter leaves some out. */
import type { Doc } from "../api.ts";

export type RunLine = Doc<"runNews">["lines"][number];

/** Lines in their order, each once: a stream that continues may repeat some. */
export function mergedLines(
  before: readonly RunLine[],
  news: readonly RunLine[],
): readonly RunLine[] {
  const last = before.at(-1)?.sequence ?? 0;
  const fresh = news.filter(({ sequence }) => sequence > last);
  return fresh.length === 0 ? before : [...before, ...fresh];
}

/** The lines that have all of these words, in their text or in the path of their step. */
export function linesWith(lines: readonly RunLine[], words: string): readonly RunLine[] {
  const wanted = words
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  if (wanted.length === 0) return lines;
  return lines.filter(({ text, step }) => {
    const line = `${step ?? ""} ${text}`.toLowerCase();
    return wanted.every((word) => line.includes(word));
  });
}
