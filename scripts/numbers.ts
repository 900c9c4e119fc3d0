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
    .globSync("**/*.ts", { cwd: source })
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

/** Counts distinct names. */
function exportedTypes(texts: readonly string[]): number {
  const exported = /^export (?:abstract )?(?:interface|type|class) (\w+)/gm;
  return new Set(texts.flatMap((text) => [...text.matchAll(exported)].map(([, name]) => name)))
    .size;
}

function executedModules(root: string): number {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "perdure-numbers-"));
  try {
    fs.writeFileSync(path.join(dir, "p.yaml"), PIPELINE);
    const main = path.join(root, "src", "cli", "main.ts");
    const start = `await (await import(${JSON.stringify(main)})).main(["run", "p.yaml"])`;
    const coverage = path.join(dir, "coverage");
    execFileSync(process.execPath, ["--input-type=module", "-e", start], {
      cwd: dir,
      env: { ...process.env, NODE_V8_COVERAGE: coverage },
      stdio: ["ignore", "ignore", "inherit"],
    });
    return modulesIn(coverage, path.join(root, "src"));
  } finally {
    fs.rmSync(dir, { recursive: true, force: true });
  }
}

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly {
    readonly functionName: string;
    readonly ranges: readonly { readonly count: number }[];
  }[];
}

/** Counts the modules under a directory in which a named function ran. */
function modulesIn(coverage: string, source: string): number {
  const executed = new Set<string>();
  for (const name of fs.readdirSync(coverage)) {
    const text = fs.readFileSync(path.join(coverage, name), "utf8");
    const { result } = JSON.parse(text) as { readonly result: readonly ScriptCoverage[] };
    for (const { url, functions } of result) {
      if (!url.startsWith(`file://${source}/`)) continue;
      const ran = functions.some((fn) => fn.functionName !== "" && (fn.ranges[0]?.count ?? 0) > 0);
      if (ran) executed.add(url);
    }
  }
  return executed.size;
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
