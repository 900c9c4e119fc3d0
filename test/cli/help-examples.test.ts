/**
 * The help of every command has examples, and each of them works in the situation that it is for.
 */
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { helps } from "../rig/help.ts";
import { KeptProject } from "../rig/kept-project.ts";
import {
  cleanEnvironment,
  type Hold,
  PlainProject,
  PROGRAM,
  type Program,
  type Project,
} from "../rig/project.ts";
import { userGit } from "../workspace/rig.ts";

/** A pipeline with the steps that the examples name. */
const RELEASE = `input: { type: object, additionalProperties: true }
steps:
  - { id: build, run: echo built >> built.txt }
  - { id: test, run: echo tested }
`;

const EFFECT = `${RELEASE}  - { id: publish, run: exit 1, once: true }\n`;
const AGENT = `${RELEASE}  - { id: approve, gate: "Ship it?" }
  - { id: fix, agent: claude, prompt: Fix it. }\n`;

let project: Project;
/** The step that a living run is held in, and its runner. */
let held: { readonly hold: Hold; readonly runner: Program } | undefined;

/** Waits for the end of a run that was stopped, and removes its project. */
async function leave(stop = ""): Promise<void> {
  if (stop.includes("--after-step")) await held?.hold.release();
  await held?.runner.ended;
  held = undefined;
  await project.discard();
}

async function ran(pipeline: string, exit: number): Promise<void> {
  project.write("release.yaml", pipeline);
  const result = await project.run(["run", "release.yaml", "--no-preflight"]);
  expect(result.exit, result.stderr).toBe(exit);
}

const completed = (): Promise<void> => ran(RELEASE, 0);
/** A run that asks a question, with an agent to come. */
const asking = (): Promise<void> => ran(AGENT, 6);

/** Begins with a situation, which takes the place of the empty project. */
async function beginWith(situation: () => Promise<void>): Promise<void> {
  await project.discard();
  await enter(situation);
}

/** A run that a rewind has left stopped. */
async function interrupted(): Promise<void> {
  await beginWith(completed);
  await project.must(["rewind", "test"]);
}

async function living(): Promise<void> {
  const hold = project.hold("live");
  project.write("release.yaml", `steps:\n  - { id: build, run: "${hold.command}" }\n`);
  held = { hold, runner: project.start(["run", "release.yaml"]) };
  await hold.arrived();
}

/** A run in a worktree of a repository with one commit. */
async function worktree(): Promise<void> {
  userGit(project.dir, "init", "-q", "-b", "main");
  userGit(project.dir, "config", "user.name", "Ann");
  userGit(project.dir, "config", "user.email", "ann@example.com");
  fs.writeFileSync(project.path(".gitignore"), "*.log\n");
  userGit(project.dir, "add", ".gitignore");
  userGit(project.dir, "commit", "-q", "-m", "first");
  await ran(`workspace: worktree\n${RELEASE}`, 0);
}

async function exported(): Promise<void> {
  await beginWith(completed);
  await project.must(["export", "-o", "run.perdure"]);
  fs.mkdirSync(project.path("elsewhere"));
}

/** Situations that were brought about; they are put back for each example. */
const known = new Map<() => Promise<void>, KeptProject>();
afterAll(() => {
  for (const one of known.values()) one.forget();
});

async function enter(situation: () => Promise<void>): Promise<void> {
  const found = known.get(situation);
  project = found?.project ?? new PlainProject();
  if (found !== undefined) return found.putBack();
  await situation();
  // A run that lives cannot be kept.
  if (held === undefined) known.set(situation, new KeptProject(project));
}

/** The situation of each command's examples; a completed run if none is named. */
const SITUATIONS: Readonly<Record<string, () => Promise<void>>> = {
  answer: asking,
  apply: worktree,
  import: exported,
  merge: worktree,
  open: asking,
  pr: worktree,
  resume: interrupted,
  say: asking,
  settle: () => ran(EFFECT, 3),
  skip: asking,
  stop: living,
};

/** Commands that need more than a run here: a program of others. */
const MAY_FAIL: Readonly<Record<string, string>> = {
  open: "has no conversation yet",
  pr: "gh",
};

/** Runs a line as a person types it. */
function typed(line: string): { readonly exit: number | null; readonly said: string } {
  const id = fs.readdirSync(project.path(".perdure", "runs"))[0] ?? "";
  const here = line.replaceAll("1a2b3c4d", id.slice(0, 8)).replace("../elsewhere", "elsewhere");
  const shell = `perdure() { "${process.execPath}" ${PROGRAM} "$@"; }\n${here.split(" | ")[0]}`;
  const env = { ...cleanEnvironment(), ...project.own, HOME: project.dir };
  const { status, stdout, stderr } = spawnSync("bash", ["-c", shell], {
    ...{ cwd: project.dir, env, encoding: "utf8" },
  });
  return { exit: status, said: `${stdout}${stderr}` };
}

/** Commands whose examples change the run, or need one of their own. */
const CHANGING = [
  ...["answer", "apply", "fork", "import", "merge", "open", "pr", "resume", "retry", "rewind"],
  ...["run", "say", "settle", "skip", "stop"],
];
/** Commands whose examples can all look at the same completed run, in a worktree. */
const READING = [
  ...["attach", "clean", "completion", "cost", "diff", "doctor", "explain", "export", "graph"],
  ...[
    "inbox",
    "init",
    "list",
    "logs",
    "mcp",
    "notify",
    "prices",
    "replay",
    "report",
    "service",
    "show",
    "timeline",
    "validate",
    "why",
  ],
];
/**
 * Commands that serve until somebody ends them, take long, or need the store of a fleet; tests of their
 * own start them.
 */
const SERVING = ["demo", "pull", "push", "schedules", "store", "submit", "ui", "worker", "workers"];

const HELPS = helps();

/** The examples in the help of a command. */
function examplesOf(name: string): readonly string[] {
  const help = HELPS.get(name) ?? "";
  const lines = (help.split("\nExamples:\n")[1] ?? "").trimEnd().split("\n");
  expect(lines.length).toBeGreaterThanOrEqual(2);
  return lines.map((line) => line.trim());
}

function expectToWork(name: string, line: string): void {
  const { exit, said } = typed(line);
  const excuse = MAY_FAIL[name];
  if (excuse !== undefined && exit === 1) expect(said).toContain(excuse);
  else expect(exit, `${line}\n${said}`).toBe(0);
}

describe("the examples of commands that only read", () => {
  beforeAll(() => enter(worktree));
  afterAll(() => leave());

  it.each(READING)("%s", (name) => {
    for (const line of examplesOf(name)) expectToWork(name, line);
  });

  it("belong to all commands except those of the lists below", async () => {
    const offered = await project.must(["complete", "--", ""]);
    const names = offered
      .trimEnd()
      .split("\n")
      .map((line) => line.split("\t")[0] ?? "");
    expect(new Set(names)).toEqual(new Set([...READING, ...CHANGING, ...SERVING]));
  });
});

describe("the examples of commands that change something", () => {
  it.each(CHANGING)("%s", async (name) => {
    for (const line of examplesOf(name)) {
      await enter(SITUATIONS[name] ?? completed);
      expectToWork(name, line);
      await leave(line);
    }
  });
});
