/**
 * What our program asked of the system, in order: recorded by strace, which sees SQLite's and git's
 * calls as well as our own. A machine without strace gets it from its package manager; a machine
 * that cannot get it fails the test, because a recording that was not made proves nothing.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** The calls that create, change, name and sync files, and those that start programs. */
const TRACED = [
  ...["open", "openat", "creat", "mkdir", "mkdirat", "unlink", "unlinkat"],
  ...["rename", "renameat", "renameat2", "link", "linkat", "ftruncate"],
  ...["write", "writev", "pwrite64", "pwritev", "copy_file_range", "sendfile"],
  ...["fsync", "fdatasync", "execve"],
];
/** A page of the database with its longest escapes is still shown whole. */
const TEXT_BYTES = 4_200;

/** One call: it begins and ends at a line of the recording. */
export interface Call {
  readonly process: number;
  readonly name: string;
  /** The arguments as strace writes them, with plain quotes, up to the result. */
  readonly text: string;
  readonly result: string;
  readonly begin: number;
  readonly end: number;
}

/** The words in front of a program whose calls, and those of its children, go to a file. */
export function recording(file: string): readonly string[] {
  installStrace();
  const calls = `trace=${TRACED.join(",")}`;
  return [
    "strace",
    "-f",
    "--seccomp-bpf",
    "-y",
    "-qq",
    "-s",
    String(TEXT_BYTES),
    "-e",
    calls,
    "-o",
    file,
  ];
}

/** The calls in a recording, in the order in which they began. */
export function callsIn(file: string): readonly Call[] {
  const calls: Call[] = [];
  const unfinished = new Map<string, { name: string; text: string; begin: number }>();
  for (const [line, text] of readFileSync(file, "utf8").split("\n").entries()) {
    const [, pid = "", rest = ""] = /^(\d+)\s+(.*)$/.exec(text) ?? [];
    const resumed = /^<\.\.\. (\w+) resumed>(.*)$/.exec(rest);
    const started = resumed === null ? /^(\w+)\((.*)$/.exec(rest) : null;
    if (started !== null) {
      const [, name = "", args = ""] = started;
      if (args.endsWith("<unfinished ...>")) unfinished.set(pid, { name, text: args, begin: line });
      else calls.push(callOf(pid, name, args, line, line));
    }
    const open = unfinished.get(pid);
    if (resumed === null || open === undefined) continue;
    unfinished.delete(pid);
    const args = open.text.replace("<unfinished ...>", "") + (resumed[2] ?? "");
    calls.push(callOf(pid, open.name, args, open.begin, line));
  }
  // A program that was started or killed in between never returns.
  for (const [pid, { name, text, begin }] of unfinished) {
    calls.push(callOf(pid, name, text, begin, Number.POSITIVE_INFINITY));
  }
  return calls.toSorted((one, other) => one.begin - other.begin);
}

function callOf(pid: string, name: string, args: string, begin: number, end: number): Call {
  const at = args.lastIndexOf(" = ");
  const text = (at < 0 ? args : args.slice(0, at)).replaceAll('\\"', '"');
  return { process: Number(pid), name, text, result: at < 0 ? "" : args.slice(at + 3), begin, end };
}

/** Each of these asks no questions; the first that works is enough. */
const INSTALLERS: readonly string[] = [
  "apt-get install -y strace || (apt-get update && apt-get install -y strace)",
  "dnf install -y strace",
  "apk add strace",
  "pacman -S --noconfirm strace",
];

function installStrace(): void {
  const works = (): boolean => spawnSync("strace", ["-V"]).status === 0;
  if (works()) return;
  const asRoot = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  for (const installer of INSTALLERS) {
    const words = [...asRoot, "sh", "-c", installer];
    const quiet = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    if (spawnSync("env", words, { env: quiet }).status === 0 && works()) return;
  }
  throw new Error("the recording of system calls needs strace, and it could not be installed");
}
