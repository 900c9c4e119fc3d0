/**
 * Runs the benchmarks and prints what each costs in multiples of its floor, which is measured in the
 * same run, by turns with it. Each has a process of its own.
 *
 *   node bench/main.ts [NAME...]     all of them, or some; the status is 1 when a limit is missed
 *   node bench/main.ts --write       also puts the table into docs/BENCHMARKS.md
 *
 * A line that misses its limit is measured again, at most twice, because the machine may do other
 * things, too; the table says at which try it held. A line that held is never measured again, and
 * one that never holds shows its first number, not its best.
 */
import { fork } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, platform, release } from "node:os";
import { resolve } from "node:path";
import { BENCH_DIR, type Line } from "./measure.ts";

const NAMES = [
  "durable-step",
  "postgres-step",
  "submit-start",
  "process-step",
  "default-settings",
  "step-weight",
  "resume-start",
  "list-runs",
  "version",
  "memory",
  "disk",
  "planning",
  "schedule",
  "snapshot",
  "ledger",
  "package-size",
  "dashboard",
] as const;
const TRIES_MAX = 3;
const DOCUMENT = resolve(import.meta.dirname, "../docs/BENCHMARKS.md");
const BEGIN = "<!-- table: written by `node bench/main.ts --write` -->";
const END = "<!-- end of the table -->";

interface Message {
  readonly lines: readonly Line[];
}

/** In a process of its own: one benchmark. */
async function runOne(name: string): Promise<void> {
  const { bench } = (await import(`./${name}.ts`)) as { bench: () => Promise<readonly Line[]> };
  process.send?.({ lines: await bench() } satisfies Message);
}

function linesOf(name: string): Promise<readonly Line[]> {
  return new Promise((done, fail) => {
    const child = fork(import.meta.filename, ["--one", name]);
    let lines: readonly Line[] | undefined;
    child.on("message", (message: Message) => {
      lines = message.lines;
    });
    child.on("exit", (status) => {
      if (lines !== undefined && status === 0) done(lines);
      else fail(new Error(`${name} ended with ${status}`));
    });
  });
}

/** A line without a limit is there to be known. */
const holds = ({ ratio, limit }: Line): boolean => limit === undefined || ratio <= limit;

/** A line, and the try that it comes from. */
interface Tried extends Line {
  readonly at: number;
}

/** The first try of each line, or the first one that held. */
async function measure(name: string): Promise<readonly Tried[]> {
  let lines: Tried[] = (await linesOf(name)).map((line) => ({ ...line, at: 1 }));
  for (let at = 2; at <= TRIES_MAX && !lines.every(holds); at++) {
    const next = await linesOf(name);
    lines = lines.map((line, index) => {
      const other = next[index];
      return !holds(line) && other !== undefined && holds(other) ? { ...other, at } : line;
    });
  }
  return lines;
}

/** A benchmark that could not be measured misses its limit; the others are measured all the same. */
function failedLine(name: string, error: unknown): Tried {
  const measured = error instanceof Error ? error.message : String(error);
  return { what: name, floor: "", measured, ratio: Number.POSITIVE_INFINITY, limit: 0, at: 1 };
}

function rowOf(line: Tried): string {
  const { what, floor, measured, ratio, limit, before, at } = line;
  const held = at === 1 ? "yes" : `yes, at try ${at}`;
  const verdict = limit === undefined ? "" : holds(line) ? held : "**no**";
  const cells = [what, floor, measured, ratio.toFixed(2), before ?? "", limit ?? "", verdict];
  return `| ${cells.join(" | ")} |`;
}

function machine(): string {
  const model = cpus()[0]?.model ?? "unknown processor";
  const load = (loadavg()[0] ?? 0).toFixed(1);
  const date = new Date().toISOString().slice(0, 10);
  const system = `${platform()} ${release()}`;
  return `${date}, ${availableParallelism()} cores (${model}), ${system}, Node ${process.versions.node}; load at the end: ${load}.`;
}

function write(text: string): void {
  const document = readFileSync(DOCUMENT, "utf8");
  const [before, rest] = document.split(BEGIN);
  const after = rest?.split(END)[1];
  if (before === undefined || after === undefined) throw new Error(`${DOCUMENT} has no table`);
  writeFileSync(DOCUMENT, `${before}${BEGIN}\n${text}\n${END}${after}`);
}

async function main(args: readonly string[]): Promise<void> {
  const wanted = args.filter((arg) => !arg.startsWith("--"));
  const lines: Tried[] = [];
  mkdirSync(BENCH_DIR, { recursive: true });
  const head = [
    "| what | floor | measured | ratio | before | limit | ok |",
    "|---|---|---|---|---|---|---|",
  ];
  for (const line of head) console.log(line);
  for (const name of wanted.length > 0 ? wanted : NAMES) {
    const measured = await measure(name).catch((error: unknown) => [failedLine(name, error)]);
    for (const line of measured) console.log(rowOf(line));
    lines.push(...measured);
  }
  const text = [...head, ...lines.map(rowOf), "", machine()].join("\n");
  if (args.includes("--write")) write(text);
  rmSync(BENCH_DIR, { recursive: true, force: true });
  process.exitCode = lines.every(holds) ? 0 : 1;
}

const [first, name] = process.argv.slice(2);
if (first === "--one" && name !== undefined) await runOne(name);
else await main(process.argv.slice(2));
