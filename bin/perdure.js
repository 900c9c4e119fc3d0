#!/usr/bin/env node
// Plain JavaScript that every Node understands: it tells a too old one so, and starts fast.
const needed = 24;
const major = Number(process.versions.node.split(".")[0]);
if (major < needed) {
  console.error(
    `perdure needs Node ${needed} or newer; this is Node ${process.versions.node}. See https://nodejs.org`,
  );
  process.exit(1);
}
const args = process.argv.slice(2);
if (args.length === 1 && (args[0] === "--version" || args[0] === "-V")) {
  // What scripts ask most is answered before anything is loaded.
  const { readFileSync } = await import("node:fs");
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  process.stdout.write(`${JSON.parse(text).version}\n`);
} else {
  // A young generation that does not grow: 70 MB less after a large pipeline was read, no slower.
  const { setFlagsFromString } = await import("node:v8");
  setFlagsFromString("--semi-space-growth-factor=1");
  // Garbage is collected before it doubles the memory of a long run.
  setFlagsFromString("--heap-growing-percent=20");
  const { enableCompileCache } = await import("node:module");
  enableCompileCache?.();
  const { main } = await import("../dist/main.js");
  await main(args);
}
