/**
 * The program caches its compiled code for the next start, and never runs code that it should not
 * trust.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

let project: Project;
let cache: string;
beforeEach(() => {
  project = new Project();
  cache = fs.mkdtempSync(join(project.dir, "cache-"));
  project.write("p.yaml", `steps:\n  - id: a\n    run: ${project.effect("a")}\n`);
});
afterEach(() => project.remove());

const env = (): { env: Record<string, string> } => ({ env: { XDG_CACHE_HOME: cache } });
const codeOf = (command: string): string => join(cache, "perdure", `${command}.code`);

/** The file, and how far the process had come that kept it. */
function kept(command: string): { readonly ino: number; readonly stage: number } {
  const head = fs.readFileSync(codeOf(command)).toString("latin1", 0, 128);
  return { ino: fs.statSync(codeOf(command)).ino, stage: Number(head.trimEnd().split(" ").at(-1)) };
}

it("is cached once for each command, readable only by its user", async () => {
  await project.must(["run", "p.yaml"], env());
  await project.must(["list", "runs"], env());
  for (const command of ["run", "list"]) {
    expect(fs.statSync(codeOf(command)).mode & 0o777).toBe(0o600);
  }
  const { ino, stage } = kept("run");
  await project.must(["run", "p.yaml"], env());
  // V8 accepted it, also after a run that has changed flags: nothing new was kept. On a busy machine
  // the second run may come further than the first.
  const second = kept("run");
  expect(second.stage).toBeGreaterThanOrEqual(stage);
  if (second.stage === stage) expect(second.ino).toBe(ino);
  expect(fs.readdirSync(join(cache, "perdure")).filter((name) => /\.\d+$/.test(name))).toEqual([]);
});

it("is cached again by a process that executes more of it", async () => {
  project.write("p.yaml", `steps:\n  - id: a\n    run: test -e ready\n`);
  await project.run(["run", "p.yaml"], env());
  const id = await project.newestId();
  await project.must(["resume", id, "--dry-run"], env());
  const { stage } = kept("resume");
  project.write("ready", "");
  await project.must(["resume", id], env());
  const further = kept("resume");
  expect(further.stage).toBeGreaterThan(stage);
  await project.must(["resume", id, "--dry-run"], env());
  expect(kept("resume")).toEqual(further);
});

it.each([
  ["damaged", (bytes: Buffer) => bytes.fill(0xff, bytes.length - 4_000)],
  ["of another program", (bytes: Buffer) => bytes.fill("0", 3, 60)],
  ["cut short", (bytes: Buffer) => bytes.subarray(0, 1_000)],
  ["empty", (bytes: Buffer) => bytes.subarray(0, 0)],
])("is compiled again when the kept code is %s", async (_, change) => {
  await project.must(["list", "runs"], env());
  const good = fs.readFileSync(codeOf("list"));
  const bad = Buffer.from(change(Buffer.from(good)));
  fs.writeFileSync(codeOf("list"), bad);
  await project.must(["list", "runs"], env());
  const after = fs.readFileSync(codeOf("list"));
  expect(after.equals(bad)).toBe(false);
  expect(after.toString("latin1", 0, 67)).toBe(good.toString("latin1", 0, 67));
});

it("is neither read from nor written to a directory that others can write to", async () => {
  fs.mkdirSync(join(cache, "perdure"));
  fs.chmodSync(join(cache, "perdure"), 0o770);
  await project.must(["list", "runs"], env());
  expect(fs.readdirSync(join(cache, "perdure"))).toEqual([]);
});
