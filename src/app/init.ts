/**
 * The first steps with Perdure: a pipeline to start from, and a demonstration.
 *
 * `perdure init` writes a copy of one of the templates of this package. `perdure demo` runs a pipeline,
 * kills its runner with `kill -9` in the middle of a step, and `perdure resume` continues from exactly
 * there. Everything in it is real: the program, the processes and the counted effects; only the steps
 * do nothing but wait.
 *
 * Owns: the list of templates, and which agent a copy names; the pipeline of the demonstration, and the
 * directory that it needs.
 * Does not: choose a template (the command line asks).
 */

import { type ChildProcess, spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { createInterface } from "node:readline";
import { STAND_IN_AGENT, UNDECLARED_AGENTS } from "../util/agent-access.ts";
import { nearest } from "../util/nearest.ts";
import { advice, command, Refusal, when } from "./refusal.ts";
import { packageDirectory } from "./this-process.ts";

/** A pipeline to start from. */
interface PipelineTemplate {
  readonly name: string;
  /** Its first sentence. */
  readonly about: string;
}

const EXTENSION = ".yaml";
const FOLDER = "pipelines";

/** The templates of this package. */
export function pipelineTemplates(): readonly PipelineTemplate[] {
  return readdirSync(templateFolder())
    .filter((file) => file.endsWith(EXTENSION))
    .map((file) => ({ name: basename(file, EXTENSION), about: aboutOf(textOf(file)) }));
}

function templateFolder(): string {
  return join(packageDirectory(), "templates");
}

function textOf(file: string): string {
  return readFileSync(join(templateFolder(), file), "utf8");
}

/** The first paragraph of comments, up to the end of its first sentence. */
function aboutOf(text: string): string {
  const lines = text.split("\n");
  const end = lines.findIndex((line) => !line.startsWith("# "));
  const paragraph = lines.slice(0, end).map((line) => line.slice(2));
  return paragraph.join(" ").replace(/(?<=\.) .*$/, "");
}

/** A pipeline that was written. */
interface WrittenPipeline {
  readonly name: string;
  /** Its path from here. */
  readonly file: string;
  readonly agent: string;
}

/** Writes a copy of a template to the folder `pipelines`. Never replaces a file. */
export function writeTemplate(
  from: string,
  { template, agent = STAND_IN_AGENT }: { readonly template: string; readonly agent?: string },
): WrittenPipeline {
  const names = pipelineTemplates().map(({ name }) => name);
  if (!names.includes(template)) {
    const meant = nearest(template, names);
    const message = `there is no template ${template}; there are ${names.join(", ")}`;
    throw new Refusal("bad-option", message, command("init", meant ?? names[0] ?? ""));
  }
  if (!UNDECLARED_AGENTS.some((name) => name === agent)) {
    const message = `--agent ${agent}: there is no such agent`;
    throw new Refusal("bad-option", message, advice(`one of ${UNDECLARED_AGENTS.join(", ")}`));
  }
  const file = resolve(from, FOLDER, template + EXTENSION);
  const shown = relative(from, file);
  if (existsSync(file)) {
    throw new Refusal("files-in-the-way", `${shown} exists already`, [
      when("to run it", "run", template),
      advice(`to start over: rm ${shown}, then perdure init ${template}`),
    ]);
  }
  const text = textOf(template + EXTENSION).replaceAll(
    `agent: ${STAND_IN_AGENT}`,
    `agent: ${agent}`,
  );
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text, { flag: "wx" });
  return { name: template, file: shown, agent };
}

const STEPS = ["plan", "implement", "test", "release"] as const;
/** Long enough for a person to watch. */
const STEP_SECONDS = 1.5;
/** The step during which the runner is killed; it waits until the next runner has found it. */
const KILLED_IN = "implement";
const FOUND = "re-attached";

/** Runs the demonstration; true when every step ran exactly once. */
export async function demonstrate(print: (line: string) => void): Promise<boolean> {
  const directory = mkdtempSync(join(tmpdir(), "perdure-demo-"));
  try {
    return await demonstrateIn(directory, print);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function demonstrateIn(directory: string, print: (line: string) => void): Promise<boolean> {
  writeFileSync(join(directory, "demo.yaml"), `steps:\n${STEPS.map(stepText).join("")}`);
  print(`A pipeline of ${STEPS.length} steps; each adds a line to a file when it runs.`);
  const start = (...words: readonly string[]): ShownProgram => {
    print(`\n$ perdure ${words.join(" ")}`);
    return new ShownProgram(directory, words, print);
  };
  const runner = start("run", "demo.yaml");
  await Promise.race([runner.printed(`${KILLED_IN} │ working`), runner.ended]);
  runner.child.kill("SIGKILL");
  await runner.ended;
  print(`\n☠ kill -9 ${runner.child.pid}: the runner is dead, in the middle of "${KILLED_IN}".`);
  await start("why").ended;
  const resumed = start("resume");
  await Promise.race([resumed.printed(FOUND), resumed.ended]);
  writeFileSync(join(directory, "found"), "");
  await resumed.ended;
  const ran = readFileSync(join(directory, "effects"), "utf8").split("\n");
  const counts = STEPS.map((step) => ran.filter((line) => line === step).length);
  print("\nHow often each step ran:");
  for (const [index, step] of STEPS.entries()) print(`  ${step.padEnd(10)} ${counts[index]}`);
  const isOnce = counts.every((count) => count === 1);
  print(isOnce ? "Nothing was done twice, and nothing was lost." : "That is not right!");
  return isOnce && resumed.child.exitCode === 0;
}

function stepText(step: string): string {
  return `  - id: ${step}
    run: |
      echo ${step} >> effects
      echo working
      ${step === KILLED_IN ? "until [ -e found ]; do sleep 0.1; done" : `sleep ${STEP_SECONDS}`}
      echo ready
`;
}

/** A command of Perdure whose lines are shown. */
class ShownProgram {
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
  readonly #lines: string[] = [];
  #wake: () => void = () => undefined;

  constructor(directory: string, words: readonly string[], print: (line: string) => void) {
    const program = process.argv[1] ?? "perdure";
    this.child = spawn(process.execPath, [program, ...words], {
      cwd: directory,
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on("line", (line) => {
        print(`  ${line}`);
        this.#lines.push(line);
        this.#wake();
      });
    }
    this.ended = new Promise((resolve, reject) => {
      this.child.once("error", reject);
      this.child.once("close", () => resolve());
    });
  }

  /** Resolves when a line with this text was printed. */
  async printed(text: string): Promise<void> {
    while (!this.#lines.some((line) => line.includes(text))) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
