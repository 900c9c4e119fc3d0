/**
 * Tries the program on a folder of pipelines in DOT:
 *
 *   npm run corpus -- DIR [--warnings]
 *
 * Reports how many parse, lint without an error and survive printing, and for every other one why.
 * Exit status 1 when a file changes by being printed, which is always our mistake.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Diagnostic } from "../src/pipeline/diagnostic.ts";
import { loadDot } from "../src/pipeline/dot/load-dot.ts";
import { printDot } from "../src/pipeline/dot/print.ts";

const PIPELINE = /\.(dot|gv|fabro)$/;

/** What came of one file. Whether it finishes under `--simulate` will be one more field of it. */
interface Tried {
  readonly file: string;
  readonly parses: boolean;
  readonly lints: boolean;
  readonly roundTrips: boolean;
  readonly diagnostics: readonly Diagnostic[];
}

const { values, positionals } = parseArgs({
  options: { warnings: { type: "boolean", default: false } },
  allowPositionals: true,
});
const [folder] = positionals;
if (folder === undefined) {
  console.error("usage: npm run corpus -- DIR [--warnings]");
  process.exitCode = 2;
} else process.exitCode = report(pipelinesIn(folder).map((file) => tryOne(folder, file)));

function pipelinesIn(root: string): readonly string[] {
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && PIPELINE.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length).replace(/^\/+/, ""))
    .sort();
}

function tryOne(root: string, file: string): Tried {
  const { document, pipeline, diagnostics } = loadDot(file, readFileSync(join(root, file), "utf8"));
  const parses = pipeline !== undefined;
  const lints = parses && !diagnostics.some(({ severity }) => severity === "error");
  const printed = printDot(document);
  const again = loadDot(file, printed).document;
  const roundTrips =
    parses && withoutPlaces(again) === withoutPlaces(document) && printDot(again) === printed;
  return { file, parses, lints, roundTrips, diagnostics };
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
  for (const [rule, files] of rulesOf(tried)) {
    console.log(`${String(files).padStart(5)} have ${rule}`);
  }
  return changed.length === 0 ? 0 : 1;
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
