/**
 * Prints the size of the source, and the same for an earlier revision:
 *
 *   npm run numbers [-- --before <revision>]
 *
 * The last row counts the modules in which a function ran during `perdure run` of one `echo hi`,
 * by V8's coverage of the source as Node runs it.
 */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { executedFunctions, sourceProgram } from "./coverage.ts";
import { functionsIn } from "./source-functions.ts";

/** The last revision before the rooms, the ports and the vocabulary were redone. */
const BEFORE = "6ee3deb8";
const LONG_FUNCTION_LINES = 60;
const ROOT = path.resolve(import.meta.dirname, "..");
const PIPELINE = "steps:\n  - id: hello\n    run: echo hi\n";

interface Numbers {
  readonly files: number;
  readonly lines: number;
  readonly "exported types": number;
  readonly "largest file (lines)": number;
  readonly "functions over 60 lines": number;
  readonly "modules executed for one echo hi": number;
}

const { values } = parseArgs({ options: { before: { type: "string", default: BEFORE } } });
const now = numbersOf(ROOT);
const before = withRevision(values.before, numbersOf);
console.log(`| | ${values.before.slice(0, 7)} | now |\n|---|---|---|`);
for (const [name, number] of Object.entries(now)) {
  console.log(`| ${name} | ${before[name as keyof Numbers]} | ${number} |`);
}

function numbersOf(root: string): Numbers {
  const source = path.join(root, "src");
  const texts = fs
    .globSync("**/*.{ts,tsx}", { cwd: source })
    .map((name) => fs.readFileSync(path.join(source, name), "utf8"));
  const files = texts.map((text) => text.split("\n").slice(0, -1));
  const long = files.flatMap((lines) =>
    functionsIn(lines).filter((found) => found.lines > LONG_FUNCTION_LINES),
  );
  return {
    files: files.length,
    lines: files.reduce((sum, lines) => sum + lines.length, 0),
    "exported types": exportedTypes(texts),
    "largest file (lines)": Math.max(...files.map((lines) => lines.length)),
    "functions over 60 lines": long.length,
    "modules executed for one echo hi": executedModules(root),
  };
}

/** Counts the distinct names of exported types. */
function exportedTypes(texts: readonly string[]): number {
  const exported = /^export (?:abstract )?(?:interface|type|class) (\w+)/gm;
  return new Set(texts.flatMap((text) => [...text.matchAll(exported)].map(([, name]) => name)))
    .size;
}

function executedModules(root: string): number {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "perdure-numbers-"));
  try {
    fs.writeFileSync(path.join(dir, "p.yaml"), PIPELINE);
    const coverage = path.join(dir, "coverage");
    const program = ["--input-type=module", "-e", sourceProgram(root)];
    execFileSync(process.execPath, [...program, "run", "p.yaml"], {
      cwd: dir,
      env: { ...process.env, NODE_V8_COVERAGE: coverage },
      stdio: ["ignore", "ignore", "inherit"],
    });
    return executedFunctions(coverage, path.join(root, "src")).size;
  } finally {
    fs.rmSync(dir, { recursive: true, force: true });
  }
}

function withRevision<T>(revision: string, measure: (root: string) => T): T {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "perdure-revision-"));
  try {
    const tar = execFileSync("git", ["archive", revision], { cwd: ROOT, maxBuffer: 2 ** 30 });
    execFileSync("tar", ["-x", "-C", dir], { input: tar });
    fs.symlinkSync(path.join(ROOT, "node_modules"), path.join(dir, "node_modules"));
    return measure(fs.realpathSync(dir));
  } finally {
    fs.rmSync(dir, { recursive: true, force: true });
  }
}
