/** What attempts used, added up: nothing that is not known is lost on the way. */
import { describe, expect, it } from "vitest";
import type { Spent } from "../../src/core/event.ts";
import {
  addSpent,
  limitReached,
  NOTHING_SPENT,
  unpricedIn,
  usdText,
  withLateCost,
} from "../../src/core/spending.ts";

const used = (more: Partial<Spent> = {}): Spent => ({
  ...{ inputTokens: 100, cachedTokens: 10, outputTokens: 20, turns: 1 },
  ...more,
});
const PRICED = used({ costUsd: 0.5, model: "m", session: "s" });
const UNPRICED = used({ model: "new" });

describe("a sum", () => {
  it("is of tokens, turns and money, and names no model or session", () => {
    expect(addSpent(PRICED, PRICED)).toEqual({
      ...{ inputTokens: 200, cachedTokens: 20, outputTokens: 40, turns: 2, costUsd: 1 },
    });
    expect(addSpent(PRICED, undefined)).toBe(PRICED);
  });

  it("keeps what is not known of its parts", () => {
    const sum = [
      used({ unmeasured: true }),
      used({ costUsd: 1, estimated: true }),
      UNPRICED,
    ].reduce(addSpent, NOTHING_SPENT);
    expect(sum).toMatchObject({ costUsd: 1, estimated: true, unmeasured: true, unpriced: "new" });
    expect(unpricedIn(addSpent(PRICED, UNPRICED))).toBe("new");
    expect(unpricedIn(addSpent(PRICED, NOTHING_SPENT))).toBeUndefined();
  });

  it("has a cost that became known later", () => {
    const sum = withLateCost(addSpent(PRICED, UNPRICED), 0.25);
    expect(sum).toMatchObject({ costUsd: 0.75, estimated: true });
    expect(unpricedIn(sum)).toBeUndefined();
  });
});

describe("a limit", () => {
  it("in dollars is not kept by tokens without a price; other limits do not ask for one", () => {
    const spending = { spent: UNPRICED, workedMs: 0 };
    expect(limitReached({ usd: 5 }, spending)).toEqual({ kind: "price", model: "new" });
    expect(limitReached({ tokens: 500 }, spending)).toBeUndefined();
    expect(limitReached({ usd: 5 }, { spent: PRICED, workedMs: 0 })).toBeUndefined();
  });
});

it.each([
  [0, "$0.00"],
  [0.0000123, "$0.000012"],
  [0.0012, "$0.0012"],
  [0.00499, "$0.0050"],
  [0.005, "$0.01"],
  [12.345, "$12.35"],
])("%d dollars are shown as %s", (amount, text) => {
  expect(usdText(amount)).toBe(text);
});
