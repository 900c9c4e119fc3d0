/**
 * The texts that people read, word for word. Ids, times, durations and paths are replaced by names.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, it } from "vitest";
import { KeptProject } from "../rig/kept-project.ts";
import { normalised, Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new Project(mkdtempSync(join(tmpdir(), "perdure-text-")));
});
afterEach(() => project.remove());

/** A project with the runs of bad.yaml and good.yaml. */
let kept: KeptProject | undefined;
afterAll(() => kept?.forget());

/** Puts these runs into the project of the test. */
async function twoRuns(): Promise<void> {
  if (kept !== undefined) {
    await project.remove();
    ({ project } = kept);
    return kept.putBack();
  }
  good();
  bad();
  await project.run(["run", "bad.yaml"]);
  await project.must(["run", "good.yaml", "-i", "target=all"]);
  kept = new KeptProject(project);
}

async function said(...args: readonly string[]): Promise<string> {
  const { exit, stdout, stderr } = await project.run(args);
  const text = `${stdout}${stderr === "" ? "" : `--- stderr\n${stderr}`}[exit ${exit}]\n`;
  return normalised(text, project).replaceAll(`${userInfo().username} adopted`, "USER adopted");
}

function good(): void {
  project.write(
    "good.yaml",
    `name: release
steps:
  - id: build
    run: |
      echo compiling
      echo binary > "$PERDURE_OUTPUT_APP"
      echo "size=7" >> "$PERDURE_CONTEXT"
    outputs: { app: out/app }
  - id: test
    run: echo "7 tests passed"
`,
  );
}

function bad(): void {
  project.write(
    "bad.yaml",
    `steps:
  - id: build
    run: echo compiling
  - id: test
    run: |
      echo "1 of 7 tests failed"
      test -e fixed
    retry: { attempts: 2, backoff: { initial: 10ms, jitter: 0 } }
  - id: ship
    run: echo shipping
`,
  );
}

it("run", async () => {
  good();
  expect(await said("run", "good.yaml")).toMatchInlineSnapshot(`
    "Run 1a2b3c4d-(uuid) of release (2 steps)
    If it is interrupted: perdure resume 1a2b3c4d
    ▶ build started
    build │ compiling
    ✓ build completed in 5ms
    ▶ test started
    test │ 7 tests passed
    ✓ test completed in 5ms
    ✓ Run 1a2b3c4d (release) completed in 5ms.
      2 steps
      Details: perdure show 1a2b3c4d
    [exit 0]
    "
  `);
});

it("run with a failure, why, show, logs, dry-run, resume", async () => {
  bad();
  expect(await said("run", "bad.yaml")).toMatchInlineSnapshot(`
    "Run 1a2b3c4d-(uuid) of bad (3 steps)
    If it is interrupted: perdure resume 1a2b3c4d
    ▶ build started
    build │ compiling
    ✓ build completed in 5ms
    ▶ test started (attempt 1 of 2)
    test │ 1 of 7 tests failed
    ✗ test failed: it exited with 1; next attempt in 5ms
    ▶ test started (attempt 2 of 2)
    test │ 1 of 7 tests failed
    ✗ test failed: it exited with 1
    ✗ Run 1a2b3c4d (bad) failed: step test (2 attempts): it exited with 1.
      1 of 3 steps completed: build; not completed: test (failed), ship.
      Fix the cause, then continue: perdure resume 1a2b3c4d
      Output: perdure logs 1a2b3c4d test
      Skip it: perdure skip 1a2b3c4d test
    [exit 3]
    "
  `);
  expect(await said("why")).toMatchInlineSnapshot(`
    "Run 1a2b3c4d (bad) failed: step test (2 attempts): it exited with 1.
    1 of 3 steps completed: build; not completed: test (failed), ship.
    Fix the cause, then continue: perdure resume 1a2b3c4d   (output: perdure logs 1a2b3c4d test; skip it: perdure skip 1a2b3c4d test)
      │ 1 of 7 tests failed
    [exit 0]
    "
  `);
  expect(await said("show")).toMatchInlineSnapshot(`
    "run       1a2b3c4d-(uuid)
    pipeline  bad
    file      DIR/bad.yaml
    status    failed
    started   2026-01-02 03:04:05 UTC
    elapsed 5ms
    cwd       DIR

      STEP        STATE      ATTEMPTS  ELAPSED  RESULT
    ✓ build       completed  1 5ms exit 0
    ✗ test        failed     2 5ms it exited with 1
        test@1.1  failed 5ms it exited with 1
        test@1.2  failed 5ms it exited with 1
    · ship        pending

    Run 1a2b3c4d (bad) failed: step test (2 attempts): it exited with 1.
    1 of 3 steps completed: build; not completed: test (failed), ship.
    Fix the cause, then continue: perdure resume 1a2b3c4d   (output: perdure logs 1a2b3c4d test; skip it: perdure skip 1a2b3c4d test)
    [exit 0]
    "
  `);
  const [id = ""] = await project.runIds();
  expect(await said("logs", id)).toMatchInlineSnapshot(`
    "build │ compiling
    test │ 1 of 7 tests failed
    test │ 1 of 7 tests failed
    [exit 0]
    "
  `);
  expect(await said("logs", id, "test")).toMatchInlineSnapshot(`
    "1 of 7 tests failed
    1 of 7 tests failed
    [exit 0]
    "
  `);
  expect(await said("logs", id, "tset")).toMatchInlineSnapshot(`
    "--- stderr
    error: run 1a2b3c4d has no step tset; did you mean test?
      next: perdure show 1a2b3c4d
    [exit 2]
    "
  `);
  expect(await said("resume", "--dry-run")).toMatchInlineSnapshot(`
    "STEP   RESUME WILL  BECAUSE
    build  reuse        it completed; its result is kept
    test   run          it failed (it exited with 1); it gets 2 more attempts
    ship   run          it has not started
    [exit 0]
    "
  `);
  project.write("fixed", "");
  expect(await said("resume", id)).toMatchInlineSnapshot(`
    "Resuming run 1a2b3c4d-(uuid) of bad from step 2 of 3: test
    If it is interrupted: perdure resume 1a2b3c4d
    ● resumed
    ↻ test gets 2 more attempts
    ▶ test started (attempt 3 of 4)
    test │ 1 of 7 tests failed
    ✓ test completed in 5ms
    ▶ ship started
    ship │ shipping
    ✓ ship completed in 5ms
    ✓ Run 1a2b3c4d (bad) completed in 5ms.
      3 steps
      Details: perdure show 1a2b3c4d
    [exit 0]
    "
  `);
  expect(await said("resume", id)).toMatchInlineSnapshot(`
    "Run 1a2b3c4d (bad) completed in 5ms.
    There is nothing to resume.
    [exit 0]
    "
  `);
});

it("show of a completed run names its outputs and its context", async () => {
  await twoRuns();
  expect(await said("show")).toMatchInlineSnapshot(`
    "run       1a2b3c4d-(uuid)
    pipeline  release
    file      DIR/good.yaml
    status    completed
    started   2026-01-02 03:04:05 UTC
    elapsed 5ms
    cwd       DIR
    input     {"target":"all"}

      STEP   STATE      ATTEMPTS  ELAPSED  RESULT
    ✓ build  completed  1 5ms exit 0
    ✓ test   completed  1 5ms exit 0

    outputs
      build.app  DIR/out/app  7 bytes  sha256 0123456789ab

    context
      size = 7

    Run 1a2b3c4d (release) completed in 5ms.
    2 of 2 steps completed: build, test.
    A new run: perdure run DIR/good.yaml -i '{"target":"all"}'
    --- stderr
    run 1a2b3c4d (release), the newest
    [exit 0]
    "
  `);
  expect(await said("why", "--json")).toMatchInlineSnapshot(`
    "{
      "schema_version": 1,
      "run_id": "1a2b3c4d-(uuid)",
      "pipeline": "release",
      "status": "completed",
      "happened": "Run 1a2b3c4d (release) completed in 5ms.",
      "done": "2 of 2 steps completed: build, test.",
      "next": [
        {
          "text": "Details",
          "command": "perdure show 1a2b3c4d"
        },
        {
          "text": "a new run",
          "command": "perdure run DIR/good.yaml -i '{\\"target\\":\\"all\\"}'"
        }
      ],
      "check_output": [],
      "interrupted_work": [],
      "result": null,
      "warnings": []
    }
    --- stderr
    run 1a2b3c4d (release), the newest
    [exit 0]
    "
  `);
});

it("list runs, as a table and as JSON, and when there is none", async () => {
  expect(await said("list", "runs")).toMatchInlineSnapshot(`
    "No runs. Start one with: perdure run FILE
    [exit 0]
    "
  `);
  expect(await said("list", "runs", "--output", "json")).toMatchInlineSnapshot(`
    "[]
    [exit 0]
    "
  `);
  await twoRuns();
  expect(await said("list", "runs")).toMatchInlineSnapshot(`
    "PIPELINE-ID  NAME     STATUS     STARTED              STEPS
    1a2b3c4d     release  completed  2026-01-02 03:04:05  2/2
    1a2b3c4d     bad      failed     2026-01-02 03:04:05  1/3
    [exit 0]
    "
  `);
  expect(await said("list", "runs", "--output", "json")).toMatchInlineSnapshot(`
    "[
      {
        "pipeline_id": "1a2b3c4d-(uuid)",
        "pipeline_name": "release",
        "status": "completed",
        "created_at": "2026-01-02T03:04:05Z",
        "steps_completed": 2,
        "steps_total": 2,
        "run_id": "1a2b3c4d-(uuid)",
        "pipeline": "release",
        "updated_at": "2026-01-02T03:04:05Z",
        "cleaned_at": null,
        "file": "DIR/good.yaml",
        "input": {
          "target": "all"
        },
        "forked_from": null
      },
      {
        "pipeline_id": "1a2b3c4d-(uuid)",
        "pipeline_name": "bad",
        "status": "failed",
        "created_at": "2026-01-02T03:04:05Z",
        "steps_completed": 1,
        "steps_total": 3,
        "run_id": "1a2b3c4d-(uuid)",
        "pipeline": "bad",
        "updated_at": "2026-01-02T03:04:05Z",
        "cleaned_at": null,
        "file": "DIR/bad.yaml",
        "input": null,
        "forked_from": null
      }
    ]
    [exit 0]
    "
  `);
  expect(await said("list", "--status", "failed")).toMatchInlineSnapshot(`
    "PIPELINE-ID  NAME  STATUS  STARTED              STEPS
    1a2b3c4d     bad   failed  2026-01-02 03:04:05  1/3
    [exit 0]
    "
  `);
  expect(await said("list", "--pipeline", "release", "-n", "1")).toMatchInlineSnapshot(`
    "PIPELINE-ID  NAME     STATUS     STARTED              STEPS
    1a2b3c4d     release  completed  2026-01-02 03:04:05  2/2
    [exit 0]
    "
  `);
});

it("clean", async () => {
  expect(await said("clean")).toMatchInlineSnapshot(`
    "--- stderr
    error: there are no runs here: no .perdure in DIR or above it
      next: perdure run FILE
    [exit 1]
    "
  `);
  await twoRuns();
  expect(await said("clean", "--older-than", "30d")).toMatchInlineSnapshot(`
    "There is nothing to clean.
    [exit 0]
    "
  `);
  expect(await said("clean", "--older-than", "soon")).toMatchInlineSnapshot(`
    "--- stderr
    error: --older-than takes a duration such as 7d or 12h, not "soon"
    [exit 2]
    "
  `);
  expect(await said("clean", "--dry-run")).toMatchInlineSnapshot(`
    "1a2b3c4d  would remove DIR/.perdure/runs/1a2b3c4d-(uuid)
    Total: 5 KB, and the snapshots.
    [exit 0]
    "
  `);
  expect(await said("clean")).toMatchInlineSnapshot(`
    "1a2b3c4d  removed DIR/.perdure/runs/1a2b3c4d-(uuid)
    [exit 0]
    "
  `);
  const [done = "", failed = ""] = await project.runIds();
  expect(await said("clean", "--all", "--dry-run")).toMatchInlineSnapshot(`
    "1a2b3c4d  would remove DIR/.perdure/runs/1a2b3c4d-(uuid)
    Total: 5 KB, and the snapshots.
    [exit 0]
    "
  `);
  expect(await said("why", done)).toMatchInlineSnapshot(`
    "Run 1a2b3c4d (release) had completed, and its files were removed on 2026-01-02 03:04:05 UTC.
    2 of 2 steps completed: build, test.
    It cannot be resumed without its files. Start a new run: perdure run DIR/good.yaml -i '{"target":"all"}'
    [exit 0]
    "
  `);
  expect(await said("logs", done)).toMatchInlineSnapshot(`
    "--- stderr
    error: the files of run 1a2b3c4d were removed by perdure clean
      next: perdure show 1a2b3c4d
    [exit 1]
    "
  `);
  expect(await said("clean", failed)).toMatchInlineSnapshot(`
    "1a2b3c4d  removed DIR/.perdure/runs/1a2b3c4d-(uuid)
    [exit 0]
    "
  `);
  expect(await said("resume", failed)).toMatchInlineSnapshot(`
    "--- stderr
    error: Run 1a2b3c4d (bad) had failed, and its files were removed on 2026-01-02 03:04:05 UTC.
      next: perdure run DIR/bad.yaml
    [exit 1]
    "
  `);
});

it("validate", async () => {
  good();
  project.write(
    "wrong.yaml",
    "steps:\n  - id: one\n    rum: echo\n  - id: one\n    run: x\n    needs: two\n",
  );
  expect(await said("validate", "good.yaml")).toMatchInlineSnapshot(`
    "good.yaml: valid, 2 steps
    [exit 0]
    "
  `);
  expect(await said("validate", "good.yaml", "wrong.yaml")).toMatchInlineSnapshot(`
    "good.yaml: valid, 2 steps
    --- stderr
    error[step-work]: step \`one\` has neither \`run\` nor \`agent\`
     --> wrong.yaml:2:9
      |
    2 |   - id: one
      |         ^^^
      = help: add \`run:\` with a command, \`agent:\` and \`prompt:\`, or \`gate:\` with a question

    error[unknown-key]: unknown key \`rum\`
     --> wrong.yaml:3:5
      |
    3 |     rum: echo
      |     ^^^
      = help: did you mean \`run\`?

    error[duplicate-id]: the id \`one\` is already taken by step 1
     --> wrong.yaml:4:9
      |
    4 |   - id: one
      |         ^^^
      = help: give each step an id of its own

    error[unknown-need]: there is no step \`two\` to wait for
     --> wrong.yaml:6:12
      |
    6 |     needs: two
      |            ^^^
      = help: steps: one

    4 errors

    [exit 4]
    "
  `);
  expect(await said("validate", "wrong.yaml", "--json")).toMatchInlineSnapshot(`
    "{
      "schema_version": 1,
      "files": [
        {
          "file": "wrong.yaml",
          "valid": false,
          "steps": null,
          "diagnostics": [
            {
              "severity": "error",
              "rule": "step-work",
              "message": "step \`one\` has neither \`run\` nor \`agent\`",
              "file": "wrong.yaml",
              "line": 2,
              "column": 9,
              "end_line": 2,
              "end_column": 12,
              "path": null,
              "help": "add \`run:\` with a command, \`agent:\` and \`prompt:\`, or \`gate:\` with a question"
            },
            {
              "severity": "error",
              "rule": "unknown-key",
              "message": "unknown key \`rum\`",
              "file": "wrong.yaml",
              "line": 3,
              "column": 5,
              "end_line": 3,
              "end_column": 8,
              "path": null,
              "help": "did you mean \`run\`?"
            },
            {
              "severity": "error",
              "rule": "duplicate-id",
              "message": "the id \`one\` is already taken by step 1",
              "file": "wrong.yaml",
              "line": 4,
              "column": 9,
              "end_line": 4,
              "end_column": 12,
              "path": null,
              "help": "give each step an id of its own"
            },
            {
              "severity": "error",
              "rule": "unknown-need",
              "message": "there is no step \`two\` to wait for",
              "file": "wrong.yaml",
              "line": 6,
              "column": 12,
              "end_line": 6,
              "end_column": 15,
              "path": null,
              "help": "steps: one"
            }
          ],
          "settings": []
        }
      ]
    }
    [exit 4]
    "
  `);
  expect(await said("run", "wrong.yaml")).toMatchInlineSnapshot(`
    "--- stderr
    error[step-work]: step \`one\` has neither \`run\` nor \`agent\`
     --> wrong.yaml:2:9
      |
    2 |   - id: one
      |         ^^^
      = help: add \`run:\` with a command, \`agent:\` and \`prompt:\`, or \`gate:\` with a question

    error[unknown-key]: unknown key \`rum\`
     --> wrong.yaml:3:5
      |
    3 |     rum: echo
      |     ^^^
      = help: did you mean \`run\`?

    error[duplicate-id]: the id \`one\` is already taken by step 1
     --> wrong.yaml:4:9
      |
    4 |   - id: one
      |         ^^^
      = help: give each step an id of its own

    error[unknown-need]: there is no step \`two\` to wait for
     --> wrong.yaml:6:12
      |
    6 |     needs: two
      |            ^^^
      = help: steps: one

    4 errors

    error: wrong.yaml has 4 errors; nothing was run
      next: fix them, then: perdure run wrong.yaml
    [exit 4]
    "
  `);
  expect(await said("validate", "none.yaml")).toMatchInlineSnapshot(`
    "--- stderr
    error: DIR/none.yaml: there is no such file
      next: give the path of a pipeline file (YAML, DOT or TypeScript)
    [exit 2]
    "
  `);
});

it("doctor", async () => {
  // Agents, isolation and sandboxes depend on the machine, prices on the list: other tests have
  // lines on them.
  const machine =
    /^(✓ (claude|codex|gemini|opencode|prices) .*|· (not on PATH:|`runs_in:) .*|. steps can.*)\n/gm;
  const doctor = async (...args: string[]): Promise<string> =>
    (await said("doctor", ...args))
      .replace(/^perdure .*$/m, "perdure VERSION")
      .replace(machine, "");
  expect(await doctor()).toMatchInlineSnapshot(`
    "perdure VERSION
    There is no state here yet, so there is nothing to check.
    [exit 0]
    "
  `);
  await twoRuns();
  expect(await doctor()).toMatchInlineSnapshot(`
    "perdure VERSION
    state: DIR/.perdure
    ✓ the journal is intact: every event and every plan matches its checksum
    [exit 0]
    "
  `);
  expect(await doctor("--repair")).toMatchInlineSnapshot(`
    "perdure VERSION
    state: DIR/.perdure
    ✓ nothing is broken; nothing was changed
    [exit 0]
    "
  `);
  const hold = project.hold("x");
  project.write("held.yaml", `steps:\n  - id: one\n    run: ${hold.command}\n`);
  const running = project.start(["run", "held.yaml"]);
  await hold.arrived();
  expect(await doctor()).toMatchInlineSnapshot(`
    "perdure VERSION
    state: DIR/.perdure
    ✓ the journal is intact: every event and every plan matches its checksum
    ▶ held is running: perdure attach 1a2b3c4d-(uuid)
    [exit 0]
    "
  `);
  await running.kill("SIGKILL");
  expect(await doctor()).toMatchInlineSnapshot(`
    "perdure VERSION
    state: DIR/.perdure
    ✓ the journal is intact: every event and every plan matches its checksum
    ‖ held is interrupted: perdure resume 1a2b3c4d-(uuid)
    [exit 0]
    "
  `);
  expect(await said("why")).toMatchInlineSnapshot(`
    "Run 1a2b3c4d (held) was interrupted: its runner (pid 4711 on HOST) died while one was running.
    0 of 1 steps completed; next: one.
    Continue (steps that still run are re-attached, not restarted): perdure resume 1a2b3c4d
    --- stderr
    run 1a2b3c4d (held), the newest
    [exit 0]
    "
  `);
});

it("doctor, on isolation", async () => {
  const doctor = async (unshare?: string): Promise<string> => {
    mkdirSync(project.path("bin"), { recursive: true });
    rmSync(project.path("bin", "unshare"), { force: true });
    const script = `#!/bin/sh\n${unshare}\n`;
    if (unshare !== undefined) {
      writeFileSync(project.path("bin", "unshare"), script, { mode: 0o755 });
    }
    const reported = await project.must(["doctor"], { env: { PATH: project.path("bin") } });
    return reported.replace(/^perdure .*$/m, "perdure VERSION").replace(/^✓ prices .*\n/m, "");
  };
  expect(await doctor("exit 0")).toMatchInlineSnapshot(`
    "perdure VERSION
    · not on PATH: claude, codex, gemini, opencode
    ✓ steps can be isolated: \`isolate: true\` works here
    · \`runs_in: bubblewrap\` does not work here: bubblewrap is not installed: there is no bwrap on the PATH
    · \`runs_in: {image: ...}\` does not work here: neither docker nor podman is on the PATH
    There is no state here yet, so there is nothing to check.
    "
  `);
  const refused = "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1";
  expect(await doctor(refused)).toContain(
    "· steps cannot be isolated here: unshare: unshare failed: Operation not permitted\n",
  );
  expect(await doctor("exit 3")).toContain(
    "· steps cannot be isolated here: unshare exited with 3\n",
  );
  expect(await doctor()).toContain(
    "· steps cannot be isolated here: unshare (of util-linux) cannot be run: spawnSync unshare ENOENT\n",
  );
});

it("usage errors", async () => {
  expect(await said("frobnicate")).toMatchInlineSnapshot(`
    "--- stderr
    error: there is no command frobnicate
      next: perdure --help
    [exit 2]
    "
  `);
  expect(await said("rsume")).toMatchInlineSnapshot(`
    "--- stderr
    error: there is no command rsume
      next: perdure resume --help
    [exit 2]
    "
  `);
  expect(await said("run", "--frob")).toMatchInlineSnapshot(`
    "--- stderr
    error: unknown option '--frob'
    (see: perdure run --help)
    [exit 2]
    "
  `);
  expect(await said("run")).toMatchInlineSnapshot(`
    "--- stderr
    error: perdure run needs a pipeline: perdure run FILE
    (see: perdure --help)
    [exit 2]
    "
  `);
  expect(await said("run", "none.yaml")).toMatchInlineSnapshot(`
    "--- stderr
    error: DIR/none.yaml: there is no such file
      next: give the path of a pipeline file (YAML, DOT or TypeScript)
    [exit 2]
    "
  `);
  expect(await said("why")).toMatchInlineSnapshot(`
    "--- stderr
    error: there are no runs here: no .perdure in DIR or above it
      next: perdure run FILE
    [exit 1]
    "
  `);
  expect(await said("resume")).toMatchInlineSnapshot(`
    "--- stderr
    error: there are no runs here: no .perdure in DIR or above it
      next: perdure run FILE
    [exit 1]
    "
  `);
  good();
  expect(await said("run", "good.yaml", "-o", "xml")).toMatchInlineSnapshot(`
    "--- stderr
    error: unknown option '-o'
    (see: perdure run --help)
    [exit 2]
    "
  `);
  expect(await said("list")).toMatchInlineSnapshot(`
    "No runs. Start one with: perdure run FILE
    [exit 0]
    "
  `);
  await twoRuns();
  expect(await said("show", "abc")).toMatchInlineSnapshot(`
    "--- stderr
    run 1a2b3c4d (release), the newest
    error: run 1a2b3c4d has no step abc; its steps are build, test
      next: perdure show 1a2b3c4d
    [exit 2]
    "
  `);
  expect(await said("show", "zzzzzzzz")).toMatchInlineSnapshot(`
    "--- stderr
    run 1a2b3c4d (release), the newest
    error: run 1a2b3c4d has no step zzzzzzzz; its steps are build, test
      next: perdure show 1a2b3c4d
    [exit 2]
    "
  `);
  expect(await said("stop")).toMatchInlineSnapshot(`
    "--- stderr
    error: no run is running here
      next: perdure list runs
    [exit 1]
    "
  `);
  expect(await said("list", "--status", "done")).toMatchInlineSnapshot(`
    "--- stderr
    error: --status takes one of queued, running, waiting, interrupted, completed, failed
    [exit 2]
    "
  `);
  expect(await said("list", "--limit", "none")).toMatchInlineSnapshot(`
    "--- stderr
    error: --limit takes a whole number above 0, not "none"
    [exit 2]
    "
  `);
  expect(await said("-C", "nowhere", "list")).toMatchInlineSnapshot(`
    "--- stderr
    error: -C nowhere: there is no such directory
    [exit 2]
    "
  `);
  expect(await said("completion", "tcsh")).toMatchInlineSnapshot(`
    "--- stderr
    error: there are completion scripts for bash, zsh, fish, not for tcsh
    [exit 2]
    "
  `);
  expect(await said("run", "good.yaml", "-i", "a=1", "-i", "b")).toMatchInlineSnapshot(`
    "--- stderr
    error: several --input must all have the form key=value
      next: perdure run --help
    [exit 2]
    "
  `);
  expect(await said("run", "good.yaml", "-i", "@none.json")).toMatchInlineSnapshot(`
    "--- stderr
    error: the input cannot be read from none.json: ENOENT: no such file or directory, open 'none.json'
    [exit 2]
    "
  `);
});

it("resume --update, and explain", async () => {
  bad();
  await project.run(["run", "bad.yaml"]);
  const [id = ""] = await project.runIds();
  project.write("bad.yaml", project.read("bad.yaml").replace("echo compiling", "echo linking"));
  project.write("fixed", "");
  expect(await said("resume", id, "--update")).toMatchInlineSnapshot(`
    "STEP   UPDATE WILL  BECAUSE                                                      TAKES ABOUT
    build  run again    its \`run\` changed 5ms
    test   run again    it depends on build, which runs again; it had not completed  unknown
    ship   run          it depends on test, which runs again; it had not completed   unknown
    3 steps run: about 5ms of work; the time of 2 is unknown.
    --- stderr
    error: an update needs your agreement, and there is no terminal to ask on
      next: perdure resume 1a2b3c4d --update --yes
    [exit 2]
    "
  `);
  expect(await said("resume", id, "--update", "--yes")).toMatchInlineSnapshot(`
    "STEP   UPDATE WILL  BECAUSE                                                      TAKES ABOUT
    build  run again    its \`run\` changed 5ms
    test   run again    it depends on build, which runs again; it had not completed  unknown
    ship   run          it depends on test, which runs again; it had not completed   unknown
    3 steps run: about 5ms of work; the time of 2 is unknown.
    Resuming run 1a2b3c4d-(uuid) of bad from step 1 of 3: build
    If it is interrupted: perdure resume 1a2b3c4d
    ● the edited pipeline was adopted: 3 steps run again
    ● resumed
    ▶ build started (visit 2)
    build │ linking
    ✓ build completed in 5ms
    ▶ test started (visit 2, attempt 1 of 2)
    test │ 1 of 7 tests failed
    ✓ test completed in 5ms
    ▶ ship started
    ship │ shipping
    ✓ ship completed in 5ms
    ✓ Run 1a2b3c4d (bad) completed in 5ms.
      3 steps
      Details: perdure show 1a2b3c4d
    [exit 0]
    "
  `);
  expect(await said("explain", id, "build")).toMatchInlineSnapshot(`
    "build@1.1  2026-01-02 03:04:05 UTC: all steps that it depends on had completed
      it completed after 5ms
    build@2.1  2026-01-02 03:04:05 UTC: USER adopted an edit of the pipeline: its \`run\` changed
      it completed after 5ms
    Its result of 2026-01-02 03:04:05 UTC is used: nothing that it depends on has changed (fingerprint 684a9c4e6e5c).
    [exit 0]
    "
  `);
  expect(await said("explain", id, "test")).toMatchInlineSnapshot(`
    "test@1.1  2026-01-02 03:04:05 UTC: all steps that it depends on had completed
      it failed after 5ms: it exited with 1
    test@1.2  2026-01-02 03:04:05 UTC: it had failed once and had attempts left
      it failed after 5ms: it exited with 1
    test@2.1  2026-01-02 03:04:05 UTC: USER adopted an edit of the pipeline: it depends on build, which runs again
      it completed after 5ms
    Its result of 2026-01-02 03:04:05 UTC is used: nothing that it depends on has changed (fingerprint 0df316b7a7a1).
    [exit 0]
    "
  `);
  expect(await said("explain", id, "nobody")).toMatchInlineSnapshot(`
    "--- stderr
    error: run 1a2b3c4d has no step nobody; its steps are build, test, ship
      next: perdure show 1a2b3c4d
    [exit 2]
    "
  `);
  expect(await said("resume", id, "--update")).toMatchInlineSnapshot(`
    "Nothing to update: the file has not changed.
    Run 1a2b3c4d (bad) completed in 5ms.
    There is nothing to resume.
    [exit 0]
    "
  `);
});

it("help", async () => {
  expect(await said("--help")).toMatchInlineSnapshot(`
    "Usage: perdure [options] [command]

    Runs pipelines of AI agents and shell commands. Kill it anywhere; resume
    continues from there.

    Options:
      -V, --version                  print the version
      -C, --project <dir>            run as if started in this directory
      -h, --help                     print this help

    Run:
      run [file]                     start a new run of a pipeline
      resume [run]                   continue a run from where it stopped
      stop [run]                     stop a run; it can be resumed
      attach [run]                   watch a run that another process drives; Ctrl-C
                                     leaves it running
      answer [run] [gate] [choice]   answer a question of a run, or list its
                                     questions
      settle [run] <step> <verdict>  say whether an interrupted \`once\` step took
                                     effect
      skip [run] <step>              skip a step that failed, waits or has not
                                     started
      say [run] <step> <message...>  send a message to the agent of a step; it
                                     arrives with its next turn
      open [run] <step>              open the conversation of a step in the agent's
                                     own program

    Inspect:
      list                           list runs
      inbox                          list everything that waits for a person, in all
                                     projects of this machine
      show [run] [gate]              show a run: steps, attempts, times, errors, and
                                     the next command
      why [run]                      say what happened, what is done, and which
                                     command continues the run
      logs [run] [step]              print the output of the steps
      explain [run] <step>           say why a step ran again, or why its result was
                                     kept
      timeline [run]                 list the checkpoints of a run in order, with
                                     the changes between them
      diff [run] <a> [b]             show how a step changed files and context, or
                                     what changed between two checkpoints
      graph [run-or-file]            draw a pipeline, or a run with the states of
                                     its steps
      report [run]                   write a report on a run: path, times, costs,
                                     context, failures, owners
      cost                           show what agents used over time: runs, tokens
                                     and money
      ui                             show the runs of all projects in the browser
      mcp                            offer Perdure as tools to an agent: an MCP
                                     server on stdin and stdout

    Take the result:
      merge [run]                    merge the branch of a run into the branch that
                                     is checked out
      apply [run]                    apply the changes of a run to the project's own
                                     files, without a commit
      pr [run]                       push the branch of a run and open a pull
                                     request (with gh or glab)

    Run again:
      retry [run] <step...>          run a step again, and every step after it
      rewind [run] <point>           go back to before a step, with or without the
                                     files, and start nothing
      fork [run]                     start a new run from a checkpoint of a run

    Write pipelines:
      init [template]                write a commented pipeline from a template
      demo                           watch a run being killed and resumed; leaves
                                     nothing behind
      validate <files...>            report every mistake in pipeline files, without
                                     running them
      prices [file]                  show what models cost, since when, and the
                                     source of each price
      completion <shell>             print a completion script for a shell

    Many machines:
      submit <file>                  queue a new run of a pipeline for the workers
                                     of a fleet
      schedules                      show the pipelines that a fleet starts on a
                                     schedule
      worker                         drive runs of a fleet on this machine; SIGTERM
                                     hands them over to other workers
      workers                        show the workers of a fleet, its queues, and
                                     the runs that no worker could drive
      store <action>                 set up the PostgreSQL database of a fleet:
                                     tables, roles, rights
      push <run>                     move a run of this machine to the fleet
      pull <run>                     move a run of the fleet to this machine, to
                                     continue it here

    Maintain:
      service <action>               run a service that resumes runs after a reboot,
                                     starts scheduled ones and cleans up
      export [run]                   write a run to a file, to continue it elsewhere
      import <file>                  add a run from a file to this project; then:
                                     perdure resume
      clean [runs...]                remove the files of completed runs; their
                                     records stay
      doctor [file]                  check this machine and the state of this
                                     project, or what a pipeline needs
      replay [run]                   check that this version of perdure makes the
                                     same decisions again (exit 3 if not)
      notify [run]                   send the due notices of a run now; runs also
                                     send them on their own

    Examples:
      perdure run release.yaml -i version=1.2.0    start a pipeline
      perdure resume                               continue the last unfinished run
      perdure list runs                            see all runs of this project
      perdure why                                  see what happened and what to do next
      perdure logs test --follow                   watch one step

    Exit status: 0 done, 1 error, 2 usage, 3 the pipeline failed, 4 it is invalid, 5 timed out,
    6 waiting for a person, 7 owned by another process, 130 interrupted, 143 terminated
    [exit 0]
    "
  `);
  expect(await said("run", "--help")).toMatchInlineSnapshot(`
    "Usage: perdure run [options] [file]

    start a new run of a pipeline

    Arguments:
      file                      a YAML, DOT or TypeScript file, a name in
                                pipelines/, or - for stdin

    Input:
      -i, --input <value>       the input: key=value, JSON, @file.json or text; may
                                be repeated
      --input-json <key=json>   one input as JSON, such as tags=[1, 2]; - reads the
                                whole input from stdin; may be repeated

    How it runs:
      -d, --detach              run in the background
      --shell <command>         run this command instead of a pipeline
      --beside                  start even while another run with agents uses this
                                directory
      --no-cache                run every step, and reuse no results of earlier runs
      --no-preflight            skip the check that agents and programs are
                                installed

    Questions:
      --stay                    wait for answers when nothing else can run, instead
                                of exiting with status 6
      --auto-approve            answer every gate with its first choice that is not
                                a rejection

    Output:
      --json                    print each event as a line of JSON
      --plain                   print plain lines, even on a terminal
      -q, --quiet               print nothing if the run completes, and only the
                                outcome if not

    Agents and DOT pipelines:
      --simulate [what]         simulate agents instead of calling a model; with
                                all: simulate commands, too
      --agent <name>            run a prompt in place of [file] with this agent;
                                DOT: for nodes without provider
      --model <name>            the model for that prompt; DOT: for nodes that name
                                none
      --permissions <which>     what that agent may do without asking: default,
                                plan, edit, all
      --goal <text>             DOT: the goal, instead of the one in the file
      --goal-file <file>        DOT: read the goal from this file
      --provider <name>         DOT: the provider for nodes that name none
      --handler <type=command>  DOT: the command that runs nodes of this type; may
                                be repeated
      --compat                  exit only with status 0 or 1, as scripts for DOT
                                engines expect
      --logs <dir>              write the checkpoint, prompts and outcomes to this
                                directory, as DOT engines do

    Continue an existing run:
      --resume <run>            the same as: perdure resume RUN
      --resume-last             the same as: perdure resume; with FILE: only its
                                runs
      --from-step <step>        run this step and all after it again, in the newest
                                run
      --run <run>               the run for --from-step, instead of the newest one

    Options:
      -h, --help                print this help

    Examples:
      perdure run release.yaml
      perdure run release.yaml -i version=1.2.0 --input-json 'tags=["a", "b"]'
      perdure run release.yaml --detach
    [exit 0]
    "
  `);
  expect(await said("resume", "--help")).toMatchInlineSnapshot(`
    "Usage: perdure resume [options] [run]

    continue a run from where it stopped

    Arguments:
      run                       a run id, or at least 4 of its first characters;
                                default: the run that was interrupted last

    Other ways to name the run:
      --pipeline-id <run>       its id
      --logs <dir>              the run that writes to this directory (run --logs)

    What runs:
      --from-step <step>        run this step and all after it again; earlier steps
                                count as done
      --update                  use the edited pipeline file; shows what that
                                changes, and asks
      -y, --yes                 agree to --update or --from-step without being asked
      --recover <how>           what to do with interrupted work: continue, restart,
                                ask
      --files <how>             keep the files, or restore those of that point
                                (default: restore; keep in the project itself):
                                keep, restore
      --dry-run                 show what would happen, and change nothing

    Budget, turns and variables:
      --budget <amount>         add to the budget: +5usd, +100000tokens, +20turns or
                                +30m
      --turns <count>           give agents that have reached max_turns more turns,
                                such as +20
      --env <name>              give a variable the value it has here (NAME) or
                                another one (NAME=value); may be repeated

    How it runs:
      -d, --detach              run in the background
      --beside                  start even while another run with agents uses this
                                directory
      --no-cache                run every step, and reuse no results of earlier runs
      --no-preflight            skip the check that agents and programs are
                                installed
      --as-copy                 continue here although this project is a copy of the
                                run's, with the files here
      --take-over               take the run over from an owner elsewhere that you
                                know is dead

    Questions:
      --stay                    wait for answers when nothing else can run, instead
                                of exiting with status 6
      --auto-approve            answer every gate with its first choice that is not
                                a rejection

    Output:
      --json                    print each event as a line of JSON
      --plain                   print plain lines, even on a terminal
      -q, --quiet               print nothing if the run completes, and only the
                                outcome if not

    Agents and DOT pipelines:
      --simulate [what]         simulate agents instead of calling a model; with
                                all: simulate commands, too
      --agent <name>            run a prompt in place of [file] with this agent;
                                DOT: for nodes without provider
      --model <name>            the model for that prompt; DOT: for nodes that name
                                none
      --permissions <which>     what that agent may do without asking: default,
                                plan, edit, all
      --goal <text>             DOT: the goal, instead of the one in the file
      --goal-file <file>        DOT: read the goal from this file
      --provider <name>         DOT: the provider for nodes that name none
      --handler <type=command>  DOT: the command that runs nodes of this type; may
                                be repeated
      --compat                  exit only with status 0 or 1, as scripts for DOT
                                engines expect

    Options:
      -h, --help                print this help

    Examples:
      perdure resume
      perdure resume 1a2b3c4d --dry-run
      perdure resume 1a2b3c4d --update --yes
    [exit 0]
    "
  `);
});
