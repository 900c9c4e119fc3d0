#!/usr/bin/env node
// Plain JavaScript that every Node understands: an older Node gets a message, not a syntax error.
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
  // Scripts ask for the version most, so it is answered before anything is loaded.
  const { readFileSync } = process.getBuiltinModule("node:fs");
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  process.stdout.write(`${JSON.parse(text).version}\n`);
} else {
  useCompileCache();
  const { main } = await import("../dist/main.js");
  await main(args);
}

/**
 * Lets Node keep the compiled program in the user's cache directory, if there is one that nobody else
 * can write to: what is in it is executed. Node's own default below /tmp is open to everyone.
 */
function useCompileCache() {
  const { HOME, XDG_CACHE_HOME } = process.env;
  const home = XDG_CACHE_HOME || HOME;
  if (!home?.startsWith("/")) return;
  const { mkdirSync, statSync } = process.getBuiltinModule("node:fs");
  const user = process.getuid?.();
  const directory = XDG_CACHE_HOME ? `${home}/perdure` : `${home}/.cache/perdure`;
  try {
    // With sudo, the home directory may be that of another user.
    if (statSync(home).uid !== user) return;
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const { uid, mode } = statSync(directory);
    if (uid !== user || (mode & 0o022) !== 0) return;
  } catch {
    return;
  }
  process.getBuiltinModule("node:module").enableCompileCache(directory);
}
