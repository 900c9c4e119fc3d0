/**
 * A program that is measured beside Perdure, and the task of all of them: a sequence of steps that each
 * do the same work.
 *
 * Owns: how a peer is installed, and the environment variables that tell its program what to do.
 * Does not: measure (main.ts).
 *
 * A peer's program reads its task from the environment: STEPS (how many), WORK (what each does):
 * - `nothing`: the step returns at once;
 * - `process`: the step starts `true` and waits for it;
 * - `hold`: the step appends its number and the time to the file `effects`; the step HOLD does not
 *   do that while the file `held` is missing: it creates the file and waits to be killed.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

export type Work = "nothing" | "process" | "hold";

/** A command to start, with the variables of the peer. */
export interface Command {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** The steps that a peer's program runs. */
export interface Task {
  readonly steps: number;
  readonly work: Work;
  /** The step that waits to be killed. */
  readonly hold?: number;
}

export interface Peer {
  readonly name: string;
  /** The packages to install, the peer itself first, with exact versions. */
  readonly packages: Readonly<Record<string, string>>;
  /** Versions of indirect dependencies, where those that the peer asks for conflict. */
  readonly overrides?: Readonly<Record<string, string>>;
  /** The kinds of work that its steps can do. */
  readonly works: readonly Work[];
  /** Writes the peer's program into a new directory. */
  prepare(directory: string, task: Task): Promise<void> | void;
  start(directory: string, task: Task): Command;
  /** Resumes a killed run; undefined where only a person can do that. */
  resume?(directory: string, task: Task): Command;
  /** Prints its version and nothing else; undefined for a library. */
  version?(): Command;
  /** The bytes that its runs leave; by default those of all new files below the directory. */
  stateBytes?(directory: string): Promise<number>;
  close?(): Promise<void>;
}

const ROOT = resolve(import.meta.dirname, "../..");
const PEERS_DIR = join(ROOT, "node_modules/.cache/perdure-peers");

/** The folder in which a peer is installed. */
export function folderOf(peer: string): string {
  return join(PEERS_DIR, peer.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-"));
}

/** A program of an installed peer. */
export function programOf(peer: string, name: string): string {
  return join(folderOf(peer), "node_modules/.bin", name);
}

/** The folder of an installed package. */
export function packageOf(peer: string, name: string): string {
  return join(folderOf(peer), "node_modules", name);
}

/** Installs a peer, unless this version of it is there. */
export function install({ name, packages, overrides = {} }: Peer): void {
  const folder = folderOf(name);
  const manifest = { private: true, type: "module", dependencies: packages, overrides };
  const text = `${JSON.stringify(manifest, undefined, 2)}\n`;
  const marker = join(folder, "installed");
  if (existsSync(marker) && readFileSync(marker, "utf8") === text) return;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), text);
  const args = ["install", "--no-audit", "--no-fund"];
  const done = spawnSync("npm", args, { cwd: folder, encoding: "utf8" });
  if (done.status !== 0) throw new Error(`npm install of ${name}: ${done.stderr}`);
  writeFileSync(marker, text);
}

export interface InstalledSize {
  readonly bytes: number;
  readonly files: number;
}

/** How much is below a folder. */
export function sizeOf(folder: string): InstalledSize {
  let [bytes, files] = [0, 0];
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    files += 1;
    bytes += statSync(join(entry.parentPath, entry.name)).size;
  }
  return { bytes, files };
}

/** Packs our own package; returns the tarball. */
export function packOurs(): string {
  mkdirSync(PEERS_DIR, { recursive: true });
  const args = ["pack", "--ignore-scripts", "--json", "--pack-destination", PEERS_DIR];
  const { stdout, stderr } = spawnSync("npm", args, { cwd: ROOT, encoding: "utf8" });
  const [packed] = JSON.parse(stdout || "[]") as { filename: string }[];
  if (packed === undefined) throw new Error(`npm pack: ${stderr}`);
  return join(PEERS_DIR, packed.filename);
}

/** The work of a step in JavaScript, which the programs of the peers share. */
export const WORK_SCRIPT = `
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
const steps = Number(process.env.STEPS);
const hold = Number(process.env.HOLD ?? -1);
function exits() {
  return new Promise((done) => spawn("true", { stdio: "ignore" }).once("exit", done));
}
async function work(index) {
  if (process.env.WORK === "process") return exits();
  if (process.env.WORK === "nothing") return 0;
  if (index === hold && !existsSync("held")) {
    writeFileSync("held", "");
    await new Promise((done) => setTimeout(done, 600_000));
  }
  appendFileSync("effects", \`\${index} \${performance.timeOrigin + performance.now()}\\n\`);
  return 0;
}
`;

/** The environment variables with the task of a program. */
export function environmentOf({ steps, work, hold }: Task): Readonly<Record<string, string>> {
  const held = hold === undefined ? {} : { HOLD: String(hold) };
  return { STEPS: String(steps), WORK: work, ...held };
}
