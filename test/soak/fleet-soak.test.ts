/** A few kills of a small fleet; `npm run soak:fleet` has hundreds. */
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { PlainProject } from "../rig/project.ts";

const SOAK = resolve(import.meta.dirname, "../../scripts/soak-fleet.ts");
const SOAK_MS_MAX = 400_000;

test("a fleet whose workers and machines are killed repeats no effect and loses no work", {
  timeout: SOAK_MS_MAX,
}, async () => {
  const project = new PlainProject();
  const soak = project.script(SOAK, ["--kills", "4", "--runs", "4", "--seed", "1", "--step", "3"]);
  const { exit, stdout, stderr } = await soak.ended;
  expect(exit, stdout + stderr).toBe(0);
  expect(stdout).toMatch(/\n\d+ kills, 4 runs, .* 0 broken promises\n$/);
  await project.discard();
});
