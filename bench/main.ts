/**
 * Runs the benchmarks and prints the cost of each in multiples of its floor, which is measured in the
 * same run, alternating with it. Each benchmark has a process of its own.
 *
 *   node bench/main.ts [NAME...]     all of them, or some; exits with 1 when a limit is missed
 *   node bench/main.ts --write       also puts the table into docs/BENCHMARKS.md
 *
 * A line that misses its limit is measured again, at most twice, because the machine may be busy; the
 * table says which attempt met the limit. A line that meets its limit is never measured again, and one
 * that never does shows its first number, not its best.
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
  "disk",
  "commands",
  "memory",
  "planning",
  "snapshot",
  "ledger",
  "package-size",
  "dashboard",
] as const;
const ATTEMPTS_MAX = 3;
const DOCUMENT = resolve(import.meta.dirname, "../docs/BENCHMARKS.md");
const BEGIN = "<!-- table: written by `node bench/main.ts --write` -->";
const END = "<!-- end of the table -->";

interface Message {
  readonly lines: readonly Line[];
}

/** Runs one benchmark, in a process of its own. */
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

/** True if a line meets its limit, or has none. */
const meetsLimit = ({ ratio, limit }: Line): boolean => limit === undefined || ratio <= limit;

/** A line, and the attempt that it comes from. */
interface MeasuredLine extends Line {
  readonly attempt: number;
}

/** The first attempt at each line that met its limit, or else the first one. */
async function measure(name: string): Promise<readonly MeasuredLine[]> {
  let lines: MeasuredLine[] = (await linesOf(name)).map((line) => ({ ...line, attempt: 1 }));
  for (let attempt = 2; attempt <= ATTEMPTS_MAX && !lines.every(meetsLimit); attempt++) {
    const next = await linesOf(name);
    lines = lines.map((line, index) => {
      const other = next[index];
      return !meetsLimit(line) && other !== undefined && meetsLimit(other)
        ? { ...other, attempt }
        : line;
    });
  }
  return lines;
}

/** The line of a benchmark that failed: it misses its limit, and the others are still measured. */
function failedLine(name: string, error: unknown): MeasuredLine {
  const measured = error instanceof Error ? error.message : String(error);
  return { what: name, floor: "", measured, ratio: Number.POSITIVE_INFINITY, limit: 0, attempt: 1 };
}

function rowOf(line: MeasuredLine): string {
  const { what, floor, measured, ratio, limit, before, attempt } = line;
  const met = attempt === 1 ? "yes" : `yes, attempt ${attempt}`;
  const verdict = limit === undefined ? "" : meetsLimit(line) ? met : "**no**";
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
  const lines: MeasuredLine[] = [];
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
  process.exitCode = lines.every(meetsLimit) ? 0 : 1;
}

const [first, name] = process.argv.slice(2);
if (first === "--one" && name !== undefined) await runOne(name);
else await main(process.argv.slice(2));
