/**
 * Makes the published type declarations self-contained: `node scripts/public-types.ts`, after `tsc`.
 *
 * The types of a pipeline's keys are inferred from zod, which users do not install, so the
 * declarations of zod that they need are copied into `dist/zod`. Those of our declarations that the
 * library does not need are removed.
 */
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";

const DIST = resolve("dist");
const LIBRARY = resolve(DIST, "library/perdure.d.ts");
/** Packages whose declarations are copied, with the first file of each. */
const COPIED: Readonly<Record<string, string>> = { zod: resolve("node_modules/zod/index.d.ts") };
/** What a declaration imports. */
const IMPORT = /((?:^(?:import|export)\b[^;"]*from |^import |\bimport\()")([^"]+)"/gm;

/** The declaration file that an import names; throws if users do not have it. */
function importedBy(file: string, name: string): string | undefined {
  if (name.startsWith("node:")) return undefined;
  if (name.startsWith(".")) return resolve(dirname(file), name.replace(/\.[jt]s$/, ".d.ts"));
  const start = COPIED[name];
  if (start === undefined) throw new Error(`${file} needs ${name}, which users do not install`);
  return start;
}

/** All declarations that a program can reach. */
function reachable(file: string, found = new Set<string>()): ReadonlySet<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const [, , name = ""] of readFileSync(file, "utf8").matchAll(IMPORT)) {
    const next = importedBy(file, name);
    if (next !== undefined) reachable(next, found);
  }
  return found;
}

/** The path of a declaration in the published package. */
function publishedPath(file: string): string {
  return file.replace(resolve("node_modules"), DIST);
}

const wanted = reachable(LIBRARY);
for (const path of readdirSync(DIST, { recursive: true, encoding: "utf8" })) {
  const file = resolve(DIST, path);
  if (path.endsWith(".d.ts") && !wanted.has(file)) rmSync(file);
}
for (const file of wanted) {
  if (!file.startsWith(DIST)) cpSync(file, publishedPath(file));
  const text = readFileSync(file, "utf8").replace(IMPORT, (whole, before: string, name: string) => {
    const start = COPIED[name];
    return start === undefined
      ? whole
      : `${before}${relative(dirname(publishedPath(file)), publishedPath(start)).replace(/\.d\.ts$/, ".js")}"`;
  });
  writeFileSync(publishedPath(file), text);
}
