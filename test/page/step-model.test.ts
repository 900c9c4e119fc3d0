/** What the pages of a step and of time travel compute: the held part of an output, trees, contexts. */
import { describe, expect, test } from "vitest";
import {
  CHUNK_BYTES,
  HELD_BYTES_MAX,
  type HeldOutput,
  heldFrom,
  heldTo,
  holdsEnd,
  linesOf,
  windowOf,
  withNext,
  withPrevious,
} from "../../src/page/step/output-window.ts";
import { contextChanges, foundRows, treeRows } from "../../src/page/time/moment-model.ts";

describe("the held part of an output", () => {
  /** A file of numbered lines, each of ten bytes. */
  const LINES = 200_000;
  const BYTES = LINES * 10;
  const part = (from: number, to: number) => {
    const numbers = Array.from({ length: (to - from) / 10 }, (_, index) => from / 10 + index);
    const text = numbers.map((number) => `${String(number).padStart(9, "0")}\n`).join("");
    return { from, to, bytes: BYTES, ended: to === BYTES, text };
  };
  const texts = (held: HeldOutput): readonly string[] => linesOf(held).map(({ text }) => text);

  test("a line keeps its key while neighbours come and go (output-window/W2)", () => {
    const middle = windowOf(part(1_000_000, 1_100_000));
    const keys = new Map(linesOf(middle).map(({ key, text }) => [text, key]));
    const wider = withPrevious(
      withNext(middle, part(1_100_000, 1_200_000)),
      part(900_000, 1_000_000),
    );
    expect([heldFrom(wider), heldTo(wider)]).toEqual([900_000, 1_200_000]);
    expect(texts(wider)).toHaveLength(30_000);
    for (const { key, text } of linesOf(wider)) expect(keys.get(text) ?? key).toBe(key);
  });

  test("it never holds more than its limit, in either direction", () => {
    let held = windowOf(part(0, 100_000));
    for (let at = 100_000; at < BYTES; at += 100_000) held = withNext(held, part(at, at + 100_000));
    expect(holdsEnd(held)).toBe(true);
    expect(heldTo(held) - heldFrom(held)).toBeLessThanOrEqual(HELD_BYTES_MAX);
    expect(texts(held).at(-1)).toBe("000199999");
    while (heldFrom(held) > 0)
      held = withPrevious(held, part(heldFrom(held) - 100_000, heldFrom(held)));
    expect(heldTo(held)).toBeLessThanOrEqual(HELD_BYTES_MAX);
    expect(texts(held)[0]).toBe("000000000");
    expect(holdsEnd(held)).toBe(false);
  });

  test("a part that is no neighbour only says how long the output is (output-window/W1)", () => {
    const held = windowOf(part(0, 1_000));
    const after = withNext(held, { ...part(5_000, 6_000), bytes: BYTES + 1 });
    expect(after.chunks).toBe(held.chunks);
    expect(after.bytes).toBe(BYTES + 1);
    expect(withPrevious(held, part(5_000, 6_000))).toBe(held);
  });

  test("small news of a living step become one chunk, and a line may come in pieces", () => {
    let held = windowOf({ from: 0, to: 0, bytes: 0, ended: false, text: "" });
    const words = ["one\ntw", "o\nthree", "\n"];
    let at = 0;
    for (const text of words) {
      held = withNext(held, { from: at, to: at + text.length, bytes: at, ended: false, text });
      at += text.length;
    }
    expect(held.chunks).toHaveLength(1);
    expect(texts(held)).toEqual(["one", "two", "three"]);
  });

  test("a very long line is shown in pieces that add up to it", () => {
    const text = "x".repeat(CHUNK_BYTES - 1);
    const held = windowOf({ from: 0, to: CHUNK_BYTES, bytes: CHUNK_BYTES, ended: true, text });
    const lines = linesOf(held);
    expect(lines.length).toBeGreaterThan(10);
    expect(lines.map((line) => line.text).join("")).toBe(text);
    expect(new Set(lines.map(({ key }) => key)).size).toBe(lines.length);
  });
});

describe("files", () => {
  const files = ["src/b.ts", "README.md", "src/a/x.ts", "docs/x.md"].map((path) => ({
    path,
    bytes: path.length,
  }));

  test("folders come first and hold their files only while they are open", () => {
    const open = treeRows(files, (folder) => folder === "src");
    expect(open.map(({ path, depth }) => `${depth} ${path}`)).toEqual([
      "0 docs",
      "0 src",
      "1 src/a",
      "1 src/b.ts",
      "0 README.md",
    ]);
  });

  test("a search finds files by any part of their path", () => {
    expect(foundRows(files, "X.").map(({ path }) => path)).toEqual(["src/a/x.ts", "docs/x.md"]);
  });
});

test("a context is compared by its keys", () => {
  const changes = contextChanges(
    { a: 1, b: { c: [1] }, d: "x" },
    { b: { c: [1] }, d: "y", e: null },
  );
  expect(changes.map(({ key, kind }) => `${kind} ${key}`)).toEqual([
    "removed a",
    "changed d",
    "added e",
  ]);
});
