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
import { type KillPlace, killAtEach } from "../rig/kill-walk.ts";
import { WALK_MS } from "../rig/patience.ts";
import { eventually, Project } from "../rig/project.ts";
import { storedRuns } from "./canonical.ts";

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
  const textOf = (...names: readonly string[]): string =>
    fs.readFileSync(join(dir, ".git", ...names), "utf8");
  return {
    head: textOf("refs", "heads", "main"),
    branch: textOf("HEAD"),
    index: git(dir, "ls-files", "-s"),
    stash: textOf("logs", "refs", "stash"),
    reflog: textOf("logs", "HEAD"),
    config: textOf("config"),
    untracked: fs.readFileSync(join(dir, "untracked"), "utf8"),
    ignored: fs.readFileSync(join(dir, "ignored"), "utf8"),
    fsck: git(dir, "fsck", "--strict", "--no-dangling"),
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

async function inProject<T>(name: string, body: (project: Project) => Promise<T>): Promise<T> {
  const project = new Project();
  try {
    userRepository(project, PIPELINES[name] ?? "");
    return await body(project);
  } finally {
    await project.remove();
  }
}

/** Starts the run, or continues it if there is one, until it ends or this failpoint ends it. */
async function walk(
  project: Project,
  place: string | undefined,
  where: string,
): Promise<{ readonly isKilled: boolean; readonly passed: readonly string[] }> {
  const log = `${project.dir}.failpoints`;
  const env: Record<string, string> = { PERDURE_FAILPOINT_LOG: log };
  if (place !== undefined) env.PERDURE_FAILPOINT = place;
  const args = (await storedRuns(project)).length === 0 ? ["run", "p.yaml"] : ["resume"];
  const { exit, signal, stdout, stderr } = await project.run(args, { env });
  const passed = fs.readFileSync(log, "utf8").split("\n").slice(0, -1);
  fs.rmSync(log);
  const isKilled = signal === "SIGKILL";
  if (isKilled) return { isKilled, passed };
  expect({ exit, said: exit === 0 ? "" : stdout + stderr }, where).toEqual({ exit: 0, said: "" });
  await eventually(`${where}: no process is left`, () => project.stepProcesses().length === 0);
  return { isKilled, passed };
}

/**
 * Where to strike: by turns the first and the last passing of every third failpoint about files; the
 * pipelines take turns as well.
 */
function strikes(passed: readonly string[], turn: number): readonly KillPlace[] {
  const places = passed.map((name, index) => ({ name, nth: index + 1 }));
  const ours = places.filter(({ name }) => name.startsWith("workspace."));
  if (CRASH_ALL) return ours;
  return [...new Set(ours.map(({ name }) => name))]
    .filter((_, index) => index % 3 === turn % 3)
    .map((name, index) => {
      const nth = 1 + (index % 2 === 0 ? passed.indexOf(name) : passed.lastIndexOf(name));
      return { name, nth };
    });
}

describe.each(Object.keys(PIPELINES))("%s", (name) => {
  it(
    "leaves the same files when it is killed at any failpoint of its files",
    async () => {
      const { whole, passed } = await inProject(name, async (project) => {
        const walked = await walk(project, undefined, name);
        return { whole: await outcomeOf(project, name), passed: walked.passed };
      });
      expect(whole.users.fsck).toBe("");
      const places = strikes(passed, Object.keys(PIPELINES).indexOf(name));
      await killAtEach(places, (body) =>
        inProject(name, (project) =>
          body({
            drive: async (place, where) => {
              const walked = await walk(project, place, `${name}, ${where}`);
              return walked.isKilled ? walked.passed.at(-1) : undefined;
            },
            check: async (where) => {
              expect(await outcomeOf(project, name), `${name}, ${where}`).toEqual(whole);
            },
          }),
        ),
      );
    },
    WALK_MS,
  );
});
