/**
 * Sandboxes: the command of bubblewrap, docker or podman in which the work of a step runs.
 *
 * Owns: these commands, which of them work on this machine, and ending the containers of an
 * attempt.
 * Does not: choose mounts and variables (engine/sandbox.ts). The wrapper stays outside of every
 * sandbox, so claim, output, exit status, adoption and limits are those of any other step.
 * Invariants:
 * - sandbox/X1 No value of a variable is in the command: all users see arguments. Bubblewrap
 *   inherits the environment; a container gets variables by name.
 * - sandbox/X2 All processes inside have the attempt's marker, and a PID namespace of their own
 *   whose first process is in the wrapper's group or, for a container, labelled with the attempt.
 * - sandbox/X3 Containers outlive their client, so the end of an attempt ends them by label.
 * - sandbox/X4 Every path is the same inside and outside.
 */
import { execFile, spawnSync } from "node:child_process";
import { accessSync, constants, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { quote } from "../../util/shell.ts";
import { textOf } from "../file-text.ts";
import { pause } from "./waiting.ts";

/** The file in the folder of an attempt with the program of docker or podman. */
export const RUNTIME_FILE = "container-runtime";

/** A path of the host in a sandbox; `fresh` is an empty directory that ends with the sandbox. */
export interface Mount {
  readonly path: string;
  readonly mode: "writable" | "read-only" | "fresh";
}

/** Where the work of a step runs. */
export interface Sandbox {
  /** The image of a container; absent for bubblewrap. */
  readonly image?: string;
  readonly offline?: true;
  /** Directories before the paths in them. */
  readonly mounts: readonly Mount[];
  /** Variables that only the client of a container needs. */
  readonly clientOnly: readonly string[];
}

/** The process that a sandbox surrounds. */
interface SandboxedProcess {
  readonly cwd: string;
  /** The names of its variables. */
  readonly names: readonly string[];
  /** The markers of its processes; a container has them as labels. */
  readonly markers: readonly string[];
}

/** The words that run a shell in a sandbox; the shell's arguments follow them. */
function sandboxCommand(sandbox: Sandbox, process: SandboxedProcess): readonly string[] {
  const { image, clientOnly } = sandbox;
  const { cwd, names, markers } = process;
  if (image === undefined) return [...bubblewrapCommand(sandbox, cwd), "/bin/sh"];
  const runtime = containerRuntime();
  if (typeof runtime === "string") throw new Error(runtime);
  const passed = names.filter((name) => !clientOnly.includes(name));
  return [
    ...[runtime.program, "run", "--rm", "--init", "--interactive"],
    ...markers.flatMap((marker) => ["--label", marker]),
    ...runtime.user,
    ...(sandbox.offline === true ? ["--network", "none"] : []),
    ...sandbox.mounts.flatMap(containerMount),
    ...passed.flatMap((name) => ["--env", name]),
    ...["--workdir", cwd, "--entrypoint", "/bin/sh", image],
  ];
}

/** A child of bubblewrap would otherwise see the processes, sockets and files of the host. */
const UNSHARED = ["--unshare-pid", "--unshare-ipc", "--unshare-uts"];

/** Root keeps only what it needs for files of several users; it cannot mount anything again. */
const ROOT_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID"];
const CAPABILITIES =
  process.getuid?.() === 0
    ? ["--cap-drop", "ALL", ...ROOT_CAPABILITIES.flatMap((name) => ["--cap-add", `CAP_${name}`])]
    : [];

/** The sockets of services are below /run; only the files that name servers are needed there. */
const RUN_FILES = ["/run/systemd/resolve", "/run/current-system"];

function bubblewrapCommand(sandbox: Pick<Sandbox, "mounts" | "offline">, cwd: string): string[] {
  return [
    ...["bwrap", ...UNSHARED, ...CAPABILITIES],
    ...(sandbox.offline === true ? ["--unshare-net"] : []),
    ...["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"],
    ...RUN_FILES.flatMap((path) => ["--ro-bind-try", path, path]),
    ...sandbox.mounts.flatMap(({ path, mode }) =>
      mode === "fresh" ? ["--tmpfs", path] : [BINDINGS[mode], path, path],
    ),
    ...["--chdir", cwd, "--"],
  ];
}

const BINDINGS = { writable: "--bind", "read-only": "--ro-bind" } as const;

function containerMount({ path, mode }: Mount): readonly string[] {
  if (mode === "fresh") return ["--tmpfs", `${path}:rw,exec,mode=1777`];
  // The value is a line of CSV.
  const field = (text: string): string =>
    /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const places = [field(`source=${path}`), field(`target=${path}`)];
  const bound = ["type=bind", ...places, ...(mode === "read-only" ? ["readonly"] : [])];
  return ["--mount", bound.join(",")];
}

/**
 * The first shell in a container: it passes a signal to the work, and ends after it and everything
 * that the work has started. Without it the shell of the work would die of SIGTERM, and with it the
 * container, while a process below still saves its files. The work is in the background, because a
 * shell handles a signal only between commands.
 */
const FIRST_SHELL = `perdure_stat() {
  read -r perdure_line < "/proc/$1/stat" && set -- \${perdure_line##*) } || return 1
  perdure_state=$1 perdure_group=$3
} 2>/dev/null
perdure_others() {
  perdure_stat $$ || return 1
  perdure_own=$perdure_group
  for perdure_path in /proc/[0-9]*; do
    [ "$perdure_path" != "/proc/$$" ] && perdure_stat "\${perdure_path#/proc/}" || continue
    [ "$perdure_group" = "$perdure_own" ] && [ "$perdure_state" != Z ] && return 0
  done
  return 1
}
trap 'perdure_stop=yes; trap : TERM INT HUP; kill -TERM 0' TERM INT HUP
/bin/sh -e -c "$1" "$0" <&0 &
perdure_work=$!
wait $perdure_work
perdure_exit=$?
while kill -0 $perdure_work 2>/dev/null; do
  wait $perdure_work
  perdure_exit=$?
done
while [ "$perdure_stop" = yes ] && perdure_others; do sleep 0.1 2>/dev/null || sleep 1; done
exit $perdure_exit`;

/** Shell text that runs `evaluate` in the sandbox, with the name of the script as \`$0\`. */
export function sandboxed(sandbox: Sandbox, process: SandboxedProcess, evaluate: string): string {
  const words = sandboxCommand(sandbox, process).map(quote).join(" ");
  if (sandbox.image === undefined) return `exec ${words} -e -c ${evaluate} "$0"\n`;
  return `exec ${words} -c ${quote(FIRST_SHELL)} "$0" ${evaluate}\n`;
}

/** Where docker or podman is, and how a file of a container gets the owner that it has outside. */
interface ContainerRuntime {
  readonly program: string;
  readonly user: readonly string[];
}

let runtimeFound: ContainerRuntime | string | undefined;
let bubblewrapFound: string | true | undefined;

/** Why a sandbox cannot be made here; undefined when it can. */
export function sandboxProblem({ image }: Pick<Sandbox, "image">): string | undefined {
  if (image !== undefined) {
    const found = containerRuntime();
    return typeof found === "string" ? found : undefined;
  }
  bubblewrapFound ??= probeBubblewrap() ?? true;
  return bubblewrapFound === true ? undefined : bubblewrapFound;
}

function probeBubblewrap(): string | undefined {
  const [program = "", ...args] = bubblewrapCommand({ mounts: [] }, "/");
  const { error, status, stderr } = spawnSync(program, [...args, "true"], { encoding: "utf8" });
  if (error !== undefined) return "bubblewrap is not installed: there is no bwrap on the PATH";
  return status === 0 ? undefined : `bubblewrap does not work: ${stderr.trim() || status}`;
}

/** Docker, or podman where docker does not answer; a text says why there is none. */
function containerRuntime(): ContainerRuntime | string {
  runtimeFound ??= findRuntime();
  return runtimeFound;
}

/** How long a runtime may take to answer. */
const ANSWER_MS_MAX = 30_000;

function findRuntime(): ContainerRuntime | string {
  const problems: string[] = [];
  for (const name of ["docker", "podman"] as const) {
    const program = pathOf(name);
    if (program === undefined) continue;
    const format = name === "docker" ? "{{json .SecurityOptions}}" : "{{.Host.Security.Rootless}}";
    const { status, stdout, stderr, error } = spawnSync(program, ["info", "--format", format], {
      encoding: "utf8",
      timeout: ANSWER_MS_MAX,
    });
    if (status === 0) return { program, user: userOptions(name, stdout) };
    const why = (stderr ?? "").trim().split("\n").at(-1) || (error?.message ?? `exit ${status}`);
    problems.push(`${name} does not answer: ${why}`);
  }
  return problems.join("; ") || "neither docker nor podman is on the PATH";
}

/** The root of a rootless runtime is this user; podman can keep the user's own id. */
function userOptions(name: "docker" | "podman", info: string): readonly string[] {
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  const isRootless = name === "docker" ? info.includes("rootless") : info.includes("true");
  const user = ["--user", `${uid}:${gid}`];
  if (!isRootless) return user;
  return name === "docker" ? [] : ["--userns", "keep-id", ...user];
}

function pathOf(program: string): string | undefined {
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return folders.map((folder) => join(folder, program)).find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    return false;
  }
}

/** Notes, before anything starts, which runtime has the containers of this folder's attempt. */
export function recordRuntime(dir: string, { image }: Sandbox): void {
  if (image === undefined) return;
  const runtime = containerRuntime();
  if (typeof runtime === "string") throw new Error(runtime);
  writeFileSync(join(dir, RUNTIME_FILE), `${runtime.program}\n`, { mode: 0o600 });
}

/** The runtime that has the containers of a folder's attempt; undefined when it can have none. */
export function runtimeIn(dir: string): string | undefined {
  const text = textOf(join(dir, RUNTIME_FILE));
  return text?.endsWith("\n") === true ? text.trim() : undefined;
}

/** How often containers are removed before the runtime counts as broken. */
const REMOVALS_MAX = 20;
const REMOVAL_PAUSE_MS = 200;

/** Ends all containers with a marker; throws when the runtime cannot say that there are none. */
export async function endContainers(runtime: string, marker: string): Promise<void> {
  for (let removals = 0; ; removals++) {
    const ids = await ask(runtime, listArguments(marker));
    if (ids.length === 0) return;
    if (removals === REMOVALS_MAX) throw new Error(`${runtime} does not remove ${ids.join(", ")}`);
    // A container that ends by itself meanwhile makes this fail; the next list says what is left.
    await ask(runtime, ["rm", "--force", ...ids], "may fail");
    if (removals > 0) await pause(REMOVAL_PAUSE_MS);
  }
}

/** True while a container of the attempt in a folder exists. */
export function hasContainers(dir: string, marker: string): boolean {
  const runtime = runtimeIn(dir);
  if (runtime === undefined) return false;
  const { status, stdout } = spawnSync(runtime, listArguments(marker), { encoding: "utf8" });
  return status === 0 && stdout.trim() !== "";
}

function listArguments(marker: string): string[] {
  return ["ps", "--all", "--quiet", "--no-trunc", "--filter", `label=${marker}`];
}

function ask(runtime: string, args: string[], failure?: "may fail"): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    execFile(runtime, args, { timeout: ANSWER_MS_MAX }, (error, stdout, stderr) => {
      if (error !== null && failure === undefined) {
        const why = stderr.trim() || error.message;
        reject(new Error(`it is not known whether a container is left, ${runtime} fails: ${why}`));
      } else resolve(stdout.split("\n").filter((line) => line.trim() !== ""));
    });
  });
}
