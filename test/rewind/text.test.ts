/** What going back, comparing and taking back say, word for word. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { normalised } from "../rig/project.ts";
import { Repo } from "./rig.ts";

async function said(repo: Repo, ...args: readonly string[]): Promise<string> {
  const { exit, stdout, stderr } = await repo.run(...args);
  const text = `${stdout}${stderr === "" ? "" : `--- stderr\n${stderr}`}[exit ${exit}]\n`;
  return normalised(text, repo.project)
    .replaceAll(/\b[0-9a-f]{10}\b/g, "c0ffeec0de")
    .replaceAll(/"snapshot": "[0-9a-f]{40}"/g, '"snapshot": "c0ffeec0de"');
}

/** The snapshot that a completed step left. */
async function snapshotAfter(repo: Repo, id: string, step: string): Promise<string> {
  const { checkpoints } = JSON.parse(await repo.must("timeline", id, "--json")) as {
    checkpoints: { step: string | null; type: string; snapshot: string }[];
  };
  const made = checkpoints.find((one) => one.step === step && one.type === "step.completed");
  return made?.snapshot.slice(0, 10) ?? "";
}

it("rewind and its refusals", async () => {
  const repo = new Repo();
  const id = await repo.made("independent", "worktree");
  expect(await said(repo, "rewind", id, "b", "--dry-run")).toMatchInlineSnapshot(`
    "runs again: b, d
    kept: a, c
    files: the files are restored to the snapshot before b@1, with what c did since; the present ones are set aside
    [exit 0]
    "
  `);
  expect(await said(repo, "rewind", id, "b")).toMatchInlineSnapshot(`
    "runs again: b, d
    kept: a, c
    files: the files are restored to the snapshot before b@1, with what c did since; the present ones are set aside
    set aside: c0ffeec0de   (restore it: perdure rewind 1a2b3c4d c0ffeec0de)
    Run 1a2b3c4d (independent) was stopped by perdure rewind.
    2 of 4 steps completed: a, c; next: b.
    Continue: perdure resume 1a2b3c4d
    [exit 0]
    "
  `);
  expect(await said(repo, "resume", id, "--from-step", "d", "--dry-run")).toMatchInlineSnapshot(`
    "STEP  RESUME WILL  BECAUSE
    a     reuse        it completed; its result is kept
    b     reuse        it has not completed, but is treated as completed: you continue from d
    c     reuse        it completed; its result is kept
    d     run          you asked to continue from here
    files: the files are restored to the snapshot before d@1; the present ones are set aside
    [exit 0]
    "
  `);
  await repo.must("resume", id, "--quiet");
  expect(await said(repo, "rewind", id, "b@1", "--dry-run")).toMatchInlineSnapshot(`
    "runs again: b, d
    kept: a, c
    files: the files are restored to the snapshot before b@1, with what c did since; the present ones are set aside
    [exit 0]
    "
  `);
  expect(await said(repo, "rewind", id, "d", "--files", "keep")).toMatchInlineSnapshot(`
    "runs again: d
    kept: a, b, c
    files: the files stay as they are
    Run 1a2b3c4d (independent) was stopped by perdure rewind.
    3 of 4 steps completed: a, b, c; next: d.
    Continue: perdure resume 1a2b3c4d
    [exit 0]
    "
  `);
  expect(await said(repo, "rewind", id, "d@7")).toMatchInlineSnapshot(`
    "--- stderr
    error: step d has had 2 visits: there is no d@7
      next: perdure show 1a2b3c4d
    [exit 2]
    "
  `);
  expect(await said(repo, "rewind", id, "nobody")).toMatchInlineSnapshot(`
    "--- stderr
    error: run 1a2b3c4d has no step nobody; its steps are a, b, c, d
      next: perdure show 1a2b3c4d
    [exit 2]
    "
  `);
  expect(await said(repo, "rewind", id, "b@1.1")).toMatchInlineSnapshot(`
    "--- stderr
    error: b@1.1 is an attempt; name a step or a visit of it
      next: perdure rewind 1a2b3c4d b@1
            its files alone: perdure rewind 1a2b3c4d c0ffeec0de
    [exit 2]
    "
  `);
  expect(await said(repo, "rewind", id, "b", "--files", "some")).toMatchInlineSnapshot(`
    "--- stderr
    error: --files takes keep or restore, not "some"
    [exit 2]
    "
  `);
});

it("in the user's own directory, what is overwritten is shown first", async () => {
  const repo = new Repo();
  const id = await repo.made("sequential", "here");
  writeFileSync(join(repo.dir, "log.txt"), "edited by hand\n");
  expect(
    await said(repo, "resume", id, "--from-step", "b", "--files", "restore"),
  ).toMatchInlineSnapshot(`
    "Resuming run 1a2b3c4d-(uuid) of sequential from step 2 of 3: b
    If it is interrupted: perdure resume 1a2b3c4d
    runs again: b, c
    kept: a
    files: the files are restored to the snapshot before b@1; the present ones are set aside
      overwrites log.txt
      removes c.txt
    ● resumed
    ● continuing from b
    ● the files were restored to c0ffeec0de; the files before are kept as c0ffeec0de
    ▶ b started (visit 2)
    ✓ b completed in 5ms
    ▶ c started (visit 2)
    ✓ c completed in 5ms
    ✓ Run 1a2b3c4d (sequential) completed in 5ms.
      3 steps
      Details: perdure show 1a2b3c4d
    [exit 0]
    "
  `);
  const snapshot = await snapshotAfter(repo, id, "a");
  expect(await said(repo, "rewind", id, snapshot)).toMatchInlineSnapshot(`
    "  overwrites log.txt
      removes c.txt
    --- stderr
    error: these are your own files; nothing was changed
      next: perdure rewind 1a2b3c4d c0ffeec0de --files restore
    [exit 2]
    "
  `);
  expect(await said(repo, "rewind", id, snapshot, "--files", "restore")).toMatchInlineSnapshot(`
    "  overwrites log.txt
      removes c.txt
    set aside: c0ffeec0de   (restore it: perdure rewind 1a2b3c4d c0ffeec0de --files restore)
    Run 1a2b3c4d (sequential) completed in 5ms.
    3 of 3 steps completed: a, b, c.
    Details: perdure show 1a2b3c4d   (a new run: perdure run DIR/p.yaml)
    [exit 0]
    "
  `);
  expect(repo.files("here", id)).toEqual({ "log.txt": "one\na\n", "a.txt": "a\n" });
});

it("what was set aside can be shown and taken back", async () => {
  const repo = new Repo();
  const id = await repo.made("sequential", "worktree");
  const place = repo.place("worktree", id);
  writeFileSync(join(place, "by-hand.txt"), "precious\n");
  const reported = await repo.must("rewind", id, "b");
  const aside = /set aside: ([0-9a-f]+)/.exec(reported)?.[1] ?? "";
  expect(repo.files("worktree", id)).not.toHaveProperty("by-hand.txt");
  expect(await said(repo, "diff", id, aside, "now")).toMatchInlineSnapshot(`
    "c0ffeec0de -> now: 3 files changed, -4
      D by-hand.txt  -1
      D c.txt        -1
      M log.txt      -2
    [exit 0]
    "
  `);
  await repo.must("rewind", id, aside);
  expect(readFileSync(join(place, "by-hand.txt"), "utf8")).toBe("precious\n");
  await repo.must("rewind", id, "b", "--into", repo.project.path("elsewhere"));
  expect(readFileSync(repo.project.path("elsewhere", "log.txt"), "utf8")).toBe("one\na\n");
  expect(
    await said(repo, "rewind", id, "b", "--into", repo.project.path("elsewhere")),
  ).toMatchInlineSnapshot(`
    "--- stderr
    error: DIR/elsewhere is not empty
      next: perdure rewind 1a2b3c4d b --into NEW-DIR
    [exit 2]
    "
  `);
});

it("fork, and who keeps whose files", async () => {
  const repo = new Repo();
  const file = repo.project.path("p.yaml");
  writeFileSync(
    file,
    `name: greet
workspace: worktree
input: { type: object, properties: { who: { type: string } } }
steps:
  - id: make
    run: echo made > made.txt
    outputs: { made: made.txt }
  - id: greet
    run: cat \${{ outputs.make.made }}; echo hello \${{ input.who }} | tee greeting.txt
`,
  );
  await repo.must("run", file, "-i", "who=ann", "--quiet");
  const [id = ""] = repo.ids();
  expect(
    await said(repo, "fork", id, "--at", "greet", "-i", "who=bob", "--dry-run"),
  ).toMatchInlineSnapshot(`
    "files: the fork starts with the snapshot before greet@1, in a workspace of its own
    [exit 0]
    "
  `);
  expect(
    await said(repo, "fork", id, "--at", "greet", "-i", "who=bob", "--start"),
  ).toMatchInlineSnapshot(`
    "files: the fork starts with the snapshot before greet@1, in a workspace of its own
    Run 1a2b3c4d-(uuid) was forked from 1a2b3c4d, before greet@1
    The run's worktree lacks 2 uncommitted files: mine.txt, untracked.txt (to include them: include: uncommitted)
    Resuming run 1a2b3c4d-(uuid) of greet from step 2 of 2: greet
    If it is interrupted: perdure resume 1a2b3c4d
    ● the files were restored to c0ffeec0de; the files before are kept as c0ffeec0de
    ▶ greet started
    greet │ made
    greet │ hello bob
    ✓ greet completed in 5ms
    ✓ Run 1a2b3c4d (greet) completed in 5ms.
      2 steps
      Details: perdure show 1a2b3c4d
      branch  perdure/1a2b3c4d: 2 commits, 2 files, +2 -0, nothing uncommitted
      files   DIR/repo/.perdure/runs/1a2b3c4d-(uuid)/workspace
      look    git diff main...perdure/1a2b3c4d
      take    perdure merge 1a2b3c4d   (or: apply, pr)
    [exit 0]
    "
  `);
  const [fork = ""] = repo.ids();
  expect(repo.files("worktree", fork)).toMatchObject({ "greeting.txt": "hello bob\n" });
  expect(repo.files("worktree", id)).toMatchObject({ "greeting.txt": "hello ann\n" });
  expect(await said(repo, "show", fork)).toMatchInlineSnapshot(`
    "run          1a2b3c4d-(uuid)
    pipeline     greet
    file         DIR/p.yaml
    forked from  1a2b3c4d-(uuid), event 6
    status       completed
    started      2026-01-02 03:04:05 UTC
    elapsed 5ms
    cwd          DIR/repo
    input        {"who":"bob"}

      STEP   STATE      ATTEMPTS  ELAPSED  RESULT
    ✓ make   completed  1 5ms exit 0
    ✓ greet  completed  1 5ms exit 0

    outputs
      make.made  DIR/repo/.perdure/runs/1a2b3c4d-(uuid)/workspace/made.txt  5 bytes  sha256 0123456789ab

    Run 1a2b3c4d (greet) completed in 5ms.
    2 of 2 steps completed: make, greet.
    A new run: perdure run DIR/p.yaml -i '{"who":"bob"}'
      branch  perdure/1a2b3c4d: 2 commits, 2 files, +2 -0, nothing uncommitted
      files   DIR/repo/.perdure/runs/1a2b3c4d-(uuid)/workspace
      look    git diff main...perdure/1a2b3c4d
      take    perdure merge 1a2b3c4d   (or: apply, pr)
    [exit 0]
    "
  `);
  expect(await said(repo, "fork", id, "--at", "greet@9")).toMatchInlineSnapshot(`
    "--- stderr
    error: greet@9 has not run yet, so there is nothing to fork from
      next: perdure show 1a2b3c4d
    [exit 2]
    "
  `);
  expect(await said(repo, "fork", fork)).toMatchInlineSnapshot(`
    "files: the fork starts with the snapshot after greet@1, in a workspace of its own
    Run 1a2b3c4d-(uuid) was forked from 1a2b3c4d, after greet@1
    Start it: perdure resume 1a2b3c4d
    [exit 0]
    "
  `);
  expect(await said(repo, "clean", id)).toMatchInlineSnapshot(`
    "1a2b3c4d  kept: run 1a2b3c4d was forked from it and uses its files
    [exit 0]
    "
  `);
  const head = JSON.parse(
    readFileSync(join(repo.dir, ".perdure", "runs", fork, "checkpoint.json"), "utf8"),
  ) as unknown;
  expect(head).toMatchObject({ forked_from: { run_id: id } });
});

it("diff and timeline", async () => {
  const repo = new Repo();
  const file = repo.project.path("p.yaml");
  writeFileSync(
    file,
    `name: two
workspace: worktree
steps:
  - id: a
    run: echo a > a.txt; echo x=1 >> "$PERDURE_CONTEXT"
  - id: b
    run: echo b >> a.txt; rm log.txt; echo x=2 >> "$PERDURE_CONTEXT"; echo y=1 >> "$PERDURE_CONTEXT"
`,
  );
  await repo.must("run", file, "--quiet");
  const [id = ""] = repo.ids();
  expect(await said(repo, "diff", id, "b@1.1")).toMatchInlineSnapshot(`
    "before b@1 -> b@1.1: 2 files changed, +1 -1
      M a.txt    +1
      D log.txt  -1
    context: added y; changed x
    [exit 0]
    "
  `);
  expect(await said(repo, "diff", id, "base", "now")).toMatchInlineSnapshot(`
    "base -> now: 2 files changed, +2 -1
      A a.txt    +2
      D log.txt  -1
    context: added x, y
    [exit 0]
    "
  `);
  expect(await said(repo, "diff", id, "b", "a", "--patch")).toMatchInlineSnapshot(`
    "diff --git a/a.txt b/a.txt
    index 422c2b7ab3b3c668038da977e4e93a5fc623169c..78981922613b2afb6025042ff6bd878ac1994e85 100644
    --- a/a.txt
    +++ b/a.txt
    @@ -1,2 +1 @@
     a
    -b
    diff --git a/log.txt b/log.txt
    new file mode 100644
    index 0000000000000000000000000000000000000000..5626abf0f72e58d7a153368ba57db4c673c0e171
    --- /dev/null
    +++ b/log.txt
    @@ -0,0 +1 @@
    +one
    --- stderr
    b@1.1 -> a@1.1: 2 files changed, +1 -1
    context: changed x; removed y
    [exit 0]
    "
  `);
  expect(await said(repo, "diff", id, "a@1", "b@1", "--json")).toMatchInlineSnapshot(`
    "{
      "schema_version": 1,
      "run_id": "1a2b3c4d-(uuid)",
      "from": {
        "name": "a@1.1",
        "sequence": 6,
        "snapshot": "c0ffeec0de"
      },
      "to": {
        "name": "b@1.1",
        "sequence": 9,
        "snapshot": "c0ffeec0de"
      },
      "files": [
        {
          "path": "a.txt",
          "from": null,
          "status": "changed",
          "binary": false,
          "added": 1,
          "removed": 0
        },
        {
          "path": "log.txt",
          "from": null,
          "status": "removed",
          "binary": false,
          "added": 0,
          "removed": 1
        }
      ],
      "context": {
        "added": {
          "y": "1"
        },
        "changed": {
          "x": {
            "from": "1",
            "to": "2"
          }
        },
        "removed": []
      },
      "patch": null,
      "patch_cut": false
    }
    [exit 0]
    "
  `);
  expect(await said(repo, "diff", id, "b@2")).toMatchInlineSnapshot(`
    "--- stderr
    error: there is no b@2; there are b@1.1
      next: perdure show 1a2b3c4d
    [exit 2]
    "
  `);
  expect(await said(repo, "diff", id, "nothing")).toMatchInlineSnapshot(`
    "--- stderr
    error: run 1a2b3c4d has no step nothing; its steps are a, b
      next: perdure show 1a2b3c4d
    [exit 2]
    "
  `);
  await repo.must("rewind", id, "b");
  expect(await said(repo, "timeline", id)).toMatchInlineSnapshot(`
    "TIME (UTC)           CHECKPOINT  OUTCOME    SNAPSHOT    FILES  LINES
    2026-01-02 03:04:05  run         created
    2026-01-02 03:04:05  run         placed                               worktree DIR/repo/.perdure/runs/1a2b3c4d-(uuid)/workspace
    2026-01-02 03:04:05  a@1.1       completed  c0ffeec0de  1      +1
    2026-01-02 03:04:05  run         committed                            a@1 as c0ffeec0de
    2026-01-02 03:04:05  b@1.1       completed  c0ffeec0de  2      +1 -1
    2026-01-02 03:04:05  run         committed                            b@1 as c0ffeec0de
    2026-01-02 03:04:05  run         completed
    2026-01-02 03:04:05  run         rewound                              to b; runs again: b
    2026-01-02 03:04:05  run         restored   c0ffeec0de  2      +1 -1  c0ffeec0de holds the files before
    2026-01-02 03:04:05  run         stopped                              by perdure rewind
    [exit 0]
    "
  `);
  const { checkpoints } = JSON.parse(await repo.must("timeline", id, "--json")) as {
    checkpoints: { outcome: string }[];
  };
  expect(checkpoints.map(({ outcome }) => outcome)).toEqual([
    "created",
    "placed",
    "completed",
    "committed",
    "completed",
    "committed",
    "completed",
    "rewound",
    "restored",
    "stopped",
  ]);
});
