/**
 * Every refusal either has a situation in which its suggested command is run, or a reason why not.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { RefusalCode } from "../../src/app/refusal.ts";

/** The refusal is met in a table of a `suggested*.test.ts`. */
const SITUATION = "situation";
/** It suggests no command. */
const NO_COMMAND = "no command";

/** Another test that runs the suggested command; its file and its name. */
interface Elsewhere {
  readonly file: string;
  readonly test: string;
}

/** It cannot be met in a test. */
interface NotMet {
  readonly because: string;
}

const SHOWN: Readonly<
  Record<RefusalCode, typeof SITUATION | typeof NO_COMMAND | Elsewhere | NotMet>
> = {
  "agent-open": {
    file: "open.test.ts",
    test: "is not resumed while the program of perdure open still runs",
  },
  "already-answered": SITUATION,
  "ambiguous-run": SITUATION,
  "ambiguous-step": SITUATION,
  "bad-answer": SITUATION,
  "bad-archive": NO_COMMAND,
  "bad-input": SITUATION,
  "bad-logs-directory": SITUATION,
  "bad-option": SITUATION,
  "bad-price-file": SITUATION,
  "cannot-keep-state": NO_COMMAND,
  "cannot-write": SITUATION,
  "directory-shared": SITUATION,
  "files-in-the-way": {
    file: "take.test.ts",
    test: "moves the branch forward, once, overwrites nothing, and lets `clean` remove the run",
  },
  "files-removed": SITUATION,
  impossible: SITUATION,
  "import-running": NO_COMMAND,
  "invalid-pipeline": SITUATION,
  "logs-directory-used": SITUATION,
  "merge-conflict": {
    file: "take.test.ts",
    test: "joins both branches when there are new commits, and announces it",
  },
  "missing-file": SITUATION,
  "missing-journal": SITUATION,
  "missing-variables": SITUATION,
  "no-conversation": SITUATION,
  "no-directory": NO_COMMAND,
  "no-edit-possible": {
    file: "../library/library.test.ts",
    test: "has no file to edit, and resume continues it",
  },
  "no-proc": NO_COMMAND,
  "no-program": SITUATION,
  "no-store": NO_COMMAND,
  "of-fleet": {
    file: "../fleet/anywhere.test.ts",
    test: "can be read and steered from any machine",
  },
  "no-runs": SITUATION,
  "no-snapshots": SITUATION,
  "no-terminal": SITUATION,
  "no-unfinished-run": SITUATION,
  "no-workspace": SITUATION,
  "not-asked": SITUATION,
  "not-confirmed": SITUATION,
  "not-empty": SITUATION,
  "not-ready": SITUATION,
  "not-started": { because: "the background process would have to die before its first act" },
  "nothing-to-stop": SITUATION,
  "nothing-to-take": {
    file: "take.test.ts",
    test: "commits once at its end, or never, as the author chooses; `apply` takes that, too",
  },
  "output-missing": SITUATION,
  "project-copied": SITUATION,
  "run-changed": {
    file: "update.test.ts",
    test: "changes nothing in a run that has continued while the person was asked",
  },
  "run-exists": SITUATION,
  "run-not-named": SITUATION,
  "run-owned": SITUATION,
  "service-running": {
    file: "service.test.ts",
    test: "runs once per user, and gives up on a run that keeps dying",
  },
  "state-removed": SITUATION,
  "step-running": {
    file: "requests.test.ts",
    test: "of a running step is refused, and the suggested command works",
  },
  "steps-alive": SITUATION,
  "tool-failed": {
    file: "take.test.ts",
    test: "pushes the branch and opens a pull request, once, also after gh has failed",
  },
  "turns-used-up": SITUATION,
  "unknown-price": SITUATION,
  "unknown-run": SITUATION,
  "unknown-step": SITUATION,
  "unreadable-plan": SITUATION,
  "untrusted-state": NO_COMMAND,
  "wrong-pipeline": SITUATION,

  "files-blocked": { because: "a restore sets aside what it replaces; only a race leaves more" },
  "files-branch-taken": SITUATION,
  "files-bundle-broken": NO_COMMAND,
  "files-changed-by-others": SITUATION,
  "files-git-failed": SITUATION,
  "files-git-killed": SITUATION,
  "files-git-missing": SITUATION,
  "files-not-trusted": SITUATION,
  "files-path-taken": SITUATION,
  "files-snapshot-missing": SITUATION,
  "files-store-unknown": SITUATION,
  "files-work-at-risk": NO_COMMAND,

  "journal-broken": SITUATION,
  "journal-busy": { because: "SQLite waits for five minutes" },
  "journal-disk-full": {
    file: "disk.test.ts",
    test: "stops with an error when the disk is full, and continues when there is room again",
  },
  "journal-io": { because: "a disk would have to fail" },
  "journal-newer": NO_COMMAND,
  "journal-forbidden": NO_COMMAND,
  "journal-login-refused": NO_COMMAND,
  "journal-not-set-up": NO_COMMAND,
  "journal-older": NO_COMMAND,
  "journal-read-only": {
    file: "disk.test.ts",
    test: "stops with an error when its directory becomes read-only during a run",
  },
  "journal-stale-writer": { because: "only an owner that was presumed dead meets it" },
  "journal-unreachable": { because: "it needs a server that is down" },
  "journal-unknown-run": { because: "a run would have to vanish between two looks" },
  "journal-unknown-blob": NO_COMMAND,
  "worker-running": { because: "it needs a store and a second worker in one directory" },
  "too-large": NO_COMMAND,
  "files-base-missing": { because: "only a worker of a fleet meets it" },
};

const HERE = import.meta.dirname;

/** The codes that the tables of situations name. */
function codesMet(): ReadonlySet<string> {
  const files = fs.globSync("suggested*.test.ts", { cwd: HERE });
  const text = files.map((file) => fs.readFileSync(join(HERE, file), "utf8")).join("\n");
  return new Set(Array.from(text.matchAll(/\bcode: "([a-z-]+)"/g), ([, code = ""]) => code));
}

/** The codes of refusals that the source throws with a command. */
function codesWithCommands(): ReadonlySet<string> {
  const root = join(HERE, "../../src");
  const codes = new Set<string>();
  for (const file of fs.globSync(["app/**/*.ts", "cli/**/*.ts"], { cwd: root })) {
    const text = fs.readFileSync(join(root, file), "utf8");
    for (const [call, code = ""] of text.matchAll(/new Refusal\(\s*"([a-z-]+)".*?\);\n/gs)) {
      if (/\b(command|after|when)\(|, (next|again|commands)\b/.test(call)) codes.add(code);
    }
  }
  return codes;
}

it("has a situation if the table says so, and only then", () => {
  const claimed = Object.entries(SHOWN).filter(([, shown]) => shown === SITUATION);
  expect(claimed.map(([code]) => code).sort()).toEqual([...codesMet()].sort());
});

it("suggests no command where the table says so", () => {
  const commands = codesWithCommands();
  expect(commands.size).toBeGreaterThan(20);
  const silent = Object.entries(SHOWN).filter(([, shown]) => shown === NO_COMMAND);
  expect(silent.filter(([code]) => commands.has(code))).toEqual([]);
});

it("is shown by the tests that the table names", () => {
  for (const shown of Object.values(SHOWN)) {
    if (typeof shown === "string" || !("file" in shown)) continue;
    expect(fs.readFileSync(join(HERE, shown.file), "utf8")).toContain(`"${shown.test}"`);
  }
});
