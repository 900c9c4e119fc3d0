/** The suggestions of a refusal about files or git work, after doing what they say. */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { it } from "vitest";
import { Project, type Result } from "../rig/project.ts";
import { follow, SHOW_CODES, type Situation } from "../rig/suggestion.ts";
import { userGit } from "../workspace/rig.ts";

let project: Project;
let env: Record<string, string>;

const SITE = {
  open: () => {
    project = new Project();
    fs.mkdirSync(project.path("home"));
    env = { ...SHOW_CODES, HOME: project.path("home") };
  },
  perdure: (words: readonly string[]) => perdure(words),
  project: () => project,
  close: () => project.remove(),
};

async function perdure(
  words: readonly string[],
  more: Readonly<Record<string, string>> = {},
): Promise<Result> {
  return project.run(words, { env: { ...env, ...more } });
}

function write(workspace: string, run = "true"): void {
  project.write("p.yaml", `workspace: ${workspace}\nsteps:\n  - { id: one, run: "${run}" }\n`);
}

function commit(): void {
  userGit(project.dir, "commit", "-q", "--allow-empty", "-m", "first");
}

function initRepository(): void {
  userGit(project.dir, "init", "-q", "-b", "main");
  commit();
}

/** A run that failed in this workspace; gives the path of one of its own. */
async function failedIn(workspace: string): Promise<string> {
  initRepository();
  write(workspace, `test -e '${project.path("ready")}'`);
  await perdure(["run", "p.yaml"]);
  return project.path(".perdure", "runs", await project.newestId(), "workspace");
}

const resume = async (): Promise<Result> => perdure(["resume", await project.newestId()]);

const getReady = (): void => {
  project.write("ready", "");
};

/** A PATH with a `git` that does nothing but this, except for saying its version. */
function faultyGit(script: string): string {
  fs.mkdirSync(project.path("bin"));
  const git = execFileSync("/bin/sh", ["-c", "command -v git"], { encoding: "utf8" }).trim();
  const text = `#!/bin/sh\ncase "$*" in *--version*) exec ${git} "$@";; esac\n${script}\n`;
  fs.writeFileSync(project.path("bin", "git"), text, { mode: 0o755 });
  return `${project.path("bin")}:${process.env.PATH ?? ""}`;
}

/** A run in a worktree, with a `git` that does this. */
function withGit(script: string): Promise<Result> {
  initRepository();
  write("worktree");
  return perdure(["run", "p.yaml"], { PATH: faultyGit(script) });
}

const SITUATIONS: Readonly<Record<string, Situation>> = {
  "a worktree without git": {
    code: "files-git-missing",
    meet: () => {
      initRepository();
      write("worktree");
      return perdure(["run", "p.yaml"], { PATH: "/nowhere" });
    },
  },
  "a worktree of a directory without a repository": {
    code: "files-path-taken",
    meet: () => {
      write("worktree");
      return perdure(["run", "p.yaml"]);
    },
    first: initRepository,
  },
  "a worktree of a repository without a commit": {
    code: "files-snapshot-missing",
    meet: () => {
      userGit(project.dir, "init", "-q");
      write("worktree");
      return perdure(["run", "p.yaml"]);
    },
    first: commit,
  },
  "a repository of another user": {
    code: "files-not-trusted",
    meet: () => withGit("echo 'fatal: detected dubious ownership in repository' >&2; exit 128"),
  },
  "git that fails": { code: "files-git-failed", meet: () => withGit("exit 1") },
  "git that is killed": { code: "files-git-killed", meet: () => withGit("kill -KILL $$") },
  "a workspace that somebody else changed": {
    code: "files-changed-by-others",
    meet: async () => {
      const workspace = await failedIn("worktree");
      fs.writeFileSync(`${workspace}/by-hand`, "");
      return resume();
    },
    first: getReady,
  },
  "a branch that is checked out elsewhere": {
    code: "files-branch-taken",
    meet: async () => {
      const workspace = await failedIn("worktree");
      const branch = userGit(workspace, "branch", "--show-current").trim();
      fs.rmSync(workspace, { recursive: true });
      userGit(project.dir, "worktree", "prune");
      userGit(project.dir, "switch", "-q", branch);
      return resume();
    },
    first: () => {
      getReady();
      userGit(project.dir, "switch", "-q", "--detach");
    },
  },
  "snapshots of another version": {
    code: "files-store-unknown",
    meet: async () => {
      await failedIn("here");
      const about = project.path(".perdure", "snapshots.git", "perdure.json");
      const text = fs.readFileSync(about, "utf8");
      fs.writeFileSync(about, text.replace(/"version": ?\d+/, '"version": 99'));
      return resume();
    },
    first: () => {
      getReady();
      fs.rmSync(project.path(".perdure", "snapshots.git"), { recursive: true });
    },
  },
};

it.each(Object.entries(SITUATIONS))("%s", async (_, situation) => follow(situation, SITE));
