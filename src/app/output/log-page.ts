/**
 * A part of the output of a run, for readers that cannot take all of it.
 *
 * Owns: the limits of a part; a line is masked before it is shortened, as no mark recognises a part of
 * a secret.
 * Does not: follow a run (logs.ts).
 */
import type { LoadedRun } from "../loaded-run.ts";
import type { Project } from "../project/project.ts";
import { type LogLine, printLogs } from "./logs.ts";
import { masked } from "./secret-mask.ts";

const LINES_MAX = 1000;
const LINE_CHARACTERS_MAX = 4000;
/** How many characters all lines of a part have together, at most. */
const PAGE_CHARACTERS_MAX = 100_000;

interface WantedLines {
  readonly step?: string | undefined;
  /** The number of the first line; a negative one counts from the end. */
  readonly from: number;
  readonly lines: number;
}

/** Some lines, and where the next ones start. */
interface LogPage {
  readonly first: number;
  readonly lines: readonly LogLine[];
  /** Undefined at the end of what was printed so far. */
  readonly next: number | undefined;
}

/** Some lines of what a run, or one of its steps, has printed. */
export async function logPage(
  project: Project,
  known: LoadedRun,
  { step, from, lines: wanted }: WantedLines,
): Promise<LogPage> {
  const limit = Math.min(wanted, LINES_MAX);
  const read = (print: (line: LogLine) => void): Promise<number> =>
    printLogs(project, known, step, { follow: false, print, isClosed: () => false });
  // The end is known only after all of it was read once: to keep the last lines would have no limit.
  const first = from < 0 ? Math.max(0, (await read(() => undefined)) + from) : from;
  const kept: LogLine[] = [];
  let position = 0;
  const total = await read((line) => {
    if (position >= first && kept.length < limit) kept.push(line);
    position++;
  });
  const lines = shortened(kept);
  const end = first + lines.length;
  return { first, lines, next: end < total ? end : undefined };
}

/** The lines that fit into one part; at least one. */
function shortened(lines: readonly LogLine[]): readonly LogLine[] {
  const fitting: LogLine[] = [];
  let left = PAGE_CHARACTERS_MAX;
  for (const line of lines) {
    const whole = masked(line.text);
    const cut = whole.length > LINE_CHARACTERS_MAX;
    const text = cut ? `${whole.slice(0, LINE_CHARACTERS_MAX)}…` : whole;
    left -= text.length;
    if (left < 0 && fitting.length > 0) break;
    fitting.push({ ...line, text });
  }
  return fitting;
}
