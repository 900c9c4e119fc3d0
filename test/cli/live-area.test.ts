import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  FRAME_INTERVAL_MS,
  LiveArea,
  type LiveFrame,
  type ScreenStream,
} from "../../src/cli/screen/live-area.ts";
import { terminalStyle } from "../../src/cli/terminal.ts";

const ESC = "\u001b";
const CODES = new RegExp(`${ESC}\\[\\??(\\d*)([A-Za-z])|[\\s\\S]`, "g");

/** A terminal that understands what the screen uses, and shows what a person would see. */
class Terminal implements ScreenStream {
  columns = 20;
  rows = 10;
  writableNeedDrain = false;
  cursorVisible = true;
  readonly writes: string[] = [];
  failure: Error | undefined;
  private readonly listeners = new Map<string, (() => void)[]>();
  private lines: string[] = [""];
  private row = 0;
  private column = 0;

  write(text: string): boolean {
    if (this.failure !== undefined) throw this.failure;
    this.writes.push(text);
    for (const [part, count, code] of text.matchAll(CODES)) {
      if (code === undefined) this.type(part);
      else this.obey(code, count ?? "");
    }
    return true;
  }

  on(event: string, listener: () => void): void {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener]);
  }

  off(event: string, listener: () => void): void {
    this.listeners.set(
      event,
      (this.listeners.get(event) ?? []).filter((l) => l !== listener),
    );
  }

  emit(event: string): number {
    const listeners = this.listeners.get(event) ?? [];
    for (const listener of listeners) listener();
    return listeners.length;
  }

  get screen(): readonly string[] {
    return this.lines;
  }

  private type(character: string): void {
    if (character === "\r") this.column = 0;
    else if (character === "\n") {
      this.row++;
      this.column = 0;
      this.lines[this.row] ??= "";
    } else {
      const line = (this.lines[this.row] ?? "").padEnd(this.column);
      this.lines[this.row] = line.slice(0, this.column) + character + line.slice(this.column + 1);
      this.column++;
    }
  }

  private obey(code: string, count: string): void {
    if (code === "A") this.row = Math.max(0, this.row - Number(count));
    else if (code === "K")
      this.lines[this.row] = (this.lines[this.row] ?? "").slice(0, this.column);
    else if (code === "J") {
      this.lines[this.row] = (this.lines[this.row] ?? "").slice(0, this.column);
      this.lines.length = this.row + 1;
    } else if (count === "25") this.cursorVisible = code === "h";
  }
}

function area(...lines: readonly string[]): LiveFrame {
  return { above: [], lines };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("draws in place, and leaves only ordinary text behind", () => {
  const terminal = new Terminal();
  let lines = ["one", "two"];
  const above: string[] = [];
  const screen = new LiveArea({
    stream: terminal,
    frame: () => ({ above: above.splice(0), lines }),
  });
  expect(terminal.screen).toEqual(["one", "two", ""]);
  lines = ["1", "2", "3"];
  vi.advanceTimersByTime(FRAME_INTERVAL_MS);
  expect(terminal.screen).toEqual(["1", "2", "3", ""]);
  lines = ["only"];
  vi.advanceTimersByTime(FRAME_INTERVAL_MS);
  expect(terminal.screen).toEqual(["only", ""]);
  above.push("a warning that stays");
  screen.draw();
  expect(terminal.screen).toEqual(["a warning that stays", "only", ""]);
  screen.close(["done", "bye"]);
  expect(terminal.screen).toEqual(["a warning that stays", "done", "bye", ""]);
  screen.close(["again"]);
  expect(terminal.screen).toEqual(["a warning that stays", "done", "bye", ""]);
});

test("repaints only the lines that changed", () => {
  const terminal = new Terminal();
  let seconds = 0;
  const frame = (): LiveFrame => area("release 1/3", `build ${seconds}s`, "ship");
  const screen = new LiveArea({ stream: terminal, frame });
  seconds = 1;
  screen.draw();
  expect(terminal.writes[1]).toContain("build 1s");
  expect(terminal.writes[1]).not.toContain("release");
  expect(terminal.writes[1]).not.toContain("ship");
  expect(terminal.screen).toEqual(["release 1/3", "build 1s", "ship", ""]);
  screen.forget();
  screen.draw();
  expect(terminal.screen.slice(-4)).toEqual(["release 1/3", "build 1s", "ship", ""]);
  screen.close([]);
});

test("T1: leaves the cursor visible after every write", () => {
  const terminal = new Terminal();
  let count = 0;
  const screen = new LiveArea({ stream: terminal, frame: () => area(`frame ${count++}`) });
  for (let frame = 0; frame < 5; frame++) {
    vi.advanceTimersByTime(FRAME_INTERVAL_MS);
    expect(terminal.cursorVisible).toBe(true);
  }
  screen.close([]);
  expect(terminal.cursorVisible).toBe(true);
  expect(terminal.screen).toEqual([""]);
});

test("draws at most ten frames a second, and none when nothing changed", () => {
  const terminal = new Terminal();
  let text = "same";
  const screen = new LiveArea({ stream: terminal, frame: () => area(text) });
  vi.advanceTimersByTime(1_000);
  expect(terminal.writes).toHaveLength(1);
  const until = Date.now() + 1_000;
  while (Date.now() < until) {
    text = `${Date.now()}`;
    vi.advanceTimersByTime(10);
  }
  expect(terminal.writes).toHaveLength(11);
  screen.close([]);
  vi.advanceTimersByTime(1_000);
  expect(terminal.writes).toHaveLength(12);
});

test("T2: only stops drawing when the terminal goes away", () => {
  const terminal = new Terminal();
  let frames = 0;
  const screen = new LiveArea({ stream: terminal, frame: () => area(`${frames++}`) });
  terminal.failure = Object.assign(new Error("write EIO"), { code: "EIO" });
  vi.advanceTimersByTime(FRAME_INTERVAL_MS);
  expect(screen.broken).toBe(true);
  vi.advanceTimersByTime(1_000);
  expect(frames).toBe(2);
  screen.draw();
  screen.close(["unseen"]);
});

test("T2: handles an error event of the stream, even after the end", () => {
  const terminal = new Terminal();
  const screen = new LiveArea({ stream: terminal, frame: () => area("x") });
  expect(terminal.emit("error")).toBe(1);
  expect(screen.broken).toBe(true);
  screen.close(["unseen"]);
  expect(terminal.screen).toEqual(["x", ""]);
  expect(terminal.emit("error")).toBe(1);
  expect(terminal.emit("resize")).toBe(0);
});

test("T3: draws fewer frames on a slow terminal", () => {
  const terminal = new Terminal();
  let frames = 0;
  const screen = new LiveArea({ stream: terminal, frame: () => area(`${frames++}`) });
  terminal.writableNeedDrain = true;
  vi.advanceTimersByTime(1_000);
  expect(terminal.writes).toHaveLength(1);
  terminal.writableNeedDrain = false;
  vi.advanceTimersByTime(FRAME_INTERVAL_MS);
  expect(terminal.writes).toHaveLength(2);
  screen.close([]);
});

test("redraws after a resize with the new size, over the lines that the resize wrapped", () => {
  const terminal = new Terminal();
  const frame = ({ columns }: { columns: number }): LiveFrame => area("x".repeat(columns - 1));
  const screen = new LiveArea({ stream: terminal, frame });
  terminal.columns = 10;
  terminal.emit("resize");
  // 19 characters take two rows of a screen that is 10 wide.
  expect(terminal.writes[1]).toContain("\u001b[2A");
  expect(terminal.writes[1]).toContain(`${"x".repeat(9)}\u001b[K\n`);
  screen.close([]);
});

test.each([
  [{}, true, true],
  [{}, false, false],
  [{ NO_COLOR: "1" }, true, false],
  [{ NO_COLOR: "" }, true, true],
  [{ FORCE_COLOR: "1" }, false, true],
  [{ FORCE_COLOR: "1", NO_COLOR: "1" }, false, true],
  [{ FORCE_COLOR: "0" }, true, false],
  [{ TERM: "dumb" }, true, false],
])("colours with %j on a terminal (%s): %s", (env, isTTY, coloured) => {
  const text = terminalStyle(env, { isTTY })("good", "yes");
  expect(text).toBe(coloured ? "\u001b[32myes\u001b[0m" : "yes");
});
