/** The bystander of the soak notices what it must: a verdict that is always good would show nothing. */
import { appendFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually } from "../rig/project.ts";
import { Bystander } from "./bystander.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "perdure-bystander-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

async function worked(): Promise<Bystander> {
  const bystander = new Bystander(directory, () => undefined);
  await eventually("three files are there", () => existsSync(join(directory, "bystander-2.txt")));
  return bystander;
}

it("a bystander finds no fault while nobody touches its files", async () => {
  expect(await (await worked()).verdict()).toEqual([]);
});

it("a bystander finds a missing file, a changed file and a line that is not its own", async () => {
  const bystander = await worked();
  rmSync(join(directory, "bystander-0.txt"));
  writeFileSync(join(directory, "bystander-1.txt"), "");
  appendFileSync(join(directory, "bystander.log"), "line of another\n");
  expect(await bystander.verdict()).toEqual([
    expect.stringMatching(/^2 of \d+ files, the first: .*bystander-0\.txt is missing$/),
    expect.stringMatching(/^bystander\.log has \d+ of \d+ bytes, or others$/),
  ]);
});
