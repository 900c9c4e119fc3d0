/**
 * Kills that take git as well: at its n-th call git makes the mess that a kill in the middle of its
 * own work leaves, and the runner dies with it. Whatever n is, resume completes the run.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { CRASH_ALL } from "../rig/crash-all.ts";
import { Project } from "../rig/project.ts";
import { gitProject, userGit, write } from "./rig.ts";

/** More git calls than any of these runs makes. */
const CALLS_MAX = 300;

/** A git in front of the real one, which costs little: it only counts the calls until call N. */
const FAKE = `#!/bin/sh
dir=\${0%/*}
PATH=\${PATH#"$dir":}
[ -e "$dir/at" ] || exec git "$@"
# Only our own calls count, not those of steps.
[ "\${PERDURE_STEP:-}" = "" ] || exec git "$@"
printf x >> "$dir/calls"
read -r calls < "$dir/calls"
read -r at < "$dir/at"
[ "\${#calls}" = "$at" ] || exec git "$@"
exec bash "$dir/die" "$dir" "$@"
`;

/**
 * What call N is: it leaves the locks and half-made files of the command, then kills its parent and
 * itself.
 */
const DIE = `
dir=$1
shift
rm "$dir/at"
words=()
skip=""
for word in "$@"; do
  if [ "$skip" ]; then skip=""; continue; fi
  case $word in -c) skip=1 ;; *) words+=("$word") ;; esac
done
[ -z "\${GIT_INDEX_FILE:-}" ] || touch "$GIT_INDEX_FILE.lock"
[ -z "\${GIT_OBJECT_DIRECTORY:-}" ] || {
  mkdir -p "$GIT_OBJECT_DIRECTORY/00"
  echo half > "$GIT_OBJECT_DIRECTORY/00/tmp_obj_half"
  echo half > "$GIT_OBJECT_DIRECTORY/pack/tmp_pack_half"
}
common=$(git rev-parse --git-common-dir 2> /dev/null)
echo "\${words[*]:0:2}" >> "$dir/killed"
case "\${words[*]:0:2}" in
  "branch "*)
    name=\${words[-2]}
    [ "\${words[2]}" = -D ] && name=\${words[-1]}
    mkdir -p "$common/refs/heads/$(dirname "$name")"
    touch "$common/refs/heads/$name.lock" ;;
  "worktree add")
    git "$@"
    path=\${words[-2]}
    : > "$path/.git"
    find "$path" -mindepth 1 ! -name .git -delete
    for entry in "$common"/worktrees/*; do
      [ "$(cat "$entry/gitdir")" = "$path/.git" ] && touch "$entry/index.lock" "$entry/HEAD.lock"
    done ;;
  "reset -q" | "update-ref --no-deref" | "symbolic-ref HEAD")
    own=$(git rev-parse --absolute-git-dir)
    touch "$own/index.lock" "$own/HEAD.lock" ;;
esac
kill -9 "$PPID"
kill -9 $$
`;

let project: Project;
beforeEach(() => {
  const files = { ".gitignore": "effects\nbin/\n*.yaml\n", "a.txt": "a\n", "d/b.txt": "b\n" };
  project = new Project(gitProject(files));
  write(project.dir, { "bin/git": FAKE, "bin/die": DIE });
  fs.chmodSync(project.path("bin", "git"), 0o755);
});
afterEach(() => project.remove());

const WHO = {
  GIT_AUTHOR_NAME: "t",
  GIT_AUTHOR_EMAIL: "t@example.org",
  GIT_COMMITTER_NAME: "t",
  GIT_COMMITTER_EMAIL: "t@example.org",
};

/** Runs the pipeline with git killed at its n-th call; gives the commands that were killed. */
async function runKilledAt(n: number): Promise<readonly string[]> {
  const env = { ...WHO, PATH: `${project.path("bin")}:${process.env.PATH}` };
  fs.rmSync(project.path("effects"), { force: true });
  fs.rmSync(project.path("bin", "calls"), { force: true });
  fs.rmSync(project.path("bin", "killed"), { force: true });
  fs.writeFileSync(project.path("bin", "at"), `${n}\n`);
  const before = (await project.runIds()).length;
  const first = await project.run(["run", "p.yaml"], { env });
  const killed = project.exists("bin", "killed");
  fs.rmSync(project.path("bin", "at"), { force: true });
  if (first.signal === "SIGKILL") {
    const began = (await project.runIds()).length > before;
    // A run that died before it was recorded is simply begun again.
    const again = began ? ["resume"] : ["run", "p.yaml"];
    const resumed = await project.run(again, { env });
    const words = `killed at ${project.read("bin", "killed")}${resumed.stdout}${resumed.stderr}`;
    // The last calls only look at the result of a run that is over.
    const isOver = words.includes("there is no unfinished run here");
    expect(resumed.exit, words).toBe(isOver ? 2 : 0);
  } else expect(first.exit, first.stdout + first.stderr).toBe(0);
  return killed ? project.read("bin", "killed").trim().split("\n") : [];
}

const PIPELINES = {
  here: `
name: p
steps:
  - { id: one, run: "echo one > one; rm -f d/b.txt; echo one >> effects" }
  - { id: two, workspace: own, run: "cat one > two; echo two >> EFFECTS" }
`,
  worktree: `
name: p
workspace: worktree
steps:
  - { id: one, run: "echo one > one; git add one; git commit -qm one; echo one >> EFFECTS" }
  - { id: two, retry: 2, run: "cat one > two; echo two >> EFFECTS; test $(grep -c two EFFECTS) = 2" }
`,
};

/** Nothing of any of the runs is left when they are cleaned. */
async function expectCleaned(): Promise<void> {
  await project.must(["clean", ...(await project.runIds()), "--force"]);
  expect(userGit(project.dir, "worktree", "list").trim().split("\n")).toHaveLength(1);
  expect(userGit(project.dir, "branch", "--list", "perdure/*")).toBe("");
}

it.each([
  ["here", { one: 1, two: 1 }],
  ["worktree", { one: 1, two: 2 }],
] as const)(
  "git killed with the runner at any of its calls bricks no run: %s",
  { timeout: 900_000 },
  async (kind, effects) => {
    const yaml = PIPELINES[kind].replaceAll("EFFECTS", project.path("effects"));
    project.write("p.yaml", yaml);
    const commands = new Set<string>();
    const stride = CRASH_ALL ? 1 : 11;
    for (let n = 1; n <= CALLS_MAX; n += stride) {
      const killed = await runKilledAt(n);
      for (const command of killed) commands.add(command);
      // A step is never done twice: each attempt that began is counted once.
      expect(project.effects(), `call ${n}: ${killed.join()}`).toEqual(effects);
      userGit(project.dir, "checkout", "-q", "--", ".");
      fs.rmSync(project.path("one"), { force: true });
      fs.rmSync(project.path("two"), { force: true });
      if (killed.length === 0) {
        expect(commands.size).toBeGreaterThan(3);
        await expectCleaned();
        return;
      }
    }
    throw new Error("there is no end of git calls");
  },
);

it("a lock that a kill left in the run's worktree is removed by doctor and by resume", async () => {
  const go = project.path("go");
  project.write(
    "p.yaml",
    `
workspace: worktree
steps:
  - { id: one, run: "test -e ${go} || exit 1; echo one > one; git add one; git commit -qm one" }
`,
  );
  expect((await project.run(["run", "p.yaml"], { env: WHO })).exit).toBe(3);
  const [id = ""] = await project.runIds();
  const entry = project.path(".git", "worktrees", "workspace");
  const locks = [
    join(entry, "index.lock"),
    join(entry, "HEAD.lock"),
    project.path(".git", "refs", "heads", "perdure", `${id.slice(0, 8)}.lock`),
  ];
  const long = new Date(Date.now() - 3_600_000);
  for (const lock of locks) {
    fs.writeFileSync(lock, "");
    fs.utimesSync(lock, long, long);
  }
  const found = await project.must(["doctor"]);
  for (const lock of locks) expect(found).toContain(`a kill left a lock: ${lock}`);
  await project.must(["doctor", "--repair"]);
  expect(locks.filter((lock) => fs.existsSync(lock))).toEqual([]);
  for (const lock of locks) fs.writeFileSync(lock, "");
  fs.writeFileSync(go, "");
  await project.must(["resume", id], { env: WHO });
  expect(locks.filter((lock) => fs.existsSync(lock))).toEqual([]);
});

it("a git that is killed is reported as that, with the command that continues", async () => {
  project.write("p.yaml", 'steps: [{ id: one, run: "echo one > one" }]\n');
  const bin = project.path("bin", "git");
  fs.writeFileSync(
    bin,
    '#!/bin/bash\nPATH=${PATH#*:}\n[[ $* == *ls-files* ]] && kill -9 $$\nexec git "$@"\n',
  );
  const env = { PATH: `${project.path("bin")}:${process.env.PATH}` };
  const { exit, stderr } = await project.run(["run", "p.yaml"], { env });
  const [id = ""] = await project.runIds();
  expect(exit, stderr).toBe(1);
  expect(stderr).toContain("git ls-files was ended by SIGKILL");
  expect(stderr).toContain(`perdure resume ${id.slice(0, 8)}`);
  await project.must(["resume", id.slice(0, 8)]);
});
