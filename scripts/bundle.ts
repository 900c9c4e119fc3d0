/**
 * Bundles each program into one file in `dist`, together with the packages that it uses, and writes
 * the licences of those packages beside them.
 *
 * One file starts faster than many, because Node finds, reads and links each module separately. Five
 * more things make the start faster (docs/adr/0033-one-file-per-program.md has the measurements):
 * - Built-in modules are taken with `process.getBuiltinModule`. An `import` of `node:fs` or
 *   `node:process` reads every export, and some of those load streams, sockets or the standard input.
 * - Built-in modules that Node has not loaded by itself are loaded by the first call of a function.
 * - White space is removed. Names stay, so that stack traces can be read.
 * - The command line is a script, not a module, because only the compiled code of scripts can be
 *   kept with the functions that a command has called. Its first line identifies the text.
 * - The text is ASCII. A single other character would make V8 use two bytes for every character.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BuildOptions, build, type Plugin } from "esbuild";

/** The command line is a script, whose compiled code bin/perdure.js keeps. */
const SCRIPT = "src/cli/main.ts";
/** The others are modules: the name of each file in `dist`, and its source. */
const MODULES = {
  perdure: "src/library/perdure.ts",
  "module-worker": "src/app/pipeline/module-worker.ts",
  "acp-main": "src/runner/agents/acp/acp-main.ts",
  "stand-in-main": "src/runner/agents/stand-in/stand-in-main.ts",
  web: "src/web/main.ts",
  "telemetry-worker": "src/app/drive/telemetry-worker.ts",
};
/** The fleet, with PostgreSQL and the queues. */
const FLEET = { fleet: "src/fleet/main.ts" };
/** The server for agents. */
const AGENT_SERVER = { mcp: "src/mcp/main.ts" };
/** Packages that few runs need; they stay outside the bundle and are loaded with `require`. */
const OUTSIDE = ["@cfworker/json-schema", "@marcbachmann/cel-js", "re2js"];
/** Packages in CommonJS call `require`, which ES modules do not have. */
const REQUIRE =
  'const require = process.getBuiltinModule("node:module").createRequire(import.meta.url);';
const PACKAGE = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//;

/** Built-in modules that Node loads before it runs any program. */
const LOADED_BY_NODE = new Set([
  "node:buffer",
  "node:events",
  "node:fs",
  "node:module",
  "node:path",
  "node:process",
  "node:url",
  "node:util",
]);

/** Replaces each `import` of a built-in module with a module that takes its exports one by one. */
const builtins: Plugin = {
  name: "builtins",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:/ }, ({ path, kind }) =>
      kind === "require-call" ? undefined : { path, namespace: "builtin", sideEffects: false },
    );
    onLoad({ filter: /./, namespace: "builtin" }, ({ path }) => ({
      contents: builtinModule(path),
      loader: "js",
    }));
  },
};

/** The text of a module with the exports of a built-in one. esbuild drops those that are not used. */
function builtinModule(path: string): string {
  const exports = process.getBuiltinModule(path);
  if (exports === undefined) throw new Error(`Node has no built-in module ${path}`);
  const take = `process.getBuiltinModule(${JSON.stringify(path)})`;
  const lazy = !LOADED_BY_NODE.has(path);
  const lines = Object.entries(Object.getOwnPropertyDescriptors(exports))
    .filter(([name]) => /^[a-z]\w*$/i.test(name) && name !== "default")
    .map(([name, { value }]) => {
      // A class must exist when its module runs; a function only when it is called.
      const isDeferred = lazy && typeof value === "function" && /^[a-z]/.test(name);
      const text = isDeferred
        ? `(...args) => ${take}.${name}(...args)`
        : `/* @__PURE__ */ (() => ${take}.${name})()`;
      return `const own_${name} = ${text};\nexport { own_${name} as ${name} };`;
    });
  const namespace = lazy
    ? `/* @__PURE__ */ new Proxy({}, { get: (_, name) => ${take}[name] })`
    : `/* @__PURE__ */ (() => ${take})()`;
  return [...lines, `export default ${namespace};`].join("\n");
}

const RESOLVED = Symbol("resolved");

/**
 * Keeps the modules of zod although its package says that they have no side effects. The server for
 * agents imports zod at once, and its copy of the pipelines' code later; for such a package esbuild
 * leaves out the call that runs its modules.
 */
const wholeZod: Plugin = {
  name: "whole-zod",
  setup({ onResolve, resolve }) {
    onResolve({ filter: /^(zod(\/|$)|\.)/ }, async ({ path, pluginData, ...from }) => {
      const isZod = path.startsWith("zod") || from.importer.includes("/node_modules/zod/");
      if (pluginData === RESOLVED || !isZod) return undefined;
      const found = await resolve(path, { ...from, pluginData: RESOLVED });
      return { ...found, sideEffects: true };
    });
  },
};

function licenceOf(name: string): string {
  const folder = join("node_modules", name);
  const names = readdirSync(folder);
  const file = names.find((one) => /^licen[cs]e/i.test(one));
  if (file !== undefined) return readFileSync(join(folder, file), "utf8");
  // Some packages have their licence at the end of their README.
  const page = names.find((one) => /^readme\.md$/i.test(one)) ?? "package.json";
  const [, text] = readFileSync(join(folder, page), "utf8").split(/^#+ licen[cs]e$/im);
  if (text?.includes("Permission is hereby granted") === true) return text.trim();
  throw new Error(`${name} has no licence, so its code cannot be in the bundle`);
}

/** `\\u2026` for an ellipsis; a letter beyond the first 65,536 has two such halves. */
function escapeOf(half: string): string {
  return `\\u${half.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

const shared = {
  outdir: "dist",
  entryNames: "[name]",
  bundle: true,
  platform: "node",
  target: "node24",
  external: OUTSIDE,
  plugins: [builtins],
  minifyWhitespace: true,
  minifySyntax: true,
  logLevel: "warning",
  metafile: true,
} as const satisfies BuildOptions;

/** The fields of `import.meta`, which bin/perdure.js passes to the script. */
const META = ["url", "filename", "dirname"];

const results = [
  await build({ ...shared, entryPoints: MODULES, format: "esm", banner: { js: REQUIRE } }),
  // pg-boss calls whole modules of Node, such as `assert`.
  await build({
    ...shared,
    entryPoints: FLEET,
    plugins: [],
    format: "esm",
    banner: { js: REQUIRE },
  }),
  await build({
    ...shared,
    entryPoints: AGENT_SERVER,
    plugins: [builtins, wholeZod],
    format: "esm",
    banner: { js: REQUIRE },
  }),
  await build({
    ...shared,
    entryPoints: [SCRIPT],
    format: "cjs",
    banner: { js: "(function(module,require,meta){" },
    footer: { js: "})" },
    define: Object.fromEntries(META.map((name) => [`import.meta.${name}`, `meta.${name}`])),
  }),
];
for (const file of results.flatMap(({ metafile }) => Object.keys(metafile.outputs))) {
  // esbuild escapes everything except regular expressions.
  const text = readFileSync(file, "utf8").replace(/[^\0-\x7f]/g, escapeOf);
  const hash = createHash("sha256").update(text).digest("hex");
  writeFileSync(file, `// ${hash}\n${text}`);
}
// Node prints a warning when a script uses import().
if (/\bimport\("/.test(readFileSync("dist/main.js", "utf8"))) {
  throw new Error("the command line has a dynamic import that is not bundled: use createRequire");
}
const names = new Set(
  results
    .flatMap(({ metafile }) => Object.keys(metafile.inputs))
    .flatMap((path) => PACKAGE.exec(path)?.[1] ?? []),
);
/** The fonts of the page; Vite lists the licences of its code. */
for (const font of ["inter", "jetbrains-mono"]) names.add(`@fontsource-variable/${font}`);
const licences = [...names].sort().map((name) => `${name}\n\n${licenceOf(name)}`);
writeFileSync(join("dist", "LICENCES.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));
