import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  followLines,
  LINE_BYTES_MAX,
  lastLine,
  PulledFile,
} from "../../src/runner/process/output.ts";
import { Attempt, waitFor } from "./rig.ts";

function follow(fromOffset = 0) {
  const file = join(new Attempt().cwd, "output.log");
  const lines: string[] = [];
  const offsets: number[] = [];
  const onLine = (line: string, endOffset: number): void => {
    lines.push(line);
    offsets.push(endOffset);
  };
  return { file, lines, offsets, start: () => followLines(file, onLine, { fromOffset }) };
}

test("delivers lines as the file grows, and the incomplete one at close (runner/O1)", async () => {
  const { file, lines, offsets, start } = follow();
  const followed = start();
  writeFileSync(file, "one\ntw");
  await waitFor("one", () => lines.length === 1);
  appendFileSync(file, "o\r\n\nthr");
  await waitFor("two", () => lines.length === 3);
  appendFileSync(file, "ee");
  await followed.close();
  await followed.close();
  expect(lines).toEqual(["one", "two", "", "three"]);
  expect(offsets).toEqual([4, 9, 10, 15]);
});

test("continues from an offset, and delivers no lines of a missing file", async () => {
  const { file, lines, start } = follow(4);
  writeFileSync(file, "one\ntwo\n");
  await start().close();
  expect(lines).toEqual(["two"]);
  const missing = follow();
  await missing.start().close();
  expect(missing.lines).toEqual([]);
});

test("decodes characters whole at the edges of chunks (runner/O3)", async () => {
  const { file, lines, start } = follow();
  const text = `x${"€".repeat(60_000)}`;
  writeFileSync(file, `${text}\n`);
  await start().close();
  expect(lines).toEqual([text]);
});

test("cuts a line that is too long at a character (runner/O2, runner/O3)", async () => {
  const { file, lines, offsets, start } = follow();
  const long = `x${"€".repeat(LINE_BYTES_MAX)}`;
  writeFileSync(file, `${long}\nnext\n`);
  await start().close();
  expect(lines.length).toBe(2);
  expect(lines[0]).toBe(long.slice(0, 1 + Math.floor((LINE_BYTES_MAX - 1) / 3)));
  expect(lines[1]).toBe("next");
  expect(offsets[1]).toBe(Buffer.byteLength(long) + 6);
});

test("finds the last line for live views", () => {
  const file = join(new Attempt().cwd, "output.log");
  expect(lastLine(file)).toBe("");
  const cases: [string, string][] = [
    ["", ""],
    ["\n\n", ""],
    ["one\ntwo\n\n", "two"],
    ["one\nhalf", "half"],
    ["10%\r20%\r", "20%"],
    [`a${"€".repeat(3_000)}`, "€".repeat(1_365)],
  ];
  for (const [text, line] of cases) {
    writeFileSync(file, text);
    expect(lastLine(file)).toBe(line);
  }
});

describe("a follower of a file (runner/O4)", () => {
  test.each([
    ["its listener throws", (file: string) => writeFileSync(file, "one\ntwo\n"), "no more of this"],
    ["its file is a FIFO", (file: string) => execFileSync("mkfifo", [file]), "is no file"],
    ["its file is a folder", (file: string) => mkdirSync(file), "is no file"],
    ["its folder is a file now", (file: string) => blockFolder(file), "ENOTDIR"],
  ])("reports once, and again at the end, that %s", async (_name, make, message) => {
    const file = join(new Attempt().cwd, "below", "output.log");
    mkdirSync(dirname(file));
    make(file);
    const errors: unknown[] = [];
    const lines: string[] = [];
    const followed = followLines(
      file,
      (line) => {
        lines.push(line);
        throw new Error("no more of this");
      },
      { onError: (error) => errors.push(error) },
    );
    await waitFor("the error", () => errors.length > 0);
    await expect(followed.close()).rejects.toThrow(message);
    expect([errors.length, lines.length < 2]).toEqual([1, true]);
  });
});

function blockFolder(file: string): void {
  rmSync(dirname(file), { recursive: true });
  writeFileSync(dirname(file), "");
}

describe("a file that is read on request", () => {
  test("delivers new lines, and shows the incomplete one", () => {
    const file = join(new Attempt().cwd, "output.log");
    const lines: string[] = [];
    const pulled = new PulledFile(file, (line) => lines.push(line), "end");
    expect(pulled.pull()).toBe(0);
    writeFileSync(file, "one\ntw");
    expect(pulled.pull()).toBe(6);
    expect(pulled.partial).toBe("tw");
    expect(pulled.pull()).toBe(0);
    appendFileSync(file, "o\nthree");
    pulled.pull();
    expect(lines).toEqual(["one", "two"]);
    pulled.close();
    expect(lines).toEqual(["one", "two", "three"]);
  });

  test("skips whole lines when the file grows too fast", () => {
    const file = join(new Attempt().cwd, "output.log");
    const lines: string[] = [];
    const pulled = new PulledFile(file, (line) => lines.push(line), "end");
    const all = Array.from({ length: 200_000 }, (_, at) => `line ${at}`);
    writeFileSync(file, `${all.join("\n")}\n`);
    expect(pulled.pull()).toBeLessThan(100_000);
    expect(pulled.hasSkipped).toBe(true);
    expect(lines.at(-1)).toBe("line 199999");
    expect(all).toContain(lines[0]);
    pulled.close();
  });

  test("reads a whole stream, one part at a time", () => {
    const file = join(new Attempt().cwd, "output.log");
    let count = 0;
    const pulled = new PulledFile(file, () => count++, "whole");
    writeFileSync(file, "x\n".repeat(600_000));
    let reads = 0;
    while (pulled.pull() > 0) reads++;
    pulled.close();
    expect(count).toBe(600_000);
    expect(reads).toBeGreaterThan(1);
    expect(pulled.hasSkipped).toBe(false);
  });
});
