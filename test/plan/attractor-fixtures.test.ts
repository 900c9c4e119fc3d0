/** Pipelines as people write them: each is read, printed and read again, and run to its end. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { simulateRun } from "../../scripts/simulate-run.ts";
import { loadDot } from "../../src/pipeline/dot/load.ts";
import { buildDotPlan, type DotFile } from "../../src/plan/attractor/build.ts";
import { freeze } from "../../src/plan/plan.ts";
import { simulated } from "../../src/plan/simulate.ts";
import { FIXTURES } from "../pipeline/dot/fixtures.ts";
import { printDot } from "../pipeline/dot/print.ts";

const FOLDER = resolve(import.meta.dirname, "../fixtures/dot");
const files = readdirSync(FOLDER).map((name) => ({
  name,
  text: readFileSync(join(FOLDER, name), "utf8"),
}));

function fileOf(name: string, text: string): DotFile {
  const other = (named: string): DotFile | undefined => {
    const found = files.find((one) => one.name === named.replace("child", "smoke"));
    return found === undefined ? undefined : fileOf(named, found.text);
  };
  return { name, path: name, text, other };
}

describe.each([...files, ...FIXTURES])("$name", ({ name, text }) => {
  it("is the same after printing", () => {
    const printed = printDot(loadDot(name, text).graphs);
    expect(printDot(loadDot(name, printed).graphs)).toBe(printed);
    const { plan } = buildDotPlan(fileOf(name, printed), {});
    const { plan: before } = buildDotPlan(fileOf(name, text), {});
    expect(plan).toEqual(before);
  });

  it("comes to its end when it is simulated, the same way each time", () => {
    const { plan, diagnostics } = buildDotPlan(fileOf(name, text), { simulate: "all" });
    expect(diagnostics.filter(({ severity }) => severity === "error")).toEqual([]);
    if (plan === undefined) throw new Error("there is no plan");
    const dry = simulated(plan, "all");
    expect(JSON.parse(freeze(dry).text)).toEqual(dry);
    const run = simulateRun(dry);
    expect(run).toMatchObject({ end: "completed" });
    expect(simulateRun(dry)).toEqual(run);
  });
});
