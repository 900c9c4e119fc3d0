#!/usr/bin/env node
// Plain JavaScript that every Node understands: an older Node gets a message, not a syntax error. It is
// no module (package.json beside it): Node starts a script faster.
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
  const text = readFileSync(`${__dirname}/../package.json`, "utf8");
  process.stdout.write(`${JSON.parse(text).version}\n`);
} else {
  // Until `main` sets another one: Node's status for a program that ends before its promise does.
  process.exitCode = 13;
  const { main, keptCode } = loadProgram();
  main(args, keptCode);
}

/**
 * Loads the program, which is one script (scripts/bundle.ts), with the code that V8 compiled for the
 * same command before. `keptCode` keeps what this process has compiled for the next one; it is absent
 * where nothing can be kept. Node's own cache would only hold what runs while a file is loaded.
 */
function loadProgram() {
  const { readFileSync } = process.getBuiltinModule("node:fs");
  const { createRequire, enableCompileCache } = process.getBuiltinModule("node:module");
  const { Script } = process.getBuiltinModule("node:vm");
  const { dirname, resolve } = process.getBuiltinModule("node:path");
  const { pathToFileURL } = process.getBuiltinModule("node:url");
  const filename = resolve(__dirname, "../dist/main.js");
  // All of it is ASCII.
  const source = readFileSync(filename, "latin1");
  const directory = cacheDirectory();
  // For the packages that are not in the script.
  if (directory !== undefined) enableCompileCache(directory);
  const cache = directory === undefined ? undefined : codeCache(directory, source);
  const script = new Script(source, {
    filename,
    cachedData: cache?.code,
  });
  const meta = { url: pathToFileURL(filename).href, filename, dirname: dirname(filename) };
  const program = { exports: {} };
  script.runInThisContext()(program, createRequire(filename), meta);
  const keptCode = cache && {
    stage: script.cachedDataRejected === false ? cache.stage : 0,
    keep(stage) {
      this.stage = stage;
      cache.keep(script.createCachedData(), stage);
    },
  };
  return { main: program.exports.main, keptCode };
}

/**
 * The user's cache directory for us, if there is one that nobody else can write to: what is in it is
 * executed. Node's own default below /tmp is open to everyone.
 */
function cacheDirectory() {
  const { HOME, XDG_CACHE_HOME } = process.env;
  const home = XDG_CACHE_HOME || HOME;
  if (!home?.startsWith("/")) return undefined;
  const { mkdirSync, statSync } = process.getBuiltinModule("node:fs");
  const user = process.getuid?.();
  const directory = XDG_CACHE_HOME ? `${home}/perdure` : `${home}/.cache/perdure`;
  try {
    // With sudo, the home directory may be that of another user.
    if (statSync(home).uid !== user) return undefined;
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const { uid, mode } = statSync(directory);
    return uid !== user || (mode & 0o022) !== 0 ? undefined : directory;
  } catch {
    return undefined;
  }
}

/**
 * The compiled code for this command, in a file that starts with the hash of the source, which is its
 * first line, the checksum of the code, and the stage that its process had reached (KeptCode). V8 itself
 * compares its version, its settings and no more than the length of the source.
 */
function codeCache(directory, source) {
  const { readFileSync, renameSync, writeFileSync } = process.getBuiltinModule("node:fs");
  const { crc32 } = process.getBuiltinModule("node:zlib");
  const [command = ""] = args;
  const file = `${directory}/${/^[a-z]+$/.test(command) ? command : "other"}.code`;
  const hash = source.slice(0, source.indexOf("\n"));
  const headBytes = 128;
  const headOf = (code, stage) => `${hash} ${crc32(code)} ${stage}`.padEnd(headBytes);
  const keep = (code, stage) => {
    const draft = `${file}.${process.pid}`;
    try {
      const bytes = Buffer.concat([Buffer.from(headOf(code, stage)), code]);
      writeFileSync(draft, bytes, { mode: 0o600 });
      renameSync(draft, file);
    } catch {
      // The next start compiles again.
    }
  };
  try {
    const bytes = readFileSync(file);
    const code = bytes.subarray(headBytes);
    const head = bytes.toString("latin1", 0, headBytes);
    const stage = Number(head.trimEnd().slice(-1));
    if (head === headOf(code, stage)) return { code, stage, keep };
  } catch {
    // There is none yet.
  }
  return { code: undefined, stage: 0, keep };
}
