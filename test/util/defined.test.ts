import { expect, expectTypeOf, it } from "vitest";
import { defined } from "../../src/util/defined.ts";

const missing = undefined as string | undefined;

it("leaves out what is undefined, and nothing else", () => {
  const made = defined({ a: missing, b: null, c: 0, d: "", e: false });
  expect(Object.keys(made)).toEqual(["b", "c", "d", "e"]);
});

it("makes a field optional only if it may be undefined", () => {
  const made = { id: 1, ...defined({ title: missing, kind: "x" }) };
  expectTypeOf(made).toExtend<{ id: number; title?: string; kind: "x" }>();
  expectTypeOf(made.kind).toEqualTypeOf<"x">();
});
