/** The live view: one frame that is drawn anew whenever the run has changed. */

import { type LastLine, lastLineOf } from "../../app/output.ts";
import type { Screen, ScreenOptions } from "../../app/screen.ts";
import { masked } from "../../app/secret-mask.ts";
import type { Recorded } from "../../core/event.ts";
import { attemptOf, type Run, type Visit } from "../../core/run.ts";
import { attemptText } from "../../core/step-path.ts";
import { checkReportLines } from "../../view/failure-text.ts";
import { progressLines, type ScreenSize } from "../../view/progress.ts";
import type { Style } from "../../view/text.ts";
import { LiveArea } from "./live-area.ts";
import { terminalStyle } from "./style.ts";

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
