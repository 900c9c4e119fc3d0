/**
 * Measures Perdure beside other programs that do the same work, in one run on one machine.
 *
 *   npm run peers              prints the table
 *   npm run peers -- --write   also puts it into docs/BENCHMARKS.md
 *
 * Owns: what is measured, and the table.
 * Does not: know how a peer is started (one file for each of them).
 *
 * The peers take turns in each round, each time in a new repository of 500 files. Times are
 * medians. A step's time is that of 101 steps less that of one, divided by 100, so the start does not
 * count.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { resolve } from "node:path";
import { inDirectory, median, ms } from "../measure.ts";
import { makeRepository } from "../repository.ts";
import { dbos } from "./dbos.ts";
import { OPENWORKFLOW } from "./openworkflow.ts";
import { folderOf, install, type Peer, sizeOf, type Task, type Work } from "./peer.ts";
import { perdure } from "./perdure.ts";
import { peakMemory, resumeAfterKill, runToEnd } from "./process.ts";
import { SMITHERS } from "./smithers.ts";
import { TAKT } from "./takt.ts";

const ROUNDS = 3;
const STEPS = 100;
const FILES = 500;
const HELD_STEP = 90;
const DOCUMENT = resolve(import.meta.dirname, "../../docs/BENCHMARKS.md");
const BEGIN = "<!-- peers: written by `npm run peers -- --write` -->";
const END = "<!-- end of the peers -->";

/** The measurements of one peer. */
interface Samples {
  readonly one: number[];
  readonly nothing: number[];
  readonly process: number[];
  readonly version: number[];
  readonly resume: number[];
  readonly repeated: Set<number>;
  readonly bytes: number[];
  readonly memory: number[];
}

function noSamples(): Samples {
  const [one, nothing, process, version]: number[][] = [[], [], [], []];
  const [resume, bytes, memory]: number[][] = [[], [], []];
  return { one, nothing, process, version, resume, repeated: new Set(), bytes, memory } as Samples;
}

/** Works in a new repository that contains the peer's program. */
function inProject<T>(peer: Peer, task: Task, act: (directory: string) => Promise<T>): Promise<T> {
  return inDirectory(async (directory) => {
    makeRepository(directory, FILES);
    await peer.prepare(directory, task);
    return act(directory);
  });
}

function runMs(peer: Peer, task: Task): Promise<number> {
  return inProject(peer, task, (directory) => runToEnd(peer.start(directory, task), directory));
}

async function stepMs(peer: Peer, work: Work, one: number): Promise<number> {
  return ((await runMs(peer, { steps: STEPS + 1, work })) - one) / STEPS;
}

async function stateBytes(peer: Peer, steps: number): Promise<number> {
  const task: Task = { steps, work: "process" };
  return inProject(peer, task, async (directory) => {
    const before = sizeOf(directory).bytes;
    await runToEnd(peer.start(directory, task), directory);
    if (peer.stateBytes !== undefined) return peer.stateBytes(directory);
    return sizeOf(directory).bytes - before;
  });
}

async function round(peer: Peer, samples: Samples): Promise<void> {
  const one = await runMs(peer, { steps: 1, work: "process" });
  samples.one.push(one);
  samples.process.push(await stepMs(peer, "process", one));
  if (peer.works.includes("nothing")) {
    const alone = await runMs(peer, { steps: 1, work: "nothing" });
    samples.nothing.push(await stepMs(peer, "nothing", alone));
  }
  const version = peer.version?.();
  if (version !== undefined) samples.version.push(await runToEnd(version, folderOf(peer.name)));
  const task: Task = { steps: STEPS, work: "hold", hold: HELD_STEP };
  if (peer.resume === undefined) return;
  const { tookMs, repeated } = await inProject(peer, task, (directory) =>
    resumeAfterKill(peer, directory, task),
  );
  samples.resume.push(tookMs);
  samples.repeated.add(repeated);
}

/** Measures what does not change from round to round. */
async function once(peer: Peer, samples: Samples): Promise<void> {
  const grown = (await stateBytes(peer, STEPS + 1)) - (await stateBytes(peer, 1));
  samples.bytes.push(grown / STEPS);
  const task: Task = { steps: STEPS, work: "process" };
  samples.memory.push(
    await inProject(peer, task, (directory) => peakMemory(peer.start(directory, task), directory)),
  );
}

const NOT = "–";
const timeOf = (samples: readonly number[]): string =>
  samples.length === 0 ? NOT : ms(median(samples));

type Row = readonly [what: string, cell: (peer: Peer, samples: Samples) => string];

const ROWS: readonly Row[] = [
  ["version", ({ packages }) => versionOf(packages)],
  ["installed: MB, files", ({ name }) => installedOf(name)],
  ["`--version`", (_, { version }) => timeOf(version)],
  ["a run of one step, whole program", (_, { one }) => timeOf(one)],
  ["a durable step that does nothing", (_, { nothing }) => timeOf(nothing)],
  ["a step that is a process (`true`)", (_, { process }) => timeOf(process)],
  [
    `resume after \`kill -9\` in step ${HELD_STEP + 1} of ${STEPS}, until the step starts again`,
    (_, { resume }) => timeOf(resume),
  ],
  [
    "completed steps that ran again then",
    (_, { repeated }) => (repeated.size === 0 ? NOT : [...repeated].join(", ")),
  ],
  ["disk per step", (_, { bytes }) => `${(median(bytes) / 1e3).toFixed(1)} KB`],
  ["peak memory, 100 steps", (_, { memory }) => `${(median(memory) / 1e6).toFixed(0)} MB`],
];

function versionOf(packages: Readonly<Record<string, string>>): string {
  const [version = ""] = Object.values(packages);
  return version.startsWith("file:") ? "this one" : version;
}

function installedOf(name: string): string {
  const { bytes, files } = sizeOf(`${folderOf(name)}/node_modules`);
  return `${(bytes / 1e6).toFixed(0)}, ${files.toLocaleString("en")}`;
}

function tableOf(measured: ReadonlyMap<Peer, Samples>): string {
  const head = `| | ${[...measured.keys()].map(({ name }) => name).join(" | ")} |`;
  const rule = `|---|${"---|".repeat(measured.size)}`;
  const rows = ROWS.map(([what, cell]) => {
    const cells = [...measured].map(([peer, samples]) => cell(peer, samples));
    return `| ${what} | ${cells.join(" | ")} |`;
  });
  const date = new Date().toISOString().slice(0, 10);
  const load = (loadavg()[0] ?? 0).toFixed(1);
  const where = `${date}, ${availableParallelism()} cores, Node ${process.versions.node}; load at the end: ${load}.`;
  return [head, rule, ...rows, "", where].join("\n");
}

function write(table: string): void {
  const [before, rest] = readFileSync(DOCUMENT, "utf8").split(BEGIN);
  const after = rest?.split(END)[1];
  if (before === undefined || after === undefined)
    throw new Error(`${DOCUMENT} has no table of peers`);
  writeFileSync(DOCUMENT, `${before}${BEGIN}\n${table}\n${END}${after}`);
}

async function main(args: readonly string[]): Promise<void> {
  const bare = "workspace: { snapshots: false }\n";
  const peers: readonly Peer[] = [
    perdure("Perdure"),
    perdure("Perdure, `snapshots: false`", bare),
    SMITHERS,
    TAKT,
    OPENWORKFLOW,
    await dbos(),
  ];
  const measured = new Map(peers.map((peer) => [peer, noSamples()]));
  try {
    for (const peer of peers) install(peer);
    for (let count = 0; count < ROUNDS; count++) {
      for (const [peer, samples] of measured) await round(peer, samples);
    }
    for (const [peer, samples] of measured) await once(peer, samples);
  } finally {
    for (const peer of peers) await peer.close?.();
  }
  const table = tableOf(measured);
  console.log(table);
  if (args.includes("--write")) write(table);
}

await main(process.argv.slice(2));
