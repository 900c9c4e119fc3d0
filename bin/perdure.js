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
const { enableCompileCache } = await import("node:module");
enableCompileCache?.();
const { main } = await import("../dist/cli/main.js");
await main(process.argv.slice(2));
