/**
 * Tries the program on a folder of pipelines in DOT:
 *
 *   npm run corpus -- DIR [--warnings] [--walks]
 *
 * Reports how many parse, lint without an error and survive printing, how many come to their end when
 * all work is simulated and every gate approved, how many are the same plan when they are converted to
 * YAML and back, and for every other one why. Exit status 1 when a
 * file changes by being printed or a walk does not end, which is always our mistake.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { Diagnostic } from "../src/pipeline/diagnostic.ts";
import { loadDot } from "../src/pipeline/dot/load-dot.ts";
import { printDot } from "../src/pipeline/dot/print.ts";
import { loadPipeline } from "../src/pipeline/load.ts";
import { buildPlan } from "../src/plan/build.ts";
import { convertPlan } from "../src/plan/convert.ts";
import { buildDotPlan, type DotFile } from "../src/plan/dot-plan.ts";
import type { Plan } from "../src/plan/plan.ts";
import type { Difference } from "../src/plan/plan-difference.ts";
import { simulated } from "../src/plan/simulate.ts";
import { type Walked, walkThrough } from "./walk-through.ts";

const PIPELINE = /\.(dot|gv|fabro)$/;

/** What came of one file. */
interface Tried {
  readonly file: string;
  readonly parses: boolean;
  readonly lints: boolean;
  readonly roundTrips: boolean;
  readonly diagnostics: readonly Diagnostic[];
  /** What YAML cannot say of it, and what DOT cannot say of that. */
  readonly lost?: { readonly yaml: readonly Difference[]; readonly dot: readonly Difference[] };
  /** Absent for files that cannot be run. */
  readonly walk?: Walked;
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
  const { document, pipeline, diagnostics } = loadDot(file, text);
  const parses = pipeline !== undefined;
  const lints = parses && !diagnostics.some(({ severity }) => severity === "error");
  const printed = printDot(document);
  const again = loadDot(file, printed).document;
  const roundTrips =
    parses && withoutPlaces(again) === withoutPlaces(document) && printDot(again) === printed;
  const lowered = buildDotPlan(dotFile(path, text), {});
  const { plan: dry } = buildDotPlan(dotFile(path, text), { simulate: "all" });
  const walk = dry && walkThrough(simulated(dry, "all"));
  const all = parses ? lowered.diagnostics : diagnostics;
  const tried = { file, parses, lints, roundTrips, diagnostics: all };
  if (lowered.plan === undefined || walk === undefined) return tried;
  return { ...tried, walk, lost: lostOf(lowered.plan) };
}

/** What is lost on the way to YAML and back. */
function lostOf(plan: Plan): NonNullable<Tried["lost"]> {
  const yaml = convertPlan(plan, "yaml", "flow.yaml");
  const { pipeline } = loadPipeline("flow.yaml", yaml.text);
  const dot = pipeline && convertPlan(buildPlan(pipeline), "dot", "flow.dot");
  const unread = { steps: [], message: "the YAML file is not valid" };
  return { yaml: yaml.differences, dot: dot?.differences ?? [unread] };
}

function dotFile(path: string, text: string): DotFile {
  const other = (name: string): DotFile | undefined => {
    const there = resolve(dirname(path), name);
    return existsSync(there) ? dotFile(there, readFileSync(there, "utf8")) : undefined;
  };
  return { name: path, path, text, other };
}

/** A tree as text, without the places of things. */
function withoutPlaces(tree: unknown): string {
  return JSON.stringify(tree, (key, value: unknown) =>
    key === "span" || key === "head" ? undefined : value,
  );
}

function report(tried: readonly Tried[]): number {
  for (const { file, diagnostics } of tried) {
    for (const { severity, rule, message, line, column } of diagnostics) {
      if (severity === "warning" && !values.warnings) continue;
      console.log(`${file}:${line}:${column}: ${severity}[${rule}] ${message}`);
    }
  }
  const changed = tried.filter(({ parses, roundTrips }) => parses && !roundTrips);
  for (const { file } of changed) console.log(`${file}: printing it changes it`);
  const count = (holds: (one: Tried) => boolean): string =>
    String(tried.filter(holds).length).padStart(5);
  console.log(`\n${String(tried.length).padStart(5)} files`);
  console.log(`${count(({ parses }) => parses)} parse`);
  console.log(`${count(({ lints }) => lints)} lint without an error`);
  console.log(`${count(({ roundTrips }) => roundTrips)} are the same after printing`);
  console.log(`${count(({ walk }) => walk?.end === "completed")} finish when simulated`);
  for (const [why, files] of unfinished(tried)) {
    console.log(`${String(files.length).padStart(5)} do not: ${why}`);
    for (const { file, walk } of values.walks ? files : []) {
      console.log(`        ${walk === undefined ? file : `${file}: ${walk.at}`}`);
    }
  }
  console.log(`${count(({ lost }) => lost?.yaml.length === 0)} are the same plan in YAML`);
  console.log(`${count(({ lost }) => lost?.dot.length === 0)} of these are the same back in DOT`);
  for (const { file, lost } of tried) {
    for (const { steps, message } of [...(lost?.yaml ?? []), ...(lost?.dot ?? [])]) {
      console.log(`        ${file}: ${[...steps, message].join(": ")}`);
    }
  }
  for (const [rule, files] of rulesOf(tried)) {
    console.log(`${String(files).padStart(5)} have ${rule}`);
  }
  const endless = tried.some(({ walk }) => walk?.end === "endless");
  return changed.length === 0 && !endless ? 0 : 1;
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
