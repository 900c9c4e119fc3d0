/**
 * What a refusal or a failure suggests works: each command is run as it was printed, after doing what
 * the words before it say, and reaches success. (After failures of agents: failure.test.ts.)
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Project, type Result } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

/** The words of the first command that was suggested. */
function suggested({ stdout, stderr }: Result): readonly string[] {
  const text = `${stderr}\n${stdout.trimEnd().split("\n").slice(-2).join("\n")}`;
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
    meet: async () => {
      await failed();
      return project.run(["resume"]);
    },
    first: () => project.write("ready", ""),
  },
  "resume without any unfinished run": {
    meet: async () => {
      await completed();
      return project.run(["resume"]);
    },
  },
  "a run that is not there": {
    meet: async () => {
      await completed();
      return project.run(["show", "00000000"]);
    },
  },
  "no run at all": {
    meet: () => project.run(["why"]),
    first: () => project.write("FILE", `steps:\n${GOOD}`),
  },
  "stop when nothing runs": {
    meet: async () => {
      await completed();
      return project.run(["stop"]);
    },
  },
  "logs of a step that is not there": {
    meet: async () => project.run(["logs", await completed(), "two"]),
  },
  "explain of a step that is not there": {
    meet: async () => project.run(["explain", await completed(), "two"]),
  },
  "an answer to a question that nobody asks": {
    meet: async () => project.run(["answer", await completed(), "one", "approve"]),
  },
  "an answer that is none of the choices": {
    meet: async () => project.run(["answer", await waiting(), "ok", "maybe"]),
  },
  "stop of a run that waits for a person": {
    meet: async () => project.run(["stop", await waiting()]),
  },
  "settle of what is in no doubt": {
    meet: async () => project.run(["settle", await completed(), "one", "done"]),
  },
  "an input that is missing": {
    meet: () => {
      const schema = "input: { type: object, required: [v], properties: { v: { type: string } } }";
      project.write("p.yaml", `${schema}\nsteps:\n${GOOD}`);
      return project.run(["run", "p.yaml"]);
    },
  },
  "an input that the pipeline does not know": {
    meet: () => {
      const schema = "input: { type: object, properties: { version: { type: string } } }";
      project.write("p.yaml", `${schema}\nsteps:\n${GOOD}`);
      return project.run(["run", "p.yaml", "-i", "verison=1"]);
    },
  },
  "an edited file, resumed with --update and --from-step": {
    meet: async () => project.run(["resume", await failed(), "--update", "--from-step", "one"]),
    first: () => project.write("p.yaml", `workspace: { snapshots: false }\nsteps:\n${GOOD}`),
  },
  "a run whose pipeline another run was named with": {
    meet: async () => {
      project.write("q.yaml", `steps:\n${GOOD}`);
      return project.run(["run", "q.yaml", "--run", await failed()]);
    },
    first: () => project.write("ready", ""),
  },
  "a missing journal": {
    meet: async () => {
      await completed();
      fs.rmSync(project.path(".perdure", "state.db"));
      return project.run(["list", "runs"]);
    },
  },
  "a damaged journal": {
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
    meet: () => started("  - { id: one, run: 'echo ${{ env.WANTED }}' }\n"),
  },
  "a done step that must not happen twice": {
    meet: async () => {
      await started('  - { id: one, once: true, run: "echo >> done" }\n');
      return project.run(["retry", await project.newestId(), "one"]);
    },
  },
  "an output that is gone with its kept copy": {
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
    meet: async () => {
      const id = await completed();
      await project.must(["clean", id, "--force"]);
      return project.run(["logs", id, "one"]);
    },
  },
  "an export of a run whose files were removed": {
    meet: async () => {
      const id = await completed();
      await project.must(["clean", id, "--force"]);
      return project.run(["export", id]);
    },
  },
  "an edited file, resumed with --update and without a terminal": {
    meet: async () => {
      const id = await failed();
      project.write("p.yaml", `workspace: { snapshots: false }\nsteps:\n${GOOD}`);
      return project.run(["resume", id, "--update"]);
    },
  },
  "a run that is named twice": {
    meet: async () => {
      const id = await failed();
      return project.run(["resume", id, "--pipeline-id", id]);
    },
    first: () => project.write("ready", ""),
  },
  "a message for a step without an agent": {
    meet: async () => project.run(["say", await failed(), "one", "hello"]),
  },
  "a fork of a run whose files were removed": {
    meet: async () => {
      const id = await completed();
      await project.must(["clean", id]);
      return project.run(["fork", id]);
    },
  },
  "an answer to a run whose files were removed": {
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
};

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
