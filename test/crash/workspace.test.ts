/**
 * The real program is killed wherever it touches files: taking snapshots, putting them back, making
 * worktrees, merging. Resumed, every completed step has left the very same files as in an
 * uninterrupted run, the repository is whole, and nothing of the user's is touched.
 *
 * Each failpoint is struck once, at the first or the last time that it is passed;
 * PERDURE_CRASH_ALL=1 strikes it every time.
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { CRASH_ALL } from "../rig/crash-all.ts";
import { WALK_MS } from "../rig/patience.ts";
import { eventually, Project } from "../rig/project.ts";
import { storedRuns } from "./canonical.ts";

const LANES = 2;

/** The second step fails once, so that its files are put back for the next try. */
const PIPELINES: Readonly<Record<string, string>> = {
  worktree: `
workspace: worktree
steps:
  - id: change
    run: |
      echo changed >> readme
      mkdir -p deep/empty deep/full
      printf 'tool' > deep/full/tool && chmod +x deep/full/tool
      ln -s full deep/link
  - id: again
    retry: { attempts: 2, backoff: 1ms }
    run: |
      echo again >> readme
      test -e "$PERDURE_ATTEMPT_DIR/../../tried" || { : > "$PERDURE_ATTEMPT_DIR/../../tried"; exit 1; }
  - { id: left, needs: again, workspace: own, run: "sed -i s/one/ONE/ readme; echo l > l" }
  - { id: right, needs: again, workspace: own, run: "rm deep/link; echo r > deep/r" }
  - { id: last, needs: [left, right], run: "cat readme > copy; rm -r deep/empty" }
`,
  here: `
steps:
  - { id: one, run: "echo 1 > made; echo changed >> readme" }
  - { id: two, run: "rm made; mkdir -p sub; echo 2 > sub/two" }
`,
};

interface Outcome {
  /** The trees of the snapshots of completed steps. */
  readonly trees: Readonly<Record<string, string>>;
  readonly files: Readonly<Record<string, string>>;
  readonly users: Readonly<Record<string, string>>;
}

function git(dir: string, ...args: readonly string[]): string {
  const env = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" };
  const who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
  const dates = { GIT_AUTHOR_DATE: "@1 +0000", GIT_COMMITTER_DATE: "@1 +0000" };
  const options = { cwd: dir, env: { ...env, ...dates }, encoding: "utf8" } as const;
  return execFileSync("git", [...who, ...args], { ...options, stdio: "pipe" }).trim();
}

/** The repositories that were made, by the text of their pipeline; they are copied for every kill. */
const templates = new Map<string, Project>();
afterAll(async () => {
  for (const template of templates.values()) await template.remove();
});

function userRepository(project: Project, text: string): void {
  let template = templates.get(text);
  if (template === undefined) {
    template = new Project();
    templates.set(text, template);
    makeRepository(template, text);
  }
  fs.cpSync(template.dir, project.dir, { recursive: true });
}

/** A repository with something of everything that belongs to a user. */
function makeRepository(project: Project, text: string): void {
  const { dir } = project;
  project.write(".gitignore", "ignored\n");
  project.write("readme", "one\ntwo\nthree\n");
  project.write("p.yaml", text);
  git(dir, "init", "-q", "-b", "main");
  git(dir, "add", ".");
  git(dir, "commit", "-qm", "begin");
  project.write("stashed", "s");
  git(dir, "add", "stashed");
  git(dir, "stash", "-q");
  project.write("staged", "staged");
  git(dir, "add", "staged");
  project.write("untracked", "untracked");
  project.write("ignored", "ignored");
}

function usersOf({ dir }: Project): Readonly<Record<string, string>> {
  const ask = (...args: readonly string[]): string => git(dir, ...args);
  return {
    head: ask("rev-parse", "HEAD"),
    branch: ask("symbolic-ref", "HEAD"),
    index: ask("ls-files", "-s"),
    stash: ask("stash", "list", "--format=%H"),
    reflog: ask("reflog", "--format=%H"),
    config: fs.readFileSync(join(dir, ".git", "config"), "utf8"),
    untracked: fs.readFileSync(join(dir, "untracked"), "utf8"),
    ignored: fs.readFileSync(join(dir, "ignored"), "utf8"),
    fsck: ask("fsck", "--strict", "--no-dangling"),
  };
}

async function outcomeOf(project: Project, name: string): Promise<Outcome> {
  const [run] = await storedRuns(project);
  const trees: Record<string, string> = {};
  for (const { event } of run?.events ?? []) {
    if (event.type !== "step.completed" || event.snapshot === undefined) continue;
    const store = `--git-dir=${project.path(".perdure", "snapshots.git")}`;
    trees[event.step] = git(project.dir, store, "rev-parse", `${event.snapshot.commit}^{tree}`);
  }
  // Which of the two that run at the same time was merged last shows in neither.
  const root =
    name === "here" ? project.dir : project.path(".perdure", "runs", run?.runId ?? "", "workspace");
  return { trees, files: filesOf(root), users: usersOf(project) };
}

function filesOf(root: string): Readonly<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const name of fs.readdirSync(root, { recursive: true, encoding: "utf8" })) {
    if (/^(\.git|\.perdure)(\/|$)/.test(name)) continue;
    const path = join(root, name);
    const facts = fs.lstatSync(path);
    if (facts.isSymbolicLink()) files[name] = `-> ${fs.readlinkSync(path)}`;
    else if (facts.isDirectory()) files[name] = "directory";
    else {
      const mode = (facts.mode & 0o111) === 0 ? "" : "x ";
      files[name] = `${mode}${fs.readFileSync(path, "utf8")}`;
    }
  }
  return files;
}

async function walked<T>(
  name: string,
  nth: number | undefined,
  body: (project: Project, passed: readonly string[]) => Promise<T>,
): Promise<T> {
  const project = new Project();
  try {
    userRepository(project, PIPELINES[name] ?? "");
    const log = `${project.dir}.failpoints`;
    const env: Record<string, string> = { PERDURE_FAILPOINT_LOG: log };
    if (nth !== undefined) env.PERDURE_FAILPOINT = String(nth);
    const result = await project.run(["run", "p.yaml"], { env });
    const passed = fs.readFileSync(log, "utf8").split("\n").slice(0, -1);
    fs.rmSync(log);
    const where = `${name}, killed at ${passed.at(-1)} (failpoint ${nth})`;
    if (nth !== undefined) {
      expect(result.signal, where).toBe("SIGKILL");
      const again = (await storedRuns(project)).length === 0 ? ["run", "p.yaml"] : ["resume"];
      const resumed = await project.run(again);
      expect(
        { exit: resumed.exit, said: resumed.exit === 0 ? "" : resumed.stdout + resumed.stderr },
        where,
      ).toEqual({ exit: 0, said: "" });
    } else expect(result.exit, result.stdout + result.stderr).toBe(0);
    await eventually(`${where}: no process is left`, () => project.stepProcesses().length === 0);
    return await body(project, passed);
  } finally {
    await project.remove();
  }
}

/**
 * Where to strike: by turns the first and the last passing of every third failpoint about files; the
 * pipelines take turns as well.
 */
function strikes(passed: readonly string[], turn: number): readonly number[] {
  const names = passed.map((name, index) => ({ name, nth: index + 1 }));
  const ours = names.filter(({ name }) => name.startsWith("workspace."));
  if (CRASH_ALL) return ours.map(({ nth }) => nth);
  return [...new Set(ours.map(({ name }) => name))]
    .filter((_, index) => index % 3 === turn % 3)
    .map((name, index) => {
      return 1 + (index % 2 === 0 ? passed.indexOf(name) : passed.lastIndexOf(name));
    });
}

describe.each(Object.keys(PIPELINES))("%s", (name) => {
  it(
    "leaves the same files when it is killed wherever it touches them",
    async () => {
      const { whole, passed } = await walked(name, undefined, async (project, points) => ({
        whole: await outcomeOf(project, name),
        passed: points,
      }));
      expect(whole.users.fsck).toBe("");
      const todo = [...strikes(passed, Object.keys(PIPELINES).indexOf(name))];
      const lane = async (): Promise<void> => {
        for (let nth = todo.shift(); nth !== undefined; nth = todo.shift()) {
          const where = `${name}, killed at ${passed[nth - 1]} (failpoint ${nth})`;
          const outcome = await walked(name, nth, async (project) => outcomeOf(project, name));
          expect(outcome, where).toEqual(whole);
        }
      };
      await Promise.all(Array.from({ length: LANES }, lane));
    },
    WALK_MS,
  );
});
