/**
 * A repository of a user with runs that are rewound: what steps did is counted outside of it, so
 * that files which are put back do not take the counts along.
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, onTestFinished } from "vitest";
import { checkJournal } from "../../src/journal/repair/check.ts";
import { type StoredRun, storedRuns } from "../crash/canonical.ts";
import { Project, type Result, runIdsIn } from "../rig/project.ts";
import { replayJournals } from "../rig/replayed.ts";
import { contentOf, snapshotNames, userGit, write } from "../workspace/rig.ts";

export type Kind = "worktree" | "here" | "copy" | "directory";

/** Steps that each leave a mark in `log.txt`, which shows how often and on what they ran. */
export type Shape = "sequential" | "independent" | "parallel" | "failing";

const STEPS: Readonly<Record<Shape, readonly (readonly [id: string, needs: string])[]>> = {
  sequential: [
    ["a", ""],
    ["b", "a"],
    ["c", "b"],
  ],
  independent: [
    ["a", ""],
    ["b", "a"],
    ["c", "a"],
    ["d", "b, c"],
  ],
  parallel: [
    ["a", ""],
    ["b", "a"],
    ["c", "a"],
    ["d", "b, c"],
  ],
  failing: [
    ["a", ""],
    ["b", "a"],
    ["c", "b"],
  ],
};

/** The repository as it is before the first run. It is made once and copied for every test. */
let template: string | undefined;

function makeTemplate(): string {
  const dir = fs.mkdtempSync(join(tmpdir(), "perdure-repository-"));
  userGit(dir, "init", "-q", "-b", "main");
  write(dir, { ".gitignore": "*.tmp\n", "log.txt": "one\n", "mine.txt": "mine\n" });
  userGit(dir, "add", "-A");
  userGit(dir, "commit", "-q", "-m", "first");
  write(dir, { "mine.txt": "stashed\n" });
  userGit(dir, "stash", "-q");
  write(dir, { "mine.txt": "staged\n", "untracked.txt": "untracked\n", "x.tmp": "ignored" });
  userGit(dir, "add", "mine.txt");
  process.on("exit", () => fs.rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** Copies a directory with its times and permissions. */
function copy(from: string, to: string): void {
  execFileSync("cp", ["-a", from, to]);
}

/** The user's repository: a commit, something staged, something stashed, something untracked. */
export class Repo {
  readonly project = new Project();
  readonly dir = this.project.path("repo");
  readonly #kept = `${this.project.dir}.kept`;

  /** It is removed when the test is over, or when the caller of this function wants that. */
  constructor(atEnd: (remove: () => Promise<void>) => void = onTestFinished) {
    atEnd(async () => {
      fs.rmSync(this.#kept, { recursive: true, force: true });
      await this.project.remove();
    });
    template ??= makeTemplate();
    fs.cpSync(template, this.dir, { recursive: true });
  }

  /** Copies everything as it is now, for `restore`. */
  keep(): void {
    copy(this.project.dir, this.#kept);
  }

  /** Puts everything back as it was kept; what has happened since is decided again first. */
  async restore(): Promise<void> {
    const { dir } = this.project;
    await replayJournals(dir);
    fs.rmSync(dir, { recursive: true });
    copy(this.#kept, dir);
  }

  /** A run as the journal has it; nothing is wrong with the journal. */
  async stored(id: string): Promise<StoredRun | undefined> {
    expect(checkJournal(join(this.dir, ".perdure", "state.db"))).toEqual([]);
    const runs = await storedRuns(new Project(this.dir));
    return runs.find(({ runId }) => runId === id);
  }

  /** Writes a pipeline of this shape outside of the repository; gives its path. */
  pipeline(shape: Shape, kind: Kind): string {
    const steps = STEPS[shape].map(([id, needs]) => {
      const lines = [this.project.effect(id), ...this.#meeting(shape, id), ...work(shape, id)];
      if (shape === "failing" && id === "b") lines.push(`test -e '${this.project.path("go")}'`);
      const script = lines.map((line) => `      ${line}`).join("\n");
      return `  - id: ${id}\n    needs: [${needs}]\n    run: |\n${script}`;
    });
    const room = shape === "parallel" ? 2 : 1;
    const text = `name: ${shape}\nworkspace: ${kind}\nmax_parallel: ${room}\nsteps:\n${steps.join("\n")}\n`;
    this.project.write("p.yaml", text);
    return this.project.path("p.yaml");
  }

  /** Makes b and c of a parallel pipeline be at work at the same time. */
  #meeting(shape: Shape, id: string): readonly string[] {
    if (shape !== "parallel" || (id !== "b" && id !== "c")) return [];
    const [mine, other] = [id, id === "b" ? "c" : "b"].map((name) =>
      this.project.path(`at-${name}`),
    );
    return [`: > '${mine}'`, `while ! test -e '${other}'; do :; done`];
  }

  run(...args: readonly string[]): Promise<Result> {
    return this.project.run(args, { cwd: this.dir });
  }

  must(...args: readonly string[]): Promise<string> {
    return this.project.must(args, { cwd: this.dir });
  }

  /** Runs a pipeline to its end; gives the run's id. */
  async made(shape: Shape, kind: Kind): Promise<string> {
    await this.run("run", this.pipeline(shape, kind), "--quiet");
    return this.ids()[0] ?? "";
  }

  /** The ids of all runs, newest first. */
  ids(): readonly string[] {
    return runIdsIn(join(this.dir, ".perdure", "state.db"));
  }

  /** Where a run works. */
  place(kind: Kind, id: string): string {
    return kind === "here" ? this.dir : join(this.dir, ".perdure", "runs", id, "workspace");
  }

  /** What steps have made or changed in the workspace of a run, by name. */
  files(kind: Kind, id: string): Readonly<Record<string, string>> {
    const own = ["mine.txt", "untracked.txt", ".gitignore", "x.tmp"];
    const found = Object.entries(contentOf(this.place(kind, id)));
    return Object.fromEntries(
      found.filter(([name]) => !own.includes(name)).map(([name, text]) => [name, text.slice(5)]),
    );
  }

  effects(): Readonly<Record<string, number>> {
    return this.project.effects();
  }

  /** The snapshots that there are: ref -> commit. */
  snapshots(): ReadonlyMap<string, string> {
    const names = [...snapshotNames(this.dir)];
    return new Map(names.filter(([ref]) => ref.startsWith("refs/perdure/")));
  }

  /** All that is the user's alone; the branches of runs are not. */
  own(): Readonly<Record<string, string>> {
    const git = join(this.dir, ".git");
    const refs = fs
      .readdirSync(join(git, "refs"), { recursive: true, encoding: "utf8" })
      .filter((name) => !name.startsWith("heads/perdure"))
      .map((name) => join(git, "refs", name))
      .filter((path) => fs.statSync(path).isFile());
    const state = ["index", "HEAD", "config", "logs/refs/stash"].map((name) => join(git, name));
    const names = ["mine.txt", "untracked.txt", "x.tmp", ".gitignore"];
    const files = names.map((name) => join(this.dir, name));
    const texts = [...refs, ...state, ...files].map((path) => [
      path,
      fs.readFileSync(path, "latin1"),
    ]);
    return Object.fromEntries(texts) as Record<string, string>;
  }

  /** What git finds wrong with the repository. */
  fsck(): string {
    return userGit(this.dir, "fsck", "--no-dangling", "--no-progress");
  }
}

export interface MadeRun {
  readonly repo: Repo;
  readonly id: string;
  /** What is the user's alone, before the run. */
  readonly own: Readonly<Record<string, string>>;
}

/** The runs of a test file that are each made once, and are there again for each test. */
export class MadeRuns {
  readonly #known = new Map<string, MadeRun>();
  readonly #removals: (() => Promise<void>)[] = [];

  constructor() {
    afterAll(async () => {
      for (const remove of this.#removals) await remove();
    });
  }

  /** The run of this name; `make` gives its id. */
  async again(name: string, make: (repo: Repo) => Promise<string>): Promise<MadeRun> {
    const known = this.#known.get(name);
    if (known !== undefined) {
      await known.repo.restore();
      return known;
    }
    const repo = new Repo((remove) => this.#removals.push(remove));
    const own = repo.own();
    const id = await make(repo);
    repo.keep();
    const run = { repo, id, own };
    this.#known.set(name, run);
    return run;
  }
}

/** What a step does to the files. */
function work(shape: Shape, id: string): readonly string[] {
  const mark = `echo ${id} >> log.txt`;
  // In branches of their own, b and c leave the common file alone.
  const apart = shape !== "sequential" && shape !== "failing" && (id === "b" || id === "c");
  const made = `echo ${id} > ${id}.txt`;
  if (shape === "sequential" && id === "c") return [mark, made, "rm -f b.txt"];
  return apart ? [`echo ${id} >> ${id}.txt`] : [mark, made];
}
