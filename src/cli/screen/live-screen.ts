/**
 * The live view on stdout: feeds the layout (view/live) with the run, the output of its steps and the
 * person's keys, and prints finished steps above it.
 *
 * Owns: the tails of the outputs, the queue of finished steps, and what the keys do.
 * Does not: lay out (view/live), draw (live-area.ts) or read keys (keyboard.ts).
 * Invariants:
 * - cli/T6 A frame reads a limited number of outputs, and the queue of lines has a limit: however fast
 *   steps end or print, the run does not wait for its view.
 */

import type { Screen, ScreenOptions } from "../../app/drive/screen.ts";
import { type PrintedAttempt, printedAttempt } from "../../app/output/output.ts";
import { OutputTail } from "../../app/output/output-tail.ts";
import { masked } from "../../app/output/secret-mask.ts";
import type { AttemptRef, Recorded } from "../../core/event.ts";
import {
  attemptOf,
  currentVisit,
  findStep,
  findVisit,
  hasProcess,
  type Run,
  stepOf,
} from "../../core/run.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import { AttemptClock, attemptEnd } from "../../view/attempt-history.ts";
import { eventLine, eventTone } from "../../view/event-line.ts";
import { principalFailure } from "../../view/failure-advice.ts";
import {
  choiceAfter,
  choosableSteps,
  type LiveChoice,
  type LiveInput,
  type LiveKey,
  type LiveOutput,
  NOTHING_CHOSEN,
  newestOutput,
  type ScreenSize,
} from "../../view/live/live-input.ts";
import { finishedLines, spentNote } from "../../view/live/live-steps.ts";
import { liveLines } from "../../view/live/live-view.ts";
import { type Estimate, remainingMs } from "../../view/preview/estimate.ts";
import { commandText, type Tone, wrapAdvice } from "../../view/text.ts";
import { stdoutStyle } from "../terminal.ts";
import type { Keyboard, PressedKey } from "./keyboard.ts";
import { LiveArea, type LiveFrame } from "./live-area.ts";

/** How many running outputs a frame reads, and how many finished ones. */
const TAILS_READ_MAX = 64;
const FINISHED_READ_MAX = 50;
/** When the queue is longer, finished steps are printed without their output. */
const QUEUE_MAX = 500;
/** Earlier runs are read for estimates only after this time, because short runs need none. */
const ESTIMATE_AFTER_MS = 1_500;

/** A line that waits to be printed above the area, and the attempt whose output follows it. */
interface QueuedLine {
  readonly text: string;
  readonly tone?: Tone | undefined;
  readonly ended?: { readonly at: AttemptRef; readonly printed: PrintedAttempt };
  readonly hasFailed?: boolean;
}

interface ReadTail {
  readonly tail: OutputTail;
  changedAt: number;
}

const SHOWN_IN_AREA: ReadonlySet<string> = new Set(["step.started", "step.asked"]);

const VIEW_KEYS: Readonly<Record<string, LiveKey>> = {
  up: "up",
  down: "down",
  k: "up",
  j: "down",
  enter: "enter",
  escape: "escape",
  "page-up": "page-up",
  "page-down": "page-down",
  "?": "?",
};
const KEYS = ["? keys", "↑↓ step", "enter expand"] as const;
const TYPING_KEYS = ["enter answer", "tab other keys", "↑↓ step"] as const;
const CONTROL_KEYS = {
  owner: ["s stop after step", "d detach", "ctrl-c stop"],
  watcher: ["s stop after step", "d leave"],
} as const;

/** The live view on stdout. */
export class LiveScreen implements Screen {
  readonly #options: ScreenOptions;
  readonly #keyboard: Keyboard;
  readonly #area: LiveArea;
  readonly #style = stdoutStyle();
  readonly #clock = new AttemptClock();
  readonly #tails = new Map<string, ReadTail>();
  /** The agents that judge, by attempt. */
  readonly #judges = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;
  #queue: QueuedLine[] = [];
  #run: Run | undefined;
  #choice: LiveChoice = NOTHING_CHOSEN;
  #shown: string | undefined;
  #estimates: ReadonlyMap<string, Estimate> = new Map();

  constructor(options: ScreenOptions, keyboard: Keyboard) {
    this.#options = options;
    this.#keyboard = keyboard;
    for (const recorded of options.past) this.#startOf(recorded);
    this.#area = new LiveArea({ stream: process.stdout, frame: (size) => this.#frame(size) });
    this.#timer = setTimeout(() => this.#estimate(), ESTIMATE_AFTER_MS);
    this.#timer.unref();
    keyboard.listen((key) => this.#press(key));
    keyboard.onPressed = () => this.#area.draw();
    keyboard.onSuspend = () => this.#area.forget();
    keyboard.open();
  }

  say(line: string): void {
    this.#queue.push({ text: line });
  }

  update(events: readonly Recorded[], run: Run): void {
    this.#run = run;
    for (const recorded of events) {
      const { event } = recorded;
      const line = eventLine(run, recorded, this.#startOf(recorded));
      // The area shows what runs and what is asked; only the ends are printed above it.
      if (line === undefined || SHOWN_IN_AREA.has(event.type)) continue;
      const text = line + spentNote(attemptEnd(event)?.spent);
      this.#queue.push({ text, tone: eventTone(event), ...this.#endIn(event, run) });
    }
  }

  refresh(): void {
    this.#area.draw();
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#keyboard.close();
    const last: string[] = [];
    this.#leaveToCard();
    while (this.#queue.length > 0) last.push(...this.#finished());
    this.#area.close(last);
    for (const { tail } of this.#tails.values()) tail.close();
    this.#tails.clear();
  }

  /** Drops the output of the failed step, because the card of a failed run shows it. */
  #leaveToCard(): void {
    const run = this.#run;
    const failed = run?.state.status === "failed" ? principalFailure(run) : undefined;
    const key = failed && attemptText(attemptOf(failed));
    this.#queue = this.#queue.map((line) =>
      line.ended !== undefined && attemptText(line.ended.at) === key
        ? { text: line.text, tone: line.tone }
        : line,
    );
  }

  /** The time when the attempt of an event began; remembers the judge of the attempt. */
  #startOf(recorded: Recorded): number | undefined {
    const { event } = recorded;
    if (event.type === "step.started" && event.judge !== undefined) {
      this.#judges.set(attemptText(event), event.judge);
    }
    return this.#clock.startOf(recorded);
  }

  #endIn(event: Recorded["event"], run: Run): Pick<QueuedLine, "ended" | "hasFailed"> {
    const end = attemptEnd(event);
    const visit = end && findVisit(run, end);
    if (end === undefined || visit === undefined || !hasProcess(stepOf(visit))) return {};
    const printed = { step: stepOf(visit), judge: this.#judges.get(attemptText(end)) };
    return { ended: { at: end, printed }, hasFailed: event.type !== "step.completed" };
  }

  #frame(size: ScreenSize): LiveFrame {
    const above = this.#finished();
    const run = this.#run;
    if (run === undefined) return { above, lines: [] };
    const lines = liveLines(this.#input(run, size)).map(masked);
    return { above, lines };
  }

  #input(run: Run, size: ScreenSize): LiveInput {
    const { shortId, footer } = this.#options;
    const now = this.#options.now();
    const running = this.#readRunning(run, now);
    const chosen = this.#chosenAttempt(run, now);
    const outputs = chosen === undefined ? running : new Map([...running, chosen]);
    this.#shown = chosen?.[0] ?? newestOutput(this.#shown, running, now);
    return {
      ...{ run, shortId, now, size, outputs },
      choice: this.#choice,
      role: this.#options.controls?.role ?? "watcher",
      shown: this.#shown,
      footer: (footer?.(Math.max(1, size.columns - 1)) ?? []).map(masked),
      keys: this.#keys(),
      remainingMs: remainingMs(run, this.#estimates, now),
      style: this.#style,
    };
  }

  #keys(): readonly string[] {
    if (!this.#keyboard.isReachable) return [];
    if (this.#keyboard.isTyping) return TYPING_KEYS;
    const { controls } = this.#options;
    return controls === undefined ? KEYS : [...KEYS, ...CONTROL_KEYS[controls.role]];
  }

  /** Reads what running steps have printed since the last frame. */
  #readRunning(run: Run, now: number): ReadonlyMap<string, LiveOutput> {
    const outputs = new Map<string, LiveOutput>();
    for (const visit of run.running) {
      if (outputs.size >= TAILS_READ_MAX) break;
      const at = attemptOf(visit);
      const read = this.#tailOf(at, printedAttempt(visit), now);
      if (read.tail.read()) read.changedAt = now;
      outputs.set(attemptText(at), outputIn(read));
    }
    return outputs;
  }

  /** The output of the chosen step, which may have ended long ago. */
  #chosenAttempt(run: Run, now: number): readonly [string, LiveOutput] | undefined {
    const { step } = this.#choice;
    const visit = step === undefined ? undefined : currentVisit(findStep(run, step));
    if (visit === undefined || visit.attempts === 0) return undefined;
    const at = attemptOf(visit);
    const key = attemptText(at);
    const isNew = !this.#tails.has(key);
    const read = this.#tailOf(at, printedAttempt(visit), now);
    if (isNew && !run.running.has(visit)) read.tail.readToEnd();
    return [key, outputIn(read)];
  }

  #tailOf(at: AttemptRef, printed: PrintedAttempt, now: number): ReadTail {
    const key = attemptText(at);
    const known = this.#tails.get(key);
    if (known !== undefined) return known;
    const { dir, readers } = this.#options;
    const read = { tail: new OutputTail({ dir, at, readers }, printed), changedAt: now };
    this.#tails.set(key, read);
    return read;
  }

  /** The next finished lines, with the outputs that belong to them. */
  #finished(): readonly string[] {
    const isLong = this.#queue.length > QUEUE_MAX;
    const count = isLong ? this.#queue.length - FINISHED_READ_MAX : FINISHED_READ_MAX;
    const taken = this.#queue.slice(0, count);
    this.#queue = this.#queue.slice(count);
    return taken.flatMap((line) => this.#linesOf(line, isLong)).map(masked);
  }

  #linesOf(line: QueuedLine, isLong: boolean): readonly string[] {
    const { text, tone, ended, hasFailed = false } = line;
    const { columns } = this.#area.size;
    const head = text
      .split("\n")
      .flatMap((one) => wrapAdvice(one, columns))
      .map((row) => (tone === undefined ? row : this.#style(tone, row)));
    if (ended === undefined) return head;
    const { at, printed } = ended;
    const key = attemptText(at);
    if (isLong && !hasFailed) {
      this.#tails.get(key)?.tail.close();
      this.#tails.delete(key);
      return head;
    }
    const { tail } = this.#tailOf(at, printed, 0);
    tail.readToEnd();
    this.#tails.delete(key);
    const logs = commandText("logs", this.#options.shortId, stepPath(at));
    const output = { lines: tail.lines(), isCut: tail.isCut, hasFailed, logs };
    return [...head, ...finishedLines(output, { style: this.#style, width: columns })];
  }

  #press({ name }: PressedKey): boolean {
    const { controls } = this.#options;
    const key = VIEW_KEYS[name];
    if (key !== undefined) {
      const isMove = key === "up" || key === "down";
      const steps = isMove && this.#run !== undefined ? choosableSteps(this.#run) : [];
      this.#choice = choiceAfter(this.#choice, key, steps);
    } else if (name === "s") controls?.stopAfterStep();
    else if (name === "d") controls?.detach();
    return true;
  }

  #estimate(): void {
    this.#options.estimates?.().then(
      (estimates) => {
        this.#estimates = estimates;
      },
      // Estimates are optional; whoever needs the journal reports that it cannot be read.
      () => undefined,
    );
  }
}

function outputIn({ tail, changedAt }: ReadTail): LiveOutput {
  const { activity } = tail;
  return { lines: tail.lines(), changedAt, spending: activity, tool: activity?.tool };
}
