/**
 * The suggestions of refusals work: each command is run as printed, after doing what the words
 * before it say, and succeeds. (Runs that end by themselves: suggested-ends.test.ts.)
 */
import * as fs from "node:fs";
import { afterAll, it } from "vitest";
import { KeptProject } from "../rig/kept-project.ts";
import { PlainProject, type Project, type Result } from "../rig/project.ts";
import { follow, SHOW_CODES, type Situation } from "../rig/suggestion.ts";

let project: Project;

const SITE = {
  open: () => {
    project = new PlainProject();
  },
  perdure: (words: readonly string[]) => perdure(words, { WANTED: "here" }),
  project: () => project,
  close: () => project.remove(),
};

/** The program, which also says the code of a refusal. */
async function perdure(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Result> {
  return project.run(words, { env: { ...SHOW_CODES, ...env } });
}

/** A run of these steps, as far as it comes. */
async function started(steps: string): Promise<Result> {
  project.write("p.yaml", `workspace: { snapshots: false }\nsteps:\n${steps}`);
  return perdure(["run", "p.yaml"]);
}

const GOOD = '  - { id: one, run: "true" }\n';
const BAD = '  - { id: one, run: "test -e ready" }\n';
const GATE = "  - { id: ok, gate: { ask: ship it? } }\n";

/** Projects with a run of certain steps, which are put back for each situation that begins with one. */
const made = new Map<string, KeptProject>();
afterAll(() => {
  for (const one of made.values()) one.forget();
});

/** A run of these steps, as far as it comes, in a project that has nothing else. */
async function madeOnce(steps: string): Promise<string> {
  const known = made.get(steps);
  if (known === undefined) {
    await started(steps);
    made.set(steps, new KeptProject(project));
  } else {
    fs.rmdirSync(project.dir);
    project = known.project;
    known.putBack();
  }
  return project.newestId();
}

const completed = (): Promise<string> => madeOnce(GOOD);
const failed = (): Promise<string> => madeOnce(BAD);
const waiting = (): Promise<string> => madeOnce(GATE);

const SITUATIONS: Readonly<Record<string, Situation>> = {
  "resume after a failure, without naming the run": {
    code: "run-not-named",
    meet: async () => {
      await failed();
      return perdure(["resume"]);
    },
    first: () => project.write("ready", ""),
  },
  "resume without any unfinished run": {
    code: "no-unfinished-run",
    meet: async () => {
      await completed();
      return perdure(["resume"]);
    },
  },
  "a run that is not there": {
    code: "unknown-run",
    meet: async () => {
      await completed();
      return perdure(["show", "00000000"]);
    },
  },
  "no run at all": {
    code: "no-runs",
    meet: () => perdure(["why"]),
    first: () => project.write("FILE", `steps:\n${GOOD}`),
  },
  "stop when nothing runs": {
    code: "nothing-to-stop",
    meet: async () => {
      await completed();
      return perdure(["stop"]);
    },
  },
  "logs of a step that is not there": {
    code: "unknown-step",
    meet: async () => perdure(["logs", await completed(), "two"]),
  },
  "explain of a step that is not there": {
    code: "unknown-step",
    meet: async () => perdure(["explain", await completed(), "two"]),
  },
  "an answer to a question that nobody asks": {
    code: "not-asked",
    meet: async () => perdure(["answer", await completed(), "one", "approve"]),
  },
  "an answer that is none of the choices": {
    code: "bad-answer",
    meet: async () => perdure(["answer", await waiting(), "ok", "maybe"]),
  },
  "stop of a run that waits for a person": {
    code: "nothing-to-stop",
    meet: async () => perdure(["stop", await waiting()]),
  },
  "settle of what is not uncertain": {
    code: "impossible",
    meet: async () => perdure(["settle", await completed(), "one", "done"]),
  },
  "an input that is missing": {
    code: "bad-input",
    meet: () => {
      const schema = "input: { type: object, required: [v], properties: { v: { type: string } } }";
      project.write("p.yaml", `${schema}\nsteps:\n${GOOD}`);
      return perdure(["run", "p.yaml"]);
    },
  },
  "an input that the pipeline does not know": {
    code: "bad-input",
    meet: () => {
      const schema = "input: { type: object, properties: { version: { type: string } } }";
      project.write("p.yaml", `${schema}\nsteps:\n${GOOD}`);
      return perdure(["run", "p.yaml", "-i", "verison=1"]);
    },
  },
  "an edited file, resumed with --update and --from-step": {
    code: "bad-option",
    meet: async () => perdure(["resume", await failed(), "--update", "--from-step", "one"]),
    first: () => project.write("p.yaml", `workspace: { snapshots: false }\nsteps:\n${GOOD}`),
  },
  "a run whose pipeline another run was named with": {
    code: "bad-option",
    meet: async () => {
      const id = await failed();
      project.write("q.yaml", `steps:\n${GOOD}`);
      return perdure(["run", "q.yaml", "--run", id]);
    },
    first: () => project.write("ready", ""),
  },
  "a run that is resumed with another file": {
    code: "wrong-pipeline",
    meet: async () => {
      const id = await failed();
      project.write("q.yaml", `steps:\n${GOOD}`);
      return perdure(["run", "q.yaml", "--resume", id]);
    },
    first: () => project.write("ready", ""),
  },
  "an invalid file": {
    code: "invalid-pipeline",
    meet: () => started("  - { id: one, rnu: ls }\n"),
    first: () => project.write("p.yaml", `steps:\n${GOOD}`),
  },
  "a question of two items, by a name that both have": {
    code: "ambiguous-step",
    meet: async () => {
      await started("  - { id: ok, for_each: [a, b], gate: { ask: ship it? } }\n");
      return perdure(["answer", await project.newestId(), "ok", "approve"]);
    },
  },
  "a missing journal": {
    code: "missing-journal",
    meet: async () => {
      await completed();
      fs.rmSync(project.path(".perdure", "state.db"));
      return perdure(["list", "runs"]);
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
      return perdure(["list", "runs"]);
    },
  },
  "a variable that is missing": {
    code: "missing-variables",
    meet: () => started("  - { id: one, run: 'echo ${{ env.WANTED }}' }\n"),
  },
  "a secret that is missing when a step is to run again": {
    code: "missing-variables",
    words: ["retry"],
    meet: async () => {
      project.write("p.yaml", `secrets: [WANTED]\nsteps:\n${GOOD}`);
      await perdure(["run", "p.yaml"], { WANTED: "here" });
      return perdure(["retry", await project.newestId(), "one"]);
    },
  },
  "a done step that must not happen twice": {
    code: "not-confirmed",
    meet: async () => {
      await started('  - { id: one, once: true, run: "echo >> done" }\n');
      return perdure(["retry", await project.newestId(), "one"]);
    },
  },
  "an output that is gone with its kept copy": {
    code: "output-missing",
    meet: async () => {
      const made = "  - { id: one, run: echo a > a, outputs: { a: a } }\n";
      await started(`${made}  - { id: two, run: test -e ready }\n`);
      fs.rmSync(project.path("a"));
      fs.rmSync(project.path(".perdure", "artifacts"), { recursive: true });
      return perdure(["resume", await project.newestId()]);
    },
    first: () => project.write("ready", ""),
  },
  "the logs of a run whose files were removed": {
    code: "files-removed",
    meet: async () => {
      const id = await completed();
      await project.must(["clean", id, "--force"]);
      return perdure(["logs", id, "one"]);
    },
  },
  "an export of a run whose files were removed": {
    code: "files-removed",
    meet: async () => {
      const id = await completed();
      await project.must(["clean", id, "--force"]);
      return perdure(["export", id]);
    },
  },
  "an edited file, resumed with --update and without a terminal": {
    code: "no-terminal",
    meet: async () => {
      const id = await failed();
      project.write("p.yaml", `workspace: { snapshots: false }\nsteps:\n${GOOD}`);
      return perdure(["resume", id, "--update"]);
    },
  },
  "a run that is named twice": {
    code: "bad-option",
    meet: async () => {
      const id = await failed();
      return perdure(["resume", id, "--pipeline-id", id]);
    },
    first: () => project.write("ready", ""),
  },
  "a message for a step without an agent": {
    code: "unknown-step",
    meet: async () => perdure(["say", await failed(), "one", "hello"]),
  },
  "a fork of a run whose files were removed": {
    code: "files-removed",
    meet: async () => {
      const id = await completed();
      await project.must(["clean", id]);
      return perdure(["fork", id]);
    },
  },
  "an answer to a run whose files were removed": {
    code: "files-removed",
    meet: async () => {
      const id = await completed();
      await project.must(["clean", id]);
      return perdure(["answer", id, "one", "approve"]);
    },
  },
  "a second answer": {
    code: "already-answered",
    meet: async () => {
      const id = await waiting();
      await project.must(["answer", id, "ok", "approve"]);
      return perdure(["answer", id, "ok", "reject"]);
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
      return perdure(["diff", id, "base", "now"]);
    },
  },
  "a logs directory without a checkpoint": {
    code: "missing-file",
    meet: () => perdure(["resume", "--logs", "out", "flow.dot"]),
    first: () => project.write("flow.dot", DOT),
  },
  "a logs directory of a run that waits for a person": {
    code: "logs-directory-used",
    meet: async () => {
      project.write("flow.dot", DOT.replace("shape=parallelogram", "shape=hexagon"));
      await perdure(["run", "flow.dot", "--logs", "out"]);
      return perdure(["run", "flow.dot", "--logs", "out"]);
    },
    exits: [6],
  },
  "a logs directory of another pipeline": {
    code: "wrong-pipeline",
    meet: async () => {
      project.write("flow.dot", DOT);
      project.write("other.dot", DOT);
      await project.must(["run", "flow.dot", "--logs", "out"]);
      return perdure(["resume", "--logs", "out", "other.dot"]);
    },
  },
};

const DOT = `digraph f { start [shape=Mdiamond]; exit [shape=Msquare]
  a [shape=parallelogram, tool_command="true"]; start -> a -> exit }`;

it.each(Object.entries(SITUATIONS))("%s", async (_, situation) => follow(situation, SITE));
