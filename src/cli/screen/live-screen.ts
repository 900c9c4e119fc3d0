/**
 * The live view: an area at the bottom of a terminal that is redrawn in place when the run changes, and
 * that gives way to ordinary text at the end.
 *
 * Owns: the frame, the cursor movements, the colours, the pace, and the loss of the terminal.
 * Does not: keep the program alive.
 * Invariants:
 * - cli/T1 Every write leaves the cursor visible below the area, so a kill at any instant leaves a
 *   usable terminal: nothing has to be restored by a process that may be dead.
 * - cli/T2 A lost terminal (EPIPE, EIO) ends the drawing, never the run.
 * - cli/T3 At most one frame waits to be written: a slow terminal gets fewer frames, not a queue.
 */
import { type LastLine, lastLineOf } from "../../app/output.ts";
import type { Screen, ScreenOptions } from "../../app/screen.ts";
import { masked } from "../../app/secret-mask.ts";
import type { Recorded } from "../../core/event.ts";
import { attemptOf, type Run, type Visit } from "../../core/run.ts";
import { attemptText } from "../../core/step-path.ts";
import { checkReportLines } from "../../view/failure-text.ts";
import { progressLines, type ScreenSize } from "../../view/progress.ts";
import {
  displayWidth,
  plainStyle,
  plainText,
  type Style,
  type Tone,
  terminalText,
} from "../../view/text.ts";

/** How much of the live view stays on the screen when the run is over. */
const LAST_FRAME_ROWS = 60;

/** The live view on stdout. */
export class LiveScreen implements Screen {
  readonly #area: LiveArea;
  readonly #options: ScreenOptions;
  #run: Run | undefined;
  /** The last line of each running attempt, and the size of its output when it was read. */
  #lines = new Map<string, LastLine>();

  constructor(options: ScreenOptions) {
    this.#options = options;
    const style = terminalStyle(process.env, process.stdout);
    this.#area = new LiveArea({
      stream: process.stdout,
      frame: (size) => this.#whole(size, style),
    });
  }

  say(line: string): void {
    this.#area.print([masked(line)]);
  }

  update(events: readonly Recorded[], run: Run): void {
    this.#run = run;
    const checks = events.flatMap(({ event }) => {
      const ended = event.type === "step.failed" || event.type === "step.completed";
      return ended ? checkReportLines(event, event) : [];
    });
    if (checks.length > 0) this.#area.print(checks.map(masked));
    this.#area.draw();
  }

  refresh(): void {
    this.#area.draw();
  }

  async close(): Promise<void> {
    const style = terminalStyle(process.env, process.stdout);
    const size = { columns: process.stdout.columns || 80, rows: LAST_FRAME_ROWS };
    const last = this.#run === undefined ? [] : this.#frame(this.#run, size, style);
    this.#area.close(last);
  }

  /** The steps, and below them what a person is asked. */
  #whole(size: ScreenSize, style: Style): readonly string[] {
    if (this.#run === undefined) return [];
    const footer = this.#options.footer?.(Math.max(1, size.columns - 1)) ?? [];
    const rows = size.rows - footer.length;
    return [...this.#frame(this.#run, { ...size, rows }, style), ...footer.map(masked)];
  }

  #frame(run: Run, size: ScreenSize, style: Style): readonly string[] {
    const { shortId, now } = this.#options;
    const lines = new Map([...run.running].map((visit) => this.#lastLine(visit)));
    this.#lines = lines;
    const lastLines = new Map([...lines].map(([at, { line }]) => [at, line]));
    return progressLines({ run, shortId, now: now(), lastLines, size, style }).map(masked);
  }

  /** A frame is drawn ten times a second: an output is read again only when it has grown. */
  #lastLine(visit: Visit): readonly [string, LastLine] {
    const { dir, readers } = this.#options;
    const key = attemptText(attemptOf(visit));
    return [key, lastLineOf(dir, visit, readers, this.#lines.get(key))];
  }
}

/** What the area needs of a stream; process.stdout and process.stderr have it. */
export interface ScreenStream {
  readonly columns?: number;
  readonly rows?: number;
  readonly writableNeedDrain?: boolean;
  write(text: string): unknown;
  on(event: "resize" | "error", listener: () => void): unknown;
  off(event: "resize" | "error", listener: () => void): unknown;
}

interface LiveAreaOptions {
  readonly stream: ScreenStream;
  /** The lines to show now; each narrower than the screen, all together lower. */
  readonly frame: (size: ScreenSize) => readonly string[];
}

/** Ten frames a second are as many as an eye needs. */
export const FRAME_INTERVAL_MS = 100;

const SIZE_UNKNOWN: ScreenSize = { columns: 80, rows: 24 };
const ESC = "\u001b[";
const HIDE_CURSOR = `${ESC}?25l`;
const SHOW_CURSOR = `${ESC}?25h`;
/** Terminals that know it show the frame at once; the others ignore it. */
const SYNC_BEGIN = `${ESC}?2026h`;
const SYNC_END = `${ESC}?2026l`;
const CLEAR_LINE = `${ESC}K`;
const CLEAR_BELOW = `${ESC}J`;

/** Lines that are drawn over themselves. */
export class LiveArea {
  private readonly stream: ScreenStream;
  private readonly frame: LiveAreaOptions["frame"];
  private readonly timer: NodeJS.Timeout;
  private drawn: readonly string[] = [];
  private state: "open" | "broken" | "closed" = "open";

  constructor({ stream, frame }: LiveAreaOptions) {
    this.stream = stream;
    this.frame = frame;
    stream.on("error", this.onError);
    stream.on("resize", this.onResize);
    this.timer = setInterval(() => this.draw(), FRAME_INTERVAL_MS);
    this.timer.unref();
    this.draw();
  }

  /** Draws the current frame if it differs from what is on the screen. */
  draw(): void {
    if (this.state !== "open" || this.stream.writableNeedDrain === true) return;
    const lines = this.frame(this.size());
    const same = lines.length === this.drawn.length && lines.every((l, i) => l === this.drawn[i]);
    if (same) return;
    this.put(lines, "");
  }

  /** Prints ordinary lines above the live area; they stay. */
  print(lines: readonly string[]): void {
    if (this.state !== "open") return;
    this.put(this.drawn, linesText(lines));
  }

  /** Ends the live area and prints the final lines once, as ordinary text. */
  close(finalLines: readonly string[]): void {
    if (this.state === "closed") return;
    if (this.state === "open") this.put([], linesText(finalLines));
    clearInterval(this.timer);
    this.stream.off("resize", this.onResize);
    // The error listener stays: a late EPIPE without one would end the program.
    this.state = "closed";
  }

  /** True when the terminal went away. */
  get broken(): boolean {
    return this.state === "broken";
  }

  private put(lines: readonly string[], above: string): void {
    const up = heightOf(this.drawn, this.size().columns);
    const area = linesText(lines);
    const home = up === 0 ? "\r" : `\r${ESC}${up}A`;
    this.drawn = lines;
    this.write(
      SYNC_BEGIN + HIDE_CURSOR + home + above + area + CLEAR_BELOW + SHOW_CURSOR + SYNC_END,
    );
  }

  private write(text: string): void {
    try {
      this.stream.write(text);
    } catch (error) {
      // Whatever a terminal throws at a write means that nobody can see us any more (cli/T2).
      this.onError(error);
    }
  }

  private size(): ScreenSize {
    const { columns, rows } = this.stream;
    return {
      columns: columns === undefined || columns === 0 ? SIZE_UNKNOWN.columns : columns,
      rows: rows === undefined || rows === 0 ? SIZE_UNKNOWN.rows : rows,
    };
  }

  private readonly onResize = (): void => this.draw();

  private readonly onError = (_error?: unknown): void => {
    if (this.state !== "open") return;
    this.state = "broken";
    clearInterval(this.timer);
  };
}

/** Lines as they are drawn; of what stands in them, a terminal obeys only colours. */
function linesText(lines: readonly string[]): string {
  return lines.map((line) => `${terminalText(line)}${CLEAR_LINE}\n`).join("");
}

/** How many rows of the screen these lines take now: a narrower screen has wrapped them. */
function heightOf(lines: readonly string[], columns: number): number {
  return lines.reduce((rows, line) => {
    return rows + Math.max(1, Math.ceil(displayWidth(plainText(line)) / columns));
  }, 0);
}

const CODES: Readonly<Record<Tone, string>> = {
  good: "32",
  bad: "31",
  busy: "36",
  wait: "33",
  dim: "2",
  strong: "1",
};

const ansiStyle: Style = (tone, text) =>
  text === "" ? "" : `\u001b[${CODES[tone]}m${text}\u001b[0m`;

type Environment = Readonly<Record<string, string | undefined>>;

/** The style for a stream. FORCE_COLOR outweighs NO_COLOR, as in Node itself. */
export function terminalStyle(env: Environment, stream: { readonly isTTY?: boolean }): Style {
  return wantsColour(env, stream.isTTY === true) ? ansiStyle : plainStyle;
}

function wantsColour(env: Environment, isTerminal: boolean): boolean {
  const { FORCE_COLOR: force, NO_COLOR: no } = env;
  if (force !== undefined) return force !== "0" && force !== "false";
  if (no !== undefined && no !== "") return false;
  return isTerminal && env.TERM !== "dumb";
}
