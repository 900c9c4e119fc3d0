/**
 * From the text of a pipeline to its frozen plan: read, validated and built. Time per step of a file
 * of 100,000 steps. Floor: that of files of 1,000. Reading YAML is most of it.
 */
import { loadPipeline } from "../src/pipeline/load.ts";
import { buildPlan } from "../src/plan/build.ts";
import { freeze } from "../src/plan/plan.ts";
import { collectGarbage, compare, type Line } from "./measure.ts";

const SMALL = 1_000;
const LARGE = 100_000;
const ROUNDS = 1;

export async function bench(): Promise<readonly Line[]> {
  const { floorMs, subjectMs, ratio } = await compare(ROUNDS, {
    floor: async () => perStepMs(SMALL, 10),
    subject: async () => perStepMs(LARGE, 1),
  });
  return [
    {
      what: "planning a step of 100,000, from YAML to the frozen plan",
      floor: `of 1,000 steps: ${(floorMs * 1e3).toFixed(0)} µs`,
      measured: `${(subjectMs * 1e3).toFixed(0)} µs`,
      ratio,
      limit: 2,
    },
  ];
}

function perStepMs(steps: number, times: number): number {
  const text = `steps:\n${Array.from({ length: steps }, (_, number) => stepText(number)).join("")}`;
  collectGarbage();
  const start = performance.now();
  for (let time = 0; time < times; time++) {
    const { pipeline } = loadPipeline("bench.yaml", text);
    if (pipeline === undefined) throw new Error("the pipeline is valid");
    freeze(buildPlan(pipeline));
  }
  return (performance.now() - start) / steps / times;
}

function stepText(number: number): string {
  const needs = number === 0 ? "" : `    needs: [step-${number - 1}]\n`;
  return `  - id: step-${number}\n    run: echo ${number}\n${needs}`;
}
