/**
 * Tries the program on a folder of pipelines in DOT:
 *
 *   npm run corpus -- DIR [--warnings]
 *
 * Reports how many parse, how many lint without an error, how many have a plan, and how many finish
 * when all work is simulated and every gate is approved. It names every other file, with the reason:
 * files that cannot finish (invalid, without their child, without a program for a type, endless by
 * the rules of the language), and the rest, which is a defect of ours. Exits with 1 when there is one.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { Diagnostic } from "../src/pipeline/diagnostic.ts";
import { loadDot } from "../src/pipeline/dot/load.ts";
import type { DotNode, DotPipeline } from "../src/pipeline/dot/model.ts";
import { buildDotPlan, type DotFile } from "../src/plan/attractor/build.ts";
import { simulated } from "../src/plan/simulate.ts";
import { defined } from "../src/util/defined.ts";
import { type SimulatedRun, simulateRun } from "./simulate-run.ts";

const PIPELINE = /\.(dot|gv|fabro)$/;

/** The result of one file. */
interface Tried {
  readonly file: string;
  readonly parses: boolean;
  readonly lints: boolean;
  /** True if it can run as it is. */
  readonly planned: boolean;
  readonly diagnostics: readonly Diagnostic[];
  readonly pipeline?: DotPipeline;
  /** Absent for files that cannot be run. */
  readonly run?: SimulatedRun;
}

/** Why a file does not finish. */
interface Unfinished {
  readonly group: string;
  readonly why: string;
}

/** A node that a run visits so often is part of an endless loop. */
const LOOP_VISITS_MIN = 5;
/** The group of files that should finish. */
const DEFECT = "do not finish, which is a defect";
/** The group of files with a provider that no known agent serves. */
const NEEDS_AGENT = "have a plan with --agent alone: no agent is known for a provider";
/** The group of files with errors of these rules; all others are invalid. */
const ERROR_GROUPS: Readonly<Record<string, string>> = {
  "manager-child": "cannot finish: the child is missing",
  type_known: "cannot finish: no program is named for a type (--handler)",
};

const { values, positionals } = parseArgs({
  options: {
    warnings: { type: "boolean", default: false },
  },
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
  const path = join(root, file);
  const text = readFileSync(path, "utf8");
  const { pipeline, diagnostics } = loadDot(file, text);
  const parses = pipeline !== undefined;
  const lints = parses && !diagnostics.some(({ severity }) => severity === "error");
  const read = dotFile(path, text, resolve(root));
  const lowered = buildDotPlan(read, {});
  const { plan: dry } = buildDotPlan(read, { simulate: "all" });
  const run = dry && simulateRun(simulated(dry, "all"));
  const planned = lowered.plan !== undefined;
  const all = parses ? lowered.diagnostics : diagnostics;
  return { file, parses, lints, planned, diagnostics: all, ...defined({ pipeline, run }) };
}

/** Other files are named relative to a file, or to the directory in which its engine is started. */
function dotFile(path: string, text: string, root: string): DotFile {
  const other = (name: string): DotFile | undefined => {
    for (let from = dirname(resolve(path)); from.startsWith(root); from = dirname(from)) {
      const there = resolve(from, name);
      if (existsSync(there)) return dotFile(there, readFileSync(there, "utf8"), root);
    }
    return undefined;
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
  console.log(`${count(({ planned }) => planned)} have a plan`);
  console.log(`${count(({ run }) => run?.end === "completed")} finish when simulated`);
  const groups = unfinished(tried);
  for (const [group, lines] of groups) {
    console.log(`${String(lines.length).padStart(5)} ${group}`);
    for (const line of lines) console.log(`        ${line}`);
  }
  for (const [rule, files] of rulesOf(tried)) {
    console.log(`${String(files).padStart(5)} have ${rule}`);
  }
  return groups.has(DEFECT) ? 1 : 0;
}

/** The files that do not finish, one line each, by the reason. */
function unfinished(tried: readonly Tried[]): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, string[]>();
  for (const one of tried) {
    const found = whyUnfinished(one);
    if (found === undefined) continue;
    const lines = groups.get(found.group) ?? [];
    groups.set(found.group, [...lines, `${one.file}: ${found.why}`]);
  }
  return groups;
}

function whyUnfinished({ run, pipeline, diagnostics }: Tried): Unfinished | undefined {
  const error = diagnostics.find(({ severity }) => severity === "error");
  if (run?.end === "completed") {
    return error && { group: NEEDS_AGENT, why: error.message };
  }
  if (error !== undefined) {
    const group = ERROR_GROUPS[error.rule] ?? "cannot finish: invalid";
    return { group, why: `${error.rule}: ${error.message}` };
  }
  const last = run?.failed;
  if (pipeline?.nodes.get(last ?? "")?.handler === "wait.human") {
    const leaves = pipeline.edges.some(({ from }) => from === last);
    const group = "cannot finish: a gate without edges ends it, as the language says";
    if (!leaves) return { group, why: `the gate \`${last}\`` };
  }
  const exits = run && pipeline && loopExits(pipeline, run.visits);
  if (exits !== undefined) return { group: "cannot finish: endless by the language", why: exits };
  return { group: DEFECT, why: run === undefined ? "it has no plan" : `${run.why}, ${run.at}` };
}

/**
 * Why a run cannot leave an endless loop; undefined if there is no such loop, or if simulated work
 * should have left it.
 */
function loopExits(
  { nodes, edges }: DotPipeline,
  visits: ReadonlyMap<string, number>,
): string | undefined {
  const loop = new Set([...nodes.keys()].filter((id) => (visits.get(id) ?? 0) >= LOOP_VISITS_MIN));
  if (loop.size === 0) return undefined;
  const leaving = edges.filter(({ from, to }) => loop.has(from) && !loop.has(to));
  const exits = new Set(leaving.map(({ from }) => from));
  const named = [...exits].map((id) => `\`${id}\``).join(", ");
  const is = (holds: (node: DotNode) => boolean): boolean =>
    [...exits].every((id) => {
      const node = nodes.get(id);
      return node !== undefined && holds(node);
    });
  if (exits.size === 0) return "no edge leads out of its loop";
  if (is(({ handler }) => handler === "wait.human")) {
    return `only another answer at ${named} leads out of its loop`;
  }
  if (is(({ handler, goalGate }) => handler === "wait.human" || goalGate)) {
    return `only another answer or a missed goal at ${named} leads out of its loop`;
  }
  return undefined;
}

/** The number of files with a diagnostic of each rule, the most frequent first. */
function rulesOf(tried: readonly Tried[]): readonly (readonly [string, number])[] {
  const counts = new Map<string, number>();
  for (const { diagnostics } of tried) {
    for (const name of new Set(diagnostics.map(({ severity, rule }) => `${severity} ${rule}`))) {
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}
