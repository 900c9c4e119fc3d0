/**
 * Tries the program on a folder of pipelines in DOT:
 *
 *   npm run corpus -- DIR [--warnings] [--walks]
 *
 * Reports how many parse, how many lint without an error, and how many finish when all work is
 * simulated and every gate is approved; for every other one it says why. Exits with 1 when a
 * simulated run does not end, which is always our bug.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { Diagnostic } from "../src/pipeline/diagnostic.ts";
import { loadDot } from "../src/pipeline/dot/load.ts";
import { buildDotPlan, type DotFile } from "../src/plan/attractor/build.ts";
import { simulated } from "../src/plan/simulate.ts";
import { type SimulatedRun, walkThrough } from "./walk-through.ts";

const PIPELINE = /\.(dot|gv|fabro)$/;

/** What came of one file. */
interface Tried {
  readonly file: string;
  readonly parses: boolean;
  readonly lints: boolean;
  readonly diagnostics: readonly Diagnostic[];
  /** Absent for files that cannot be run. */
  readonly walk?: SimulatedRun;
}

const { values, positionals } = parseArgs({
  options: {
    warnings: { type: "boolean", default: false },
    walks: { type: "boolean", default: false },
  },
  allowPositionals: true,
});
const [folder] = positionals;
if (folder === undefined) {
  console.error("usage: npm run corpus -- DIR [--warnings] [--walks]");
  process.exitCode = 2;
} else process.exitCode = report(pipelinesIn(folder).map((file) => tryOne(folder, file)));

function pipelinesIn(root: string): readonly string[] {
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && PIPELINE.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length).replace(/^\/+/, ""))
    .sort();
}

function tryOne(root: string, file: string): Tried {
  const path = join(root, file);
  const text = readFileSync(path, "utf8");
  const { pipeline, diagnostics } = loadDot(file, text);
  const parses = pipeline !== undefined;
  const lints = parses && !diagnostics.some(({ severity }) => severity === "error");
  const lowered = buildDotPlan(dotFile(path, text), {});
  const { plan: dry } = buildDotPlan(dotFile(path, text), { simulate: "all" });
  const walk = dry && walkThrough(simulated(dry, "all"));
  const all = parses ? lowered.diagnostics : diagnostics;
  const tried = { file, parses, lints, diagnostics: all };
  return lowered.plan === undefined || walk === undefined ? tried : { ...tried, walk };
}

function dotFile(path: string, text: string): DotFile {
  const other = (name: string): DotFile | undefined => {
    const there = resolve(dirname(path), name);
    return existsSync(there) ? dotFile(there, readFileSync(there, "utf8")) : undefined;
  };
  return { name: path, path, text, other };
}

function report(tried: readonly Tried[]): number {
  for (const { file, diagnostics } of tried) {
    for (const { severity, rule, message, line, column } of diagnostics) {
      if (severity === "warning" && !values.warnings) continue;
      console.log(`${file}:${line}:${column}: ${severity}[${rule}] ${message}`);
    }
  }
  const count = (holds: (one: Tried) => boolean): string =>
    String(tried.filter(holds).length).padStart(5);
  console.log(`\n${String(tried.length).padStart(5)} files`);
  console.log(`${count(({ parses }) => parses)} parse`);
  console.log(`${count(({ lints }) => lints)} lint without an error`);
  console.log(`${count(({ walk }) => walk?.end === "completed")} finish when simulated`);
  for (const [why, files] of unfinished(tried)) {
    console.log(`${String(files.length).padStart(5)} do not: ${why}`);
    for (const { file, walk } of values.walks ? files : []) {
      console.log(`        ${walk === undefined ? file : `${file}: ${walk.at}`}`);
    }
  }
  for (const [rule, files] of rulesOf(tried)) {
    console.log(`${String(files).padStart(5)} have ${rule}`);
  }
  const endless = tried.some(({ walk }) => walk?.end === "endless");
  return endless ? 1 : 0;
}

/** The files that do not come to their end, by the reason. */
function unfinished(tried: readonly Tried[]): readonly (readonly [string, readonly Tried[]])[] {
  const others = tried.filter(({ walk }) => walk?.end !== "completed");
  const groups = Map.groupBy(others, ({ walk, parses }) => {
    if (walk !== undefined) return walk.why;
    return parses ? "it is invalid" : "it is not DOT";
  });
  return [...groups].sort((one, other) => other[1].length - one[1].length);
}

/** In how many files each rule speaks, the most frequent first. */
function rulesOf(tried: readonly Tried[]): readonly (readonly [string, number])[] {
  const counts = new Map<string, number>();
  for (const { diagnostics } of tried) {
    for (const name of new Set(diagnostics.map(({ severity, rule }) => `${severity} ${rule}`))) {
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}
