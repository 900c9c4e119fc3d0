import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createPrecedence, createStepGraph } from "../../src/pipeline/step-list.ts";

/** Needs of up to 12 steps, in any direction. */
const anyNeeds = fc.integer({ min: 1, max: 12 }).chain((count) =>
  fc.array(fc.uniqueArray(fc.integer({ min: 0, max: count - 1 }), { maxLength: 3 }), {
    minLength: count,
    maxLength: count,
  }),
);

/** Everything that a step waits for, itself included when it is in a circle. */
function ancestors(needs: readonly (readonly number[])[], step: number): Set<number> {
  const found = new Set<number>();
  const open = [step];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const need of needs[at] ?? []) {
      if (!found.has(need)) open.push(need);
      found.add(need);
    }
  }
  return found;
}

describe("the graph of steps", () => {
  it("finds circles exactly where there are some", () => {
    fc.assert(
      fc.property(anyNeeds, (needs) => {
        const { cycles, stuck, level } = createStepGraph(needs);
        const never = needs.flatMap((_, step) => {
          const before = [step, ...ancestors(needs, step)];
          return before.some((one) => ancestors(needs, one).has(one)) ? [step] : [];
        });
        expect([...cycles.flat(), ...stuck].sort((a, b) => a - b)).toEqual(never);
        expect(needs.flatMap((_, step) => (level[step] === -1 ? [step] : []))).toEqual(never);
        for (const cycle of cycles) {
          cycle.forEach((step, index) => {
            expect(needs[step]).toContain(cycle[(index + 1) % cycle.length]);
          });
        }
      }),
    );
  });

  it("knows who comes before whom", () => {
    fc.assert(
      fc.property(anyNeeds, (any) => {
        const needs = any.map((list, step) => list.filter((need) => need < step));
        const comesBefore = createPrecedence(createStepGraph(needs));
        needs.forEach((_, second) => {
          const before = ancestors(needs, second);
          needs.forEach((_needs, first) => {
            expect(comesBefore(first, second)).toBe(before.has(first));
          });
        });
      }),
    );
  });
});
