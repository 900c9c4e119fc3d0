/**
 * A stand-in for docker and podman. It checks its arguments strictly, really runs the command of a
 * container, and keeps the container alive when its client is killed, as a daemon does.
 *
 *   RUNTIME_STATE=dir node container-runtime.ts run|ps|rm|info ...
 *
 * Owns: `containers/<id>`, a file per living container with its group and its labels; `calls`, the
 * arguments of every call; `down`, a file that a test makes so that the daemon does not answer.
 *
 * The processes of a container lack the variables by which Perdure finds processes: like those of a
 * virtual machine or another host, they can only be found by asking the runtime.
 */
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { parseArgs } from "node:util";

const STATE = process.env.RUNTIME_STATE ?? "";
const CONTAINERS = join(STATE, "containers");
const MARKERS = ["PERDURE_RUN_ID", "PERDURE_ATTEMPT_ID", "PERDURE_LEASH"];

interface Container {
  readonly group: number;
  readonly labels: readonly string[];
}

/** The status of docker when it could not run a container. */
const BROKEN = 125;

function fail(message: string): never {
  console.error(`stand-in: ${message}`);
  process.exit(BROKEN);
}

const OPTIONS = {
  rm: { type: "boolean" },
  init: { type: "boolean" },
  interactive: { type: "boolean" },
  label: { type: "string", multiple: true },
  user: { type: "string" },
  userns: { type: "string" },
  network: { type: "string" },
  mount: { type: "string", multiple: true },
  tmpfs: { type: "string", multiple: true },
  env: { type: "string", multiple: true },
  workdir: { type: "string" },
  entrypoint: { type: "string" },
} as const;

function run(args: string[]): void {
  // Everything after the image belongs to the command.
  const image = args.findIndex((_, at) => isImageAt(args, at));
  if (image < 0) fail("no image is given");
  const { values } = parseArgs({ args: args.slice(0, image), options: OPTIONS, strict: true });
  const { label = [], env = [], workdir = "", entrypoint = "", mount = [], rm, init } = values;
  if (rm !== true || init !== true) fail("--rm and --init are missing");
  const assigned = env.find((name) => name.includes("="));
  if (assigned !== undefined) fail(`everybody can read the value in --env ${assigned}`);
  const unset = env.find((name) => process.env[name] === undefined);
  if (unset !== undefined) fail(`--env ${unset} has no value`);
  const targets = mount.map((line) => /(?:^|,)"?target=([^",]+)/.exec(line)?.[1] ?? fail(line));
  if (!targets.some((path) => `${workdir}/`.startsWith(`${path}/`))) fail("workdir is not mounted");
  const passed = env.filter((name) => !MARKERS.includes(name));
  // The container starts when it is written down, so that no living one is unknown.
  const first = 'read _ <&3 || exit 1; exec 3<&-; exec "$@"';
  const words = ["-c", first, "container", entrypoint, ...args.slice(image + 1)];
  const child = spawn("/bin/sh", words, {
    cwd: workdir,
    env: {
      ...Object.fromEntries(passed.map((name) => [name, process.env[name] ?? ""])),
      PATH: process.env.PATH ?? "",
      IN_CONTAINER: args[image] ?? "",
    },
    detached: true,
    stdio: ["inherit", "inherit", "inherit", "pipe"],
  });
  const { pid } = child;
  if (pid === undefined) fail("the command cannot be started");
  const file = join(CONTAINERS, String(pid));
  fs.writeFileSync(file, JSON.stringify({ group: pid, labels: label } satisfies Container));
  (child.stdio[3] as Writable).end("\n");
  for (const name of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    process.on(name, () => child.kill(name));
  }
  child.on("exit", (code, signal) => {
    end(file);
    process.exitCode = code ?? (signal === "SIGKILL" ? 137 : 143);
  });
}

/** True for the first word that is neither an option nor its value. */
function isImageAt(args: readonly string[], at: number): boolean {
  const takesValue = (word = ""): boolean => {
    const option = OPTIONS[word.slice(2) as keyof typeof OPTIONS];
    return word.startsWith("--") && option?.type === "string";
  };
  return !args[at]?.startsWith("--") && !takesValue(args[at - 1]);
}

/** Ends all processes of a container, as its PID namespace does, and forgets it. */
function end(file: string): void {
  const container = read(file);
  try {
    if (container !== undefined) process.kill(-container.group, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
  fs.rmSync(file, { force: true });
}

/** A container that has not ended meanwhile. */
function read(file: string): Container | undefined {
  try {
    return JSON.parse(fs.readFileSync(file, "utf8")) as Container;
  } catch (error) {
    // It is about to be written, or gone.
    if (error instanceof SyntaxError) return undefined;
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function list(args: string[]): void {
  const { values } = parseArgs({
    args: args.map((word) => (word === "-aq" ? "--quiet" : word)),
    options: {
      all: { type: "boolean" },
      quiet: { type: "boolean" },
      "no-trunc": { type: "boolean" },
      filter: { type: "string" },
    },
  });
  const wanted = values.filter?.replace(/^label=/, "") ?? fail("a filter is missing");
  for (const id of fs.readdirSync(CONTAINERS)) {
    if (read(join(CONTAINERS, id))?.labels.includes(wanted) === true) console.log(id);
  }
}

const [command = "", ...args] = process.argv.slice(2);
fs.mkdirSync(CONTAINERS, { recursive: true });
fs.appendFileSync(join(STATE, "calls"), `${JSON.stringify([command, ...args])}\n`);
if (fs.existsSync(join(STATE, "down"))) fail("the daemon does not answer");
if (command === "info") console.log(process.env.RUNTIME_INFO ?? "[]");
else if (command === "run") run(args);
else if (command === "ps") list(args);
else if (command === "rm") {
  for (const id of args.filter((word) => !word.startsWith("-"))) end(join(CONTAINERS, id));
} else fail(`there is no command ${command}`);
