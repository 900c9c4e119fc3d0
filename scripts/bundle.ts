/**
 * Bundles the programs into `dist`, with the packages that each start of them would have to find and
 * link file by file, and writes down whose code that is.
 *
 * Packages that few runs need stay outside: schemas, patterns, expressions and ACP are loaded when they are used.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const PROGRAMS = [
  "src/cli/main.ts",
  "src/library/perdure.ts",
  "src/app/module-worker.ts",
  "src/runner/agents/acp/acp-main.ts",
];
const OUTSIDE = [
  "@agentclientprotocol/sdk",
  "@cfworker/json-schema",
  "@marcbachmann/cel-js",
  "re2js",
];
/** Packages in CommonJS call `require`, which modules have not. */
const REQUIRE =
  'import { createRequire as requireFrom } from "node:module";' +
  "const require = requireFrom(import.meta.url);";
const PACKAGE = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//;

const { metafile } = await build({
  entryPoints: PROGRAMS,
  outdir: "dist",
  entryNames: "[name]",
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node24",
  external: OUTSIDE,
  banner: { js: REQUIRE },
  logLevel: "warning",
  metafile: true,
});

const names = new Set(
  Object.keys(metafile.inputs).flatMap((path) => PACKAGE.exec(path)?.[1] ?? []),
);
const licences = [...names].sort().map((name) => `${name}\n\n${licenceOf(name)}`);
writeFileSync(join("dist", "LICENCES.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));

function licenceOf(name: string): string {
  const folder = join("node_modules", name);
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  if (file === undefined || !existsSync(join(folder, file))) {
    throw new Error(`${name} has no licence, so its code cannot be in the bundle`);
  }
  return readFileSync(join(folder, file), "utf8");
}
