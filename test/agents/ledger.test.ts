/**
 * What transcripts on disk tell of the usage. Both were left by a kill -9 in a tool and a resume:
 * the model had served the first call twice, and then the second.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import type { AgentAdapter, Ledger } from "../../src/runner/agents/adapter.ts";
import { codex } from "../../src/runner/agents/codex/codex.ts";
import { gemini } from "../../src/runner/agents/gemini/gemini.ts";
import { LineFold, linesFromEnd } from "../../src/runner/agents/transcript.ts";

const TRANSCRIPTS = join(import.meta.dirname, "transcripts");
const SERVED = {
  usage: { inputTokens: 1320 + 1320 + 2900, cachedTokens: 1500, outputTokens: 25 + 25 + 35 },
  turns: 3,
  context: 2935,
};

const scratch = mkdtempSync(join(tmpdir(), "perdure-ledger-"));
afterAll(() => rmSync(scratch, { recursive: true }));

function put(content: string): string {
  const file = join(scratch, "transcript.jsonl");
  writeFileSync(file, content);
  return file;
}

function ledgerOf(adapter: AgentAdapter, content: string): Ledger | undefined {
  return adapter.ledger?.(put(content));
}

describe.each([
  { adapter: codex, file: "codex.jsonl", more: { window: 258_400, model: "gpt-5.5" } },
  {
    adapter: gemini,
    file: "gemini-resumed.jsonl",
    more: { window: 1_048_576, model: "gemini-2.5-pro", countsTurns: true },
  },
])("the ledger of $adapter.name", ({ adapter, file, more }) => {
  const text = readFileSync(join(TRANSCRIPTS, file), "utf8");

  it("is what was served", () => {
    expect(ledgerOf(adapter, text)).toEqual({ ...SERVED, ...more });
  });

  it("never goes back while the transcript grows, and bears a torn line", () => {
    let before = 0;
    let turns = 0;
    const seen = new Set<number>();
    for (let cut = 0; cut <= text.length; cut += 97) {
      const known = ledgerOf(adapter, text.slice(0, cut));
      const tokens = known?.usage.inputTokens ?? 0;
      expect(tokens).toBeGreaterThanOrEqual(before);
      expect(known?.turns ?? 0).toBeGreaterThanOrEqual(turns);
      before = tokens;
      turns = known?.turns ?? 0;
      seen.add(tokens);
    }
    expect([...seen]).toEqual([0, 1320, 2640, 5540]);
  });

  it("is the same behind a long line and a torn one", () => {
    const long = JSON.stringify({ type: "other", text: "tokens ".repeat(200_000) });
    expect(ledgerOf(adapter, `${text}${long}\n{"type":"to`)).toEqual({ ...SERVED, ...more });
  });

  it("is the same without the last newline", () => {
    expect(ledgerOf(adapter, text.trimEnd())).toEqual({ ...SERVED, ...more });
  });

  it("is none before the first answer, and none of no file", () => {
    const [first = ""] = text.split("\n", 1);
    expect(ledgerOf(adapter, `${first}\n`)).toBeUndefined();
    expect(ledgerOf(adapter, "")).toBeUndefined();
    expect(adapter.ledger?.(join(scratch, "no such file"))).toBeUndefined();
  });
});

it("of an older Codex lacks the answer whose tool was killed", () => {
  const text = readFileSync(join(TRANSCRIPTS, "codex.jsonl"), "utf8");
  const lines = text.split("\n").filter((line) => !line.includes('"token_usage_record"'));
  const counts = lines.flatMap((line) => (line.includes('"token_count"') ? [line, line] : [line]));
  const usage = { inputTokens: 4220, cachedTokens: 1200, outputTokens: 60 };
  const known = { usage, turns: 2, context: 2935, window: 258_400, model: "gpt-5.5" };
  expect(ledgerOf(codex, counts.join("\n"))).toEqual(known);
});

it("of Codex says so while an answer has no record of what it used", () => {
  const lines = readFileSync(join(TRANSCRIPTS, "codex.jsonl"), "utf8").split("\n");
  const answer = lines.findLastIndex((line) => line.includes('"role":"assistant"'));
  expect(ledgerOf(codex, lines.slice(0, answer).join("\n"))?.incomplete).toBeUndefined();
  const cut = lines.slice(0, answer + 1).join("\n");
  expect(ledgerOf(codex, cut)).toMatchObject({ incomplete: true, turns: 2 });
  expect(ledgerOf(codex, lines.slice(0, answer + 2).join("\n"))?.incomplete).toBeUndefined();
});

it("of Codex says so of its very first answer too, of which it has no sum at all", () => {
  const lines = readFileSync(join(TRANSCRIPTS, "codex.jsonl"), "utf8").split("\n");
  const call = lines.findIndex((line) => line.includes('"type":"function_call"'));
  expect(ledgerOf(codex, lines.slice(0, call).join("\n"))).toBeUndefined();
  expect(ledgerOf(codex, lines.slice(0, call + 1).join("\n"))).toMatchObject({
    ...{ incomplete: true, turns: 0, context: 0 },
    usage: { inputTokens: 0, cachedTokens: 0, outputTokens: 0 },
  });
});

it("of Codex tells calls with a long input apart", () => {
  const tokens = (input: number): object => ({ input_tokens: input, output_tokens: 10 });
  const record = (input: number, sum: number): string =>
    JSON.stringify({
      type: "token_usage_record",
      payload: { usage: tokens(input), thread_token_usage: tokens(sum) },
    });
  const ledger = ledgerOf(codex, `${record(150_000, 150_000)}\n${record(250_000, 400_000)}\n`);
  expect(ledger?.usage).toMatchObject({ inputTokens: 400_000, long: { inputTokens: 250_000 } });
});

it("of Gemini is the same after the repair", () => {
  const file = put(readFileSync(join(TRANSCRIPTS, "gemini-resumed.jsonl"), "utf8"));
  gemini.repair?.(file);
  expect(gemini.ledger?.(file)).toMatchObject(SERVED);
});

describe("lines from the end", () => {
  const WHOLE = Number.MAX_SAFE_INTEGER;
  const BLOCK_BYTES = 256 * 1024;

  it("are the lines", () => {
    const texts = fc.array(fc.string({ unit: "grapheme" }), { maxLength: 20 });
    fc.assert(
      fc.property(texts, (lines) => {
        const text = lines.join("\n");
        expect([...linesFromEnd(put(text), WHOLE)]).toEqual(text.split("\n").toReversed());
      }),
    );
  });

  it.each([-2, -1, 0, 1, 2])("are whole where a block ends, %i bytes off", (off) => {
    const lines = ["first", "ü".repeat(BLOCK_BYTES), "x".repeat(BLOCK_BYTES + off), "", "last"];
    expect([...linesFromEnd(put(lines.join("\n")), WHOLE)]).toEqual(lines.toReversed());
  });

  it("stop at the given position, without half a line", () => {
    const file = put("one\ntwo\nthree");
    expect([...linesFromEnd(file, 5)]).toEqual([]);
    expect([...linesFromEnd(file, 6)]).toEqual(["three"]);
    expect([...linesFromEnd(file, 9)]).toEqual(["three"]);
    expect([...linesFromEnd(file, 13)]).toEqual(["three", "two", "one"]);
  });
});

describe("a fold over a file that grows", () => {
  it("reads each line once, a torn one for the moment only, and another file from its start", () => {
    let read: string[] = [];
    const fold = new LineFold<string>(
      () => "",
      (state, line) => {
        read.push(line);
        return `${state}[${line}]`;
      },
    );
    const long = "x".repeat(1_000_000);
    const ask = (content: string): readonly [string, readonly string[]] => {
      read = [];
      return [fold.of(put(content)), read];
    };
    expect(ask("a\nb\n")).toEqual(["[a][b]", ["a", "b"]]);
    expect(ask("a\nb\n")).toEqual(["[a][b]", []]);
    expect(ask("a\nb\nc")).toEqual(["[a][b][c]", ["c"]]);
    expect(ask(`a\nb\nc${long}\nd\n`)).toEqual([`[a][b][c${long}][d]`, [`c${long}`, "d"]]);
    expect(ask("a\n")).toEqual(["[a]", ["a"]]);
    expect(ask("z\ny\nx\n")).toEqual(["[z][y][x]", ["z", "y", "x"]]);
    expect(fold.of(join(scratch, "none"))).toBe("");
  });
});
