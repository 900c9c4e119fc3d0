import { expect, test } from "vitest";
import {
  cutText,
  displayWidth,
  padText,
  plainText,
  shortList,
  tableLines,
  wrapAdvice,
  wrapText,
} from "../../src/view/text.ts";

test.each([
  ["\u001b[31mred\u001b[0m", "red"],
  ["\u001b]8;;https://example.org\u0007link\u001b]8;;\u0007", "link"],
  ["\u001b]0;title\u001b\\text", "text"],
  ["\u001b[2J\u001b[1;1Hhome", "home"],
  ["\u001b(Bset", "set"],
  ["\u009b31mC1", "C1"],
  ["a\u0007b\u0000c\u007f", "abc"],
  ["10%\r55%\r100%\r", "100%"],
  ["a\tb\nc", "a b c"],
  ["abc\u202edef", "abcdef"],
  ["\u001b", ""],
])("plainText removes control sequences from %j", (text, plain) => {
  expect(plainText(text)).toBe(plain);
});

test.each([
  ["plain", 5],
  ["日本", 4],
  ["é", 1],
  ["e\u0301", 1],
  ["👍", 2],
  ["👨‍👩‍👧", 2],
  ["✓ ▶ ·", 5],
  ["한국어", 6],
])("%s is %i columns wide", (text, width) => {
  expect(displayWidth(text)).toBe(width);
});

test("cutText never exceeds the width and never splits a character", () => {
  expect(cutText("hello", 5)).toBe("hello");
  expect(cutText("hello!", 5)).toBe("hell…");
  expect(cutText("日本語", 4)).toBe("日…");
  expect(cutText("👨‍👩‍👧👨‍👩‍👧", 3)).toBe("👨‍👩‍👧…");
  expect(cutText("hello", 0)).toBe("");
});

test("wrapText breaks lines between words and keeps every word", () => {
  expect(wrapText("ask: one two three", 10)).toEqual(["ask: one", "  two", "  three"]);
  expect(wrapText("  [A] approve, [R] reject", 30)).toEqual(["  [A] approve, [R] reject"]);
  expect(wrapText("  incomprehensibilities", 10)).toEqual(["  incomprehensibilities"]);
  expect(wrapText("", 10)).toEqual([""]);
});

test("wrapAdvice moves a suggested command as a whole, or breaks it after a backslash", () => {
  const next = "Continue: perdure resume 1a2b3c4d   (output: perdure logs 1a2b3c4d test)";
  expect(wrapAdvice(next, 34)).toEqual([
    "Continue: perdure resume 1a2b3c4d",
    "  (output:",
    "    perdure logs 1a2b3c4d test)",
  ]);
  expect(wrapAdvice("Continue: perdure resume 1a2b3c4d --update", 30)).toEqual([
    "Continue:",
    "    perdure resume 1a2b3c4d \\",
    "      --update",
  ]);
  expect(wrapAdvice(next, 80)).toEqual([next]);
});

test("wrapAdvice continues a colour in the next row", () => {
  expect(wrapAdvice("\u001b[31mone two three\u001b[0m", 9)).toEqual([
    "\u001b[31mone two\u001b[0m",
    "\u001b[31m  three\u001b[0m",
  ]);
});

test("tableLines moves cells that do not fit to the next line", () => {
  const rows = [
    ["STEP", "STATE", "RESULT"],
    ["build", "completed", "exit 0"],
    ["test", "failed", "it exited with 1"],
  ];
  expect(tableLines(rows, { width: 30 })).toEqual([
    "STEP   STATE      RESULT",
    "build  completed  exit 0",
    "test   failed",
    "    it exited with 1",
  ]);
});

test("padText counts columns, not characters", () => {
  expect(padText("日", 4)).toBe("日  ");
});

test("shortList counts the names that it leaves out", () => {
  expect(shortList(["a", "b"], 2)).toBe("a, b");
  expect(shortList(["a", "b", "c"], 2)).toBe("a, b and 1 more");
  expect(shortList(["a"], 2, 5)).toBe("a and 4 more");
});
