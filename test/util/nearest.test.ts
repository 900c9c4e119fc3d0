import { expect, it } from "vitest";
import { nearest } from "../../src/util/nearest.ts";

it.each([
  ["timeot", "timeout"],
  ["nedes", "needs"],
  ["RUN", "run"],
  ["ids", "id"],
  ["zzz", undefined],
  ["", undefined],
])("nearest(%s) is %s", (name, expected) => {
  expect(nearest(name, ["id", "run", "needs", "timeout", "prompt"])).toBe(expected);
});
