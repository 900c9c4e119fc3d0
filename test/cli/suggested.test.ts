/**
 * What a refusal or a failure suggests works: each command is run as it was printed, after doing what
 * the words before it say, and reaches success. (After failures of agents: failure.test.ts.)
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { RefusalCode } from "../../src/app/refusal.ts";
import { Project, type Result } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

/** The words of the first command that was suggested. */
function suggested({ stdout, stderr }: Result): readonly string[] {
  const card = stdout.slice(Math.max(0, stdout.lastIndexOf(" Run ")));
  const text = `${stderr}\n${card}`;
  const found = /perdure ((?!error)[a-z][^\n]*?)(?:, | {3}\(|;|\n|$)/.exec(
    text.replace(/^.*next: /s, ""),
  );
  const words = (found?.[1] ?? "no command is suggested").match(/'[^']*'|\S+/g) ?? [];
  return words.map((word) => word.replaceAll("'", "").replace(/=\.\.\.$/, "=1"));
}

/** A run of these steps, as far as it comes. */
async function started(steps: string): Promise<Result> {
  project.write("p.yaml", `workspace: { snapshots: false }\nsteps:\n${steps}`);
  return project.run(["run", "p.yaml"]);
}

const GOOD = '  - { id: one, run: "true" }\n';
const BAD = '  - { id: one, run: "test -e ready" }\n';
const GATE = "  - { id: ok, gate: { ask: ship it? } }\n";

interface Situation {
  /** The code of the refusal; absent when a run ends by itself. */
  readonly code?: RefusalCode;
  /** Brings it about; gives the result that suggests a command. */
  readonly meet: () => Promise<Result>;
  /** What the words before the command ask for. */
  readonly first?: () => void;
  readonly exit?: number;
}

async function completed(): Promise<string> {
  await started(GOOD);
  return project.newestId();
}

async function failed(): Promise<string> {
  await started(BAD);
  return project.newestId();
}

async function waiting(): Promise<string> {
  await started(GATE);
  return project.newestId();
}

const SITUATIONS: Readonly<Record<string, Situation>> = {
  "a failed step": {
    meet: () => started(BAD),
    first: () => project.write("ready", ""),
  },
  "a gate": { meet: () => started(GATE) },
  "resume after a failure, without naming the run": {
    code: "run-not-named",
    meet: async () => {
      await failed();
      return project.run(["resume"]);
    },
    first: () => project.write("ready", ""),
  },
  "resume without any unfinished run": {
    code: "no-unfinished-run",
    meet: async () => {
      await completed();
      return project.run(["resume"]);
    },
  },
  "a run that is not there": {
    code: "unknown-run",
    meet: async () => {
      await completed();
      return project.run(["show", "00000000"]);
    },
  },
  "no run at all": {
    code: "no-runs",
    meet: () => project.run(["why"]),
    first: () => project.write("FILE", `steps:\n${GOOD}`),
  },
  "stop when nothing runs": {
    code: "nothing-to-stop",
    meet: async () => {
      await completed();
      return project.run(["stop"]);
    },
  },
  "logs of a step that is not there": {
    code: "unknown-step",
    meet: async () => project.run(["logs", await completed(), "two"]),
  },
  "explain of a step that is not there": {
    code: "unknown-step",
    meet: async () => project.run(["explain", await completed(), "two"]),
  },
  "an answer to a question that nobody asks": {
    code: "not-asked",
    meet: async () => project.run(["answer", await completed(), "one", "approve"]),
  },
  "an answer that is none of the choices": {
    code: "bad-answer",
    meet: async () => project.run(["answer", await waiting(), "ok", "maybe"]),
  },
  "stop of a run that waits for a person": {
    code: "nothing-to-stop",
    meet: async () => project.run(["stop", await waiting()]),
  },
  "settle of what is in no doubt": {
    code: "impossible",
    meet: async () => project.run(["settle", await completed(), "one", "done"]),
  },
  "an input that is missing": {
    code: "bad-input",
    meet: () => {
      const schema = "input: { type: object, required: [v], properties: { v: { type: string } } }";
      project.write("p.yaml", `${schema}\nsteps:\n${GOOD}`);
      return project.run(["run", "p.yaml"]);
    },
  },
  "an input that the pipeline does not know": {
    code: "bad-input",
    meet: () => {
      const schema = "input: { type: object, properties: { version: { type: string } } }";
      project.write("p.yaml", `${schema}\nsteps:\n${GOOD}`);
      return project.run(["run", "p.yaml", "-i", "verison=1"]);
    },
  },
  "an edited file, resumed with --update and --from-step": {
    code: "bad-option",
    meet: async () => project.run(["resume", await failed(), "--update", "--from-step", "one"]),
    first: () => project.write("p.yaml", `workspace: { snapshots: false }\nsteps:\n${GOOD}`),
  },
  "a run whose pipeline another run was named with": {
    code: "bad-option",
    meet: async () => {
      project.write("q.yaml", `steps:\n${GOOD}`);
      return project.run(["run", "q.yaml", "--run", await failed()]);
    },
    first: () => project.write("ready", ""),
  },
  "a missing journal": {
    code: "missing-journal",
    meet: async () => {
      await completed();
      fs.rmSync(project.path(".perdure", "state.db"));
      return project.run(["list", "runs"]);
    },
  },
  "a damaged journal": {
    code: "journal-broken",
    meet: async () => {
      await completed();
      fs.truncateSync(project.path(".perdure", "state.db"), 5_000);
      for (const end of ["-wal", "-shm"]) {
        fs.rmSync(project.path(".perdure", `state.db${end}`), { force: true });
      }
      return project.run(["list", "runs"]);
    },
  },
  "a variable that is missing": {
    code: "missing-variables",
    meet: () => started("  - { id: one, run: 'echo ${{ env.WANTED }}' }\n"),
  },
  "a done step that must not happen twice": {
    code: "not-confirmed",
    meet: async () => {
      await started('  - { id: one, once: true, run: "echo >> done" }\n');
      return project.run(["retry", await project.newestId(), "one"]);
    },
  },
  "an output that is gone with its kept copy": {
    code: "output-missing",
    meet: async () => {
      const made = "  - { id: one, run: echo a > a, outputs: { a: a } }\n";
      await started(`${made}  - { id: two, run: test -e ready }\n`);
      fs.rmSync(project.path("a"));
      fs.rmSync(project.path(".perdure", "artifacts"), { recursive: true });
      return project.run(["resume", await project.newestId()]);
    },
    first: () => project.write("ready", ""),
  },
  "the logs of a run whose files were removed": {
    code: "files-removed",
    meet: async () => {
      const id = await completed();
      await project.must(["clean", id, "--force"]);
      return project.run(["logs", id, "one"]);
    },
  },
  "an export of a run whose files were removed": {
    code: "files-removed",
    meet: async () => {
      const id = await completed();
      await project.must(["clean", id, "--force"]);
      return project.run(["export", id]);
    },
  },
  "an edited file, resumed with --update and without a terminal": {
    code: "no-terminal",
    meet: async () => {
      const id = await failed();
      project.write("p.yaml", `workspace: { snapshots: false }\nsteps:\n${GOOD}`);
      return project.run(["resume", id, "--update"]);
    },
  },
  "a run that is named twice": {
    code: "bad-option",
    meet: async () => {
      const id = await failed();
      return project.run(["resume", id, "--pipeline-id", id]);
    },
    first: () => project.write("ready", ""),
  },
  "a message for a step without an agent": {
    code: "unknown-step",
    meet: async () => project.run(["say", await failed(), "one", "hello"]),
  },
  "a fork of a run whose files were removed": {
    code: "files-removed",
    meet: async () => {
      const id = await completed();
      await project.must(["clean", id]);
      return project.run(["fork", id]);
    },
  },
  "an answer to a run whose files were removed": {
    code: "files-removed",
    meet: async () => {
      const id = await completed();
      await project.must(["clean", id]);
      return project.run(["answer", id, "one", "approve"]);
    },
  },
  "a worktree of a repository without a commit": {
    meet: async () => {
      execFileSync("git", ["init", "-q"], { cwd: project.dir });
      project.write("p.yaml", `workspace: worktree\nsteps:\n${GOOD}`);
      return project.run(["run", "p.yaml"]);
    },
    first: () => {
      const who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
      const commit = ["commit", "-q", "--allow-empty", "-m", "first"];
      execFileSync("git", [...who, ...commit], { cwd: project.dir });
    },
  },
  "a second answer": {
    code: "already-answered",
    meet: async () => {
      const id = await waiting();
      await project.must(["answer", id, "ok", "approve"]);
      return project.run(["answer", id, "ok", "reject"]);
    },
  },
  "a difference to a workspace that was removed": {
    code: "no-workspace",
    meet: async () => {
      project.write("p.yaml", `workspace: copy\nsteps:\n${GOOD}`);
      await project.must(["run", "p.yaml"]);
      const id = await project.newestId();
      const [run = ""] = await project.runIds();
      fs.rmSync(project.path(".perdure", "runs", run, "workspace"), { recursive: true });
      return project.run(["diff", id, "base", "now"]);
    },
  },
  "a logs directory without a checkpoint": {
    code: "missing-file",
    meet: () => project.run(["resume", "--logs", "out", "flow.dot"]),
    first: () => project.write("flow.dot", DOT),
  },
  "a logs directory of a run that waits for a person": {
    code: "logs-directory-used",
    meet: async () => {
      project.write("flow.dot", DOT.replace("shape=parallelogram", "shape=hexagon"));
      await project.run(["run", "flow.dot", "--logs", "out"]);
      return project.run(["run", "flow.dot", "--logs", "out"]);
    },
    exit: 6,
  },
  "a logs directory of another pipeline": {
    code: "wrong-pipeline",
    meet: async () => {
      project.write("flow.dot", DOT);
      project.write("other.dot", DOT);
      await project.must(["run", "flow.dot", "--logs", "out"]);
      return project.run(["resume", "--logs", "out", "other.dot"]);
    },
  },
};

const DOT = `digraph f { start [shape=Mdiamond]; exit [shape=Msquare]
  a [shape=parallelogram, tool_command="true"]; start -> a -> exit }`;

/** Codes whose suggestion is not shown in the table, and why. */
const NOT_SHOWN: Readonly<Partial<Record<RefusalCode, string>>> = {
  "agent-open": "needs the program of an agent (open.test.ts)",
  "ambiguous-run": "ids of runs are random and cannot be made alike",
  "ambiguous-step": "suggests one command for each step of that name (gate.test.ts)",
  "bad-logs-directory": "the checkpoint of another engine, or of a lost run (dot.test.ts)",
  "bad-price-file": "the file is outside of the project",
  "cannot-write": "a privileged user can write to every directory",
  "no-conversation": "needs an agent (open.test.ts)",
  "no-edit-possible": "needs a pipeline that a program defined (library.test.ts)",
  "no-program": "needs an agent (open.test.ts)",
  "not-empty": "suggests a directory that a person has to choose",
  "not-ready": "needs an agent that is not installed (preflight.test.ts)",
  "run-changed": "needs a terminal and a second process (update.test.ts)",
  "run-exists": "needs two projects (portable.test.ts)",
  "run-owned": "needs a living owner (owner.test.ts)",
  "state-removed": "needs a run whose state is removed while it runs (damage.test.ts)",
  "steps-alive": "needs the processes of a dead owner (namespace.test.ts)",
  "turns-used-up": "needs an agent (money.test.ts)",
  "unknown-price": "needs an agent (money.test.ts)",
  "unreadable-plan": "needs a plan of another version of the program",
};

/** The codes of refusals that suggest a command, as the source throws them. */
function codesWithCommands(): ReadonlySet<string> {
  const root = path.join(import.meta.dirname, "../../src");
  const codes = new Set<string>();
  for (const file of fs.globSync(["app/**/*.ts", "cli/**/*.ts"], { cwd: root })) {
    const text = fs.readFileSync(path.join(root, file), "utf8");
    for (const [call, code = ""] of text.matchAll(/new Refusal\(\s*"([a-z-]+)"[^;]*;/g)) {
      if (/\b(command|after|when)\(|, (next|again|commands)\b/.test(call)) codes.add(code);
    }
  }
  return codes;
}

it("every refusal that suggests a command is shown here, or says why it is not", () => {
  const shown = Object.values(SITUATIONS).flatMap(({ code }) => code ?? []);
  const covered = new Set<string>([...shown, ...Object.keys(NOT_SHOWN)]);
  const codes = codesWithCommands();
  expect(codes.size).toBeGreaterThan(20);
  expect([...codes].filter((code) => !covered.has(code))).toEqual([]);
  expect(Object.keys(NOT_SHOWN).filter((code) => !codes.has(code))).toEqual([]);
});

it.each(Object.entries(SITUATIONS))("%s", async (_, { meet, first, exit = 0 }) => {
  const refused = await meet();
  const said = refused.stdout + refused.stderr;
  expect(refused.exit, said).not.toBe(0);
  first?.();
  let words = suggested(refused);
  let result = await project.run(words, { env: { WANTED: "here" } });
  // What it suggests may ask for a word in its turn.
  if (result.exit === 2) {
    words = suggested(result);
    result = await project.run(words, { env: { WANTED: "here" } });
  }
  expect(
    result.exit,
    `${said}\n$ perdure ${words.join(" ")}\n${result.stdout}${result.stderr}`,
  ).toBe(exit);
});
