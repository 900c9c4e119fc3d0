/**
 * A live area at the bottom of a terminal: lines that are drawn over themselves until the end, when
 * they give way to ordinary text.
 *
 * Owns: the cursor movements, the pace, and what happens when the terminal goes away.
 * Does not: know what the lines say (the caller's `frame`), or keep the program alive.
 * Invariants:
 * - T1 Every write leaves the cursor visible below the area, so a kill at any instant leaves a
 *   usable terminal: nothing has to be restored by a process that may be dead.
 * - T2 A terminal that is gone (EPIPE, EIO) ends the drawing, never the run.
 * - T3 At most one frame waits to be written: a slow terminal gets fewer frames, not a queue.
 */

import type { ScreenSize } from "../../view/progress.ts";
import { displayWidth, plainText, terminalText } from "../../view/text.ts";

/** What the area needs of a stream; process.stdout and process.stderr have it. */
export interface ScreenStream {
  readonly columns?: number;
  readonly rows?: number;
  readonly writableNeedDrain?: boolean;
  write(text: string): unknown;
  on(event: "resize" | "error", listener: () => void): unknown;
  off(event: "resize" | "error", listener: () => void): unknown;
}

export interface LiveAreaOptions {
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
      // Whatever a terminal throws at a write means that nobody can see us any more (T2).
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
