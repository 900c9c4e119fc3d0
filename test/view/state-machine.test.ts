import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { stateMachineText } from "../../scripts/state-machine.ts";

test("docs/STATE_MACHINE.md is what `node scripts/state-machine.ts` writes", () => {
  const file = new URL("../../docs/STATE_MACHINE.md", import.meta.url);
  expect(readFileSync(file, "utf8")).toBe(stateMachineText());
});
