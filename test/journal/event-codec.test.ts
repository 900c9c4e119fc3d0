/** Encoding and decoding events: equal, or refused with the position of the fault. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RunEvent } from "../../src/core/event.ts";
import { decode, encode } from "../../src/journal/event-codec.ts";
import type { Json } from "../../src/util/json.ts";
import { batch, newRun } from "./sample-run.ts";

const [started, completed] = batch(0);

describe("decode", () => {
  test("D1: returns the encoded event", () => {
    for (const event of [newRun(1).created, started, completed] as RunEvent[]) {
      expect(decode("r", encode(event, 3, 9))).toEqual({ seq: 3, time: 9, version: 1, event });
    }
  });

  test("D1: returns the events of effects that must happen once", () => {
    const at = { scope: "", step: "a", visit: 1, attempt: 1 };
    const events: readonly RunEvent[] = [
      { type: "step.uncertain", ...at, cause: "lost", message: "m", asks: "probe" },
      { type: "step.probed", ...at, answer: "done", identity: "i" },
      { type: "step.settled", ...at, as: "redo", by: "ann@laptop" },
      { ...completed, identity: "i", settledBy: "its probe" } as RunEvent,
    ];
    for (const event of events) expect(decode("r", encode(event, 3, 9)).event).toEqual(event);
    const odd = { ...events[1], answer: "perhaps" } as unknown as RunEvent;
    expect(() => decode("r", encode(odd, 3, 9))).toThrow("wrong value at .answer.");
  });

  test("D1: returns questions and answers", () => {
    const at = { scope: "", step: "a", visit: 1, attempt: 1 };
    const choices = [
      { key: "A", label: "approve" },
      { key: "R", label: "reject", fails: true },
    ];
    const question = { question: "?", choices, text: "none", deadline: { at: 9, delayMs: 5 } };
    const who = { by: "ann@laptop", from: "timeout", given: 3 } as const;
    const events = [
      { type: "step.asked", ...at, ...question, default: "R" },
      { type: "step.answered", ...at, ...who },
      { type: "step.answered", ...at, ...who, choice: "R", label: "reject", text: "no" },
      { type: "step.started", ...at, wake: { at: 9 } },
    ] as readonly RunEvent[];
    for (const event of events) expect(decode("r", encode(event, 3, 9)).event).toEqual(event);
    const odd = { ...events[1], from: "nowhere" } as unknown as RunEvent;
    expect(() => decode("r", encode(odd, 3, 9))).toThrow("wrong value at .from.");
  });

  test("D1: returns any JSON", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (context) => {
        const plain = JSON.parse(JSON.stringify(context)) as Record<string, Json>;
        const event = { ...completed, context: plain } as RunEvent;
        const first = encode(event, 1, 1);
        const decoded = decode("r", first).event;
        expect(JSON.stringify(decoded)).toBe(JSON.stringify(event));
        expect(encode(decoded, 1, 1)).toEqual(first);
      }),
    );
  });

  test.each([
    ["visit", "1", ".visit"],
    ["attempt", 1.5, ".attempt"],
    ["step", undefined, ".step"],
    ["outputs", { a: { path: "x", sha256: "y", bytes: null } }, ".outputs.a.bytes"],
    ["outputs", [], ".outputs"],
    ["context", null, ".context"],
    ["edges", [0, "1"], ".edges[1]"],
    ["check", { kind: "command" }, ".check.subject"],
  ])("D2: names the field: %s = %j", (field, value, place) => {
    const event = { ...completed, [field]: value } as unknown as RunEvent;
    expect(() => decode("r7", encode(event, 12, 1))).toThrow(
      `Event 12 of run r7 (step.completed) is damaged: wrong value at ${place}.`,
    );
  });

  test("D2: refuses a value that is not an object", () => {
    const stored = encode(started as RunEvent, 1, 1);
    for (const data of ["", "{", "null", "[]", "1"]) {
      expect(() => decode("r", { ...stored, data })).toThrow("Event 1 of run r is damaged");
    }
  });

  test("D2: distinguishes newer from broken", () => {
    const stored = encode(started as RunEvent, 1, 1);
    const newer = expect.objectContaining({ code: "newer" });
    expect(() => decode("r", { ...stored, version: 2 })).toThrow(newer);
    expect(() => decode("r", { ...stored, type: "step.teleported" })).toThrow(newer);
    expect(() => decode("r", { ...stored, type: "__proto__" })).toThrow(newer);
  });
});
