import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isMarked, markedRedactor, markSecrets } from "../../src/util/secrets.ts";

const SALT = "00112233445566778899aabbccddeeff";
const secret = fc.string({ unit: "grapheme", minLength: 8, maxLength: 60 }).filter(isOneLine);
const around = fc.string({ unit: "grapheme", maxLength: 200 });

function isOneLine(text: string): boolean {
  return text.length >= 8 && !/[\r\n]/.test(text);
}

describe("marks of secrets", () => {
  it("recognise a value wherever it stands in a text", () => {
    fc.assert(
      fc.property(secret, around, around, (value, before, after) => {
        const marks = markSecrets(new Map([["X", value]]), SALT);
        const masked = markedRedactor([marks])(`${before}${value}${after}`);
        expect(masked).not.toContain(value);
        expect(masked).toContain("[redacted]");
      }),
    );
  });

  it("leave every other text as it is", () => {
    fc.assert(
      fc.property(secret, around, (value, text) => {
        fc.pre(!text.includes(value));
        const marks = markSecrets(new Map([["X", value]]), SALT);
        expect(markedRedactor([marks])(text)).toBe(text);
      }),
    );
  });

  it("tell whether a value is the same, and do not hold it", () => {
    fc.assert(
      fc.property(secret, secret, (value, other) => {
        const marks = markSecrets(new Map([["X", value]]), SALT);
        expect(isMarked(marks, "X", value)).toBe(true);
        expect(isMarked(marks, "X", other)).toBe(value === other);
        expect(isMarked(marks, "Y", value)).toBe(false);
        expect(marks.marks.X).toEqual([expect.stringMatching(/^\d+\.[0-9a-f]{2}\.[0-9a-f]{8}$/)]);
      }),
    );
  });

  it("mask values that overlap, repeat and touch", () => {
    const marks = markSecrets(
      new Map([
        ["A", "abcabcabc"],
        ["B", "cabcabca"],
      ]),
      SALT,
    );
    const redact = markedRedactor([marks]);
    expect(redact("abcabcabcabc")).toBe("[redacted]");
    expect(redact("abcabcabc abcabcabcabcabcabc.")).not.toContain("abc");
    expect(redact("abcabcab")).toBe("abcabcab");
  });

  it("mask each line of a value of several lines, and no short ones", () => {
    const marks = markSecrets(new Map([["KEY", "-----BEGIN\r\nab\nMIIEvQIB\n"]]), SALT);
    const redact = markedRedactor([marks]);
    expect(redact("x MIIEvQIB\nab\n-----BEGIN")).toBe("x [redacted]\nab\n[redacted]");
  });
});
