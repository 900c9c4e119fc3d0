import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { stateMachineText } from "../../scripts/state-machine.ts";

test("docs/STATE_MACHINE.md is what the tables say (node scripts/state-machine.ts writes it)", () => {
  const file = new URL("../../docs/STATE_MACHINE.md", import.meta.url);
  expect(readFileSync(file, "utf8")).toBe(stateMachineText());
});
