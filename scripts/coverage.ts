/**
 * Reads what V8 recorded about a program that ran with NODE_V8_COVERAGE.
 *
 * Owns: the shape of V8's files. Does not: start the program.
 */
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly {
    readonly functionName: string;
    readonly ranges: readonly { readonly count: number }[];
  }[];
}

/**
 * The functions that ran, by the file that holds them (relative to the root). Private methods have
 * their `#`; functions without a name are left out.
 */
export function executedFunctions(
  coverage: string,
  root: string,
): ReadonlyMap<string, ReadonlySet<string>> {
  const base = `${pathToFileURL(root).href}/`;
  const executed = new Map<string, Set<string>>();
  for (const name of fs.readdirSync(coverage)) {
    const text = fs.readFileSync(path.join(coverage, name), "utf8");
    const { result } = JSON.parse(text) as { readonly result: readonly ScriptCoverage[] };
    for (const { url, functions } of result) {
      if (!url.startsWith(base)) continue;
      const ran = functions.filter((fn) => fn.functionName !== "" && fn.ranges[0]?.count !== 0);
      if (ran.length === 0) continue;
      const file = url.slice(base.length);
      const names = executed.get(file) ?? new Set();
      for (const { functionName } of ran) names.add(functionName);
      executed.set(file, names);
    }
  }
  return executed;
}

/** The script that runs the program from its source, as `node --input-type=module -e` takes it. */
export function sourceProgram(root: string): string {
  const main = pathToFileURL(path.join(root, "src", "cli", "main.ts")).href;
  return `await (await import(${JSON.stringify(main)})).main(process.argv.slice(1))`;
}
