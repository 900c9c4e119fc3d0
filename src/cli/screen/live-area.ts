/**
 * Lines at the bottom of a terminal that are redrawn in place. Ordinary text is printed above them and
 * stays.
 *
 * Owns: the cursor movements, the pace, and the loss of the terminal.
 * Does not: know what the lines say, or keep the program alive.
 * Invariants:
 * - cli/T1 Every write leaves the cursor visible below the area, so a kill at any instant leaves a
 *   usable terminal: nothing has to be restored by a process that may be dead.
 * - cli/T2 A lost terminal (EPIPE, EIO) ends the drawing, never the run.
 * - cli/T3 At most one frame waits to be written: a slow terminal gets fewer frames, not a queue.
 * - cli/T7 Frames take at most a tenth of the time: one that took long is followed by a pause.
 */
import type { ScreenSize } from "../../view/live/live-input.ts";
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

/** What is drawn next. */
export interface LiveFrame {
  /** Ordinary lines, printed above the area. */
  readonly above: readonly string[];
  /** The lines of the area: each is narrower than the screen, and there are fewer than it has rows. */
  readonly lines: readonly string[];
}

interface LiveAreaOptions {
  readonly stream: ScreenStream;
  /** Makes the next frame; called only when it can be written at once. */
  readonly frame: (size: ScreenSize) => LiveFrame;
}

/** The pause after a frame, in multiples of the time that it took. */
const PAUSE_FACTOR = 9;

/** Ten frames a second look smooth enough. */
export const FRAME_INTERVAL_MS = 100;

const SIZE_UNKNOWN: ScreenSize = { columns: 80, rows: 24 };
const ESC = "\u001b[";
const HIDE_CURSOR = `${ESC}?25l`;
const SHOW_CURSOR = `${ESC}?25h`;
/** Terminals that support it show the whole frame at once; the others ignore it. */
const SYNC_BEGIN = `${ESC}?2026h`;
const SYNC_END = `${ESC}?2026l`;
const CLEAR_LINE = `${ESC}K`;
const CLEAR_BELOW = `${ESC}J`;

/** Lines at the bottom of a terminal that are redrawn in place. */
export class LiveArea {
  readonly #stream: ScreenStream;
  readonly #frame: LiveAreaOptions["frame"];
  readonly #timer: NodeJS.Timeout;
  #drawn: readonly string[] = [];
  /** The width of the screen when the lines were drawn. */
  #columns = 0;
  #pausedUntil = 0;
  #state: "open" | "broken" | "closed" = "open";

  constructor({ stream, frame }: LiveAreaOptions) {
    this.#stream = stream;
    this.#frame = frame;
    stream.on("error", this.#onError);
    stream.on("resize", this.#onResize);
    this.#timer = setInterval(() => this.#tick(), FRAME_INTERVAL_MS);
    this.#timer.unref();
    this.draw();
  }

  /** Draws the next frame, unless the terminal has not taken the last one yet. */
  draw(): void {
    if (this.#state !== "open" || this.#stream.writableNeedDrain === true) return;
    const { above, lines } = this.#frame(this.size);
    const same =
      lines.length === this.#drawn.length && lines.every((line, at) => line === this.#drawn[at]);
    if (above.length > 0 || !same) this.#put(lines, above);
  }

  #tick(): void {
    const begun = performance.now();
    if (begun < this.#pausedUntil) return;
    this.draw();
    const ended = performance.now();
    this.#pausedUntil = ended + PAUSE_FACTOR * (ended - begun);
  }

  /** Leaves the drawn lines where they are; the next frame begins below them. */
  forget(): void {
    this.#drawn = [];
  }

  /** Ends the area and prints the last lines as ordinary text. */
  close(finalLines: readonly string[]): void {
    if (this.#state === "closed") return;
    if (this.#state === "open") this.#put([], finalLines);
    clearInterval(this.#timer);
    this.#stream.off("resize", this.#onResize);
    // The error listener stays: a late EPIPE without one would end the program.
    this.#state = "closed";
  }

  /** True when the terminal went away. */
  get broken(): boolean {
    return this.#state === "broken";
  }

  /** The size of the terminal now. */
  get size(): ScreenSize {
    const { columns, rows } = this.#stream;
    return {
      columns: columns === undefined || columns === 0 ? SIZE_UNKNOWN.columns : columns,
      rows: rows === undefined || rows === 0 ? SIZE_UNKNOWN.rows : rows,
    };
  }

  #put(lines: readonly string[], above: readonly string[]): void {
    const { columns } = this.size;
    const up = heightOf(this.#drawn, columns);
    const home = up === 0 ? "\r" : `\r${ESC}${up}A`;
    // An unchanged line is skipped, unless something has moved or wrapped it.
    const isInPlace = above.length === 0 && columns === this.#columns;
    const before = isInPlace ? this.#drawn : [];
    const area = lines.map((line, at) => (line === before[at] ? "\n" : lineText(line))).join("");
    this.#drawn = lines;
    this.#columns = columns;
    const text = home + above.map(lineText).join("") + area + CLEAR_BELOW;
    this.#write(SYNC_BEGIN + HIDE_CURSOR + text + SHOW_CURSOR + SYNC_END);
  }

  #write(text: string): void {
    try {
      this.#stream.write(text);
    } catch (error) {
      // Whatever a write to a terminal throws, nobody can see the output any more (cli/T2).
      this.#onError(error);
    }
  }

  readonly #onResize = (): void => this.draw();

  readonly #onError = (_error?: unknown): void => {
    if (this.#state !== "open") return;
    this.#state = "broken";
    clearInterval(this.#timer);
  };
}

/** A line as it is drawn; colours are the only control sequences that it keeps. */
function lineText(line: string): string {
  return `${terminalText(line)}${CLEAR_LINE}\n`;
}

/** How many rows of the screen these lines take, because a narrower screen wraps them. */
function heightOf(lines: readonly string[], columns: number): number {
  return lines.reduce((rows, line) => {
    return rows + Math.max(1, Math.ceil(displayWidth(plainText(line)) / columns));
  }, 0);
}
