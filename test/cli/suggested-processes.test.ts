/**
 * The suggestions of refusals work that need a living owner, another project, a file of the user or
 * a damaged journal.
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { it } from "vitest";
import { openJournal } from "../../src/journal/open.ts";
import { newRun, runIdOf } from "../journal/sample-run.ts";
import {
  type Hold,
  PlainProject,
  type Program,
  type Project,
  type Result,
} from "../rig/project.ts";
import { follow, SHOW_CODES, type Situation } from "../rig/suggestion.ts";

let project: Project;
/** The directory and the variables that the person works with. */
let cwd: string;
let env: Record<string, string>;
let hold: Hold;
let runner: Program;

const SITE = {
  open: () => {
    project = new PlainProject();
    cwd = project.dir;
    env = { ...SHOW_CODES, XDG_CONFIG_HOME: project.path("config") };
  },
  perdure: (words: readonly string[]) => perdure(words),
  close: () => project.discard(),
};

async function perdure(words: readonly string[]): Promise<Result> {
  return project.run(words, { cwd, env });
}

const release = (): Promise<void> => hold.release();

/** A run that is held in its step; gives its id. */
async function held(head = "", step = "run: "): Promise<string> {
  hold = project.hold("one");
  project.write("p.yaml", `${head}\nsteps:\n  - { id: one, ${step}"${hold.command}" }\n`);
  runner = project.start(["run", "p.yaml"], { cwd, env });
  await hold.arrived();
  return project.newestId();
}

/** The same, with a dead runner and a living step. */
async function orphaned(): Promise<string> {
  const id = await held();
  await runner.kill("SIGKILL");
  return id;
}

async function failed(): Promise<string> {
  project.write("p.yaml", `steps:\n  - { id: one, run: test -e '${project.path("ready")}' }\n`);
  await perdure(["run", "p.yaml"]);
  return project.newestId();
}

const getReady = (): void => {
  project.write("ready", "");
};

/** A pipeline whose agent is a shell command. */
function withAgent(name: string, script: string): string {
  const file = project.path(project.write(`${name}.sh`, `cat > /dev/null\n${script}\n`));
  const agents = `agents: { fake: { command: "sh '${file}'" } }`;
  return project.write(
    `${name}.yaml`,
    `${agents}\nsteps: [{ id: one, agent: fake, prompt: Go. }]\n`,
  );
}

const SITUATIONS: Readonly<Record<string, Situation>> = {
  "resume of a run that another process drives": {
    code: "run-owned",
    meet: async () => perdure(["resume", await held()]),
    during: release,
  },
  "an export of a run that another process drives": {
    code: "run-owned",
    meet: async () => perdure(["export", await held()]),
  },
  "a repair under a run that another process drives": {
    code: "run-owned",
    meet: async () => {
      await held();
      const database = project.path(".perdure", "state.db");
      fs.writeFileSync(database, fs.readFileSync(database).fill(0, 0, 100));
      return perdure(["doctor", "--repair"]);
    },
    first: async () => {
      await runner.kill("SIGTERM");
    },
  },
  "an export of a run whose step outlived its runner": {
    code: "steps-alive",
    meet: async () => perdure(["export", await orphaned()]),
    during: release,
  },
  "stop, while two runs are running": {
    code: "ambiguous-run",
    meet: async () => {
      await held();
      const second = project.hold("two");
      project.write("q.yaml", `steps:\n  - { id: two, run: "${second.command}" }\n`);
      project.start(["run", "q.yaml"]);
      await second.arrived();
      return perdure(["stop"]);
    },
  },
  "a second run with agents in the same directory": {
    code: "directory-shared",
    meet: async () => {
      hold = project.hold("one");
      runner = project.start(["run", withAgent("first", hold.command)]);
      await hold.arrived();
      return perdure(["run", withAgent("second", "true")]);
    },
    during: release,
  },
  "a step that is to run again beside another run with agents": {
    code: "directory-shared",
    words: ["attach", "retry --beside"],
    meet: async () => {
      await perdure(["run", withAgent("second", "true")]);
      const id = await project.newestId();
      hold = project.hold("one");
      runner = project.start(["run", withAgent("first", hold.command)]);
      await hold.arrived();
      return perdure(["retry", id, "one"]);
    },
    during: release,
  },
  "a copy of a project": {
    code: "project-copied",
    meet: async () => {
      const id = await failedHere();
      copyProject();
      return perdure(["resume", id]);
    },
    first: getReady,
  },
  "a copy of a project whose run is still driven": {
    code: "run-owned",
    meet: async () => {
      fs.mkdirSync(project.path("here"));
      cwd = project.path("here");
      hold = project.hold("one");
      fs.writeFileSync(
        project.path("here", "p.yaml"),
        `workspace: { snapshots: false }\nsteps:\n  - { id: one, run: "${hold.command}" }\n`,
      );
      runner = project.start(["run", "p.yaml"], { cwd });
      await hold.arrived();
      const id = await idHere();
      copyProject();
      return perdure(["resume", id, "--as-copy"]);
    },
  },
  "an import of a run that has changed here": {
    code: "run-exists",
    meet: async () => {
      const id = await failedHere();
      await perdure(["export", id, "-o", "run.perdure"]);
      await perdure(["resume", id]);
      return perdure(["import", "run.perdure"]);
    },
  },
  "files before a step of a run that keeps none": {
    code: "no-snapshots",
    meet: async () => {
      project.write(
        "p.yaml",
        "workspace: { kind: here, snapshots: false }\nsteps:\n  - { id: one, run: echo }\n",
      );
      await perdure(["run", "p.yaml"]);
      return perdure(["rewind", await project.newestId(), "one", "--into", "files"]);
    },
  },
  "files of a step for a directory that has files": {
    code: "not-empty",
    meet: async () => {
      project.write("p.yaml", 'steps:\n  - { id: one, run: "echo > a" }\n');
      await perdure(["run", "p.yaml"]);
      fs.mkdirSync(project.path("full"));
      project.write("full/file", "");
      return perdure(["rewind", await project.newestId(), "one", "--into", "full"]);
    },
  },
  "a state directory that is removed while its run works": {
    code: "state-removed",
    meet: () => {
      // Without its wrapper, which would wait for a folder to record the exit status in.
      project.write(
        "p.yaml",
        "steps:\n  - id: one\n    run: rm -rf .perdure; kill -KILL $PPID $$\n",
      );
      return perdure(["run", "p.yaml"]);
    },
    first: () => {
      project.write("p.yaml", 'steps:\n  - { id: one, run: "true" }\n');
    },
  },
  "a plan that this version cannot read": {
    code: "unreadable-plan",
    meet: async () => {
      await failed();
      const journal = await openJournal(project.path(".perdure", "state.db"), "read-write");
      await journal.log.create(newRun(0));
      await journal.close();
      return perdure(["show", runIdOf(0)]);
    },
  },
  "a price file with a mistake": {
    code: "bad-price-file",
    meet: async () => {
      writePrices('{ "new-model": { "input": 1, "cached": 1 } }');
      return perdure(["prices"]);
    },
    first: () => writePrices('{ "new-model": { "input": 1, "output": 2 } }'),
  },
  "a directory for --logs that cannot be made": {
    code: "cannot-write",
    meet: () => {
      project.write("out", "a file");
      project.write("flow.dot", DOT);
      return perdure(["run", "flow.dot", "--logs", "out/logs"]);
    },
    first: () => fs.rmSync(project.path("out")),
  },
  "the checkpoint of another engine, without a file": {
    code: "bad-logs-directory",
    meet: () => {
      fs.mkdirSync(project.path("out"));
      project.write("out/checkpoint.json", CHECKPOINT);
      return perdure(["resume", "--logs", "out"]);
    },
    first: () => {
      project.write("FILE.dot", DOT);
    },
  },
  "the checkpoint of another engine that names no node": {
    code: "bad-logs-directory",
    meet: () => {
      fs.mkdirSync(project.path("out"));
      project.write("out/checkpoint.json", "{}");
      project.write("flow.dot", DOT);
      return perdure(["resume", "--logs", "out", "flow.dot"]);
    },
  },
  "a logs directory whose project is gone": {
    code: "bad-logs-directory",
    meet: async () => {
      project.write("flow.dot", DOT);
      await perdure(["run", "flow.dot", "--logs", "out"]);
      fs.rmSync(project.path(".perdure"), { recursive: true });
      return perdure(["resume", "--logs", "out", "flow.dot"]);
    },
  },
};

const DOT = `digraph f { start [shape=Mdiamond]; exit [shape=Msquare]
  a [shape=parallelogram, tool_command="true"]; b [shape=parallelogram, tool_command="true"]
  start -> a -> b -> exit }`;

const CHECKPOINT = JSON.stringify({
  current_node: "a",
  completed_nodes: ["start", "a"],
  context: {},
});

function writePrices(text: string): void {
  fs.mkdirSync(project.path("config", "perdure"), { recursive: true });
  project.write("config/perdure/prices.json", text);
}

async function idHere(): Promise<string> {
  const [id = ""] = await project.runIds({ cwd });
  return id;
}

/** A copy of the project `here`, in which the person works from now on. */
function copyProject(): void {
  cwd = project.path("copy");
  execFileSync("cp", ["-a", project.path("here"), cwd]);
}

/** A run that has failed in the project `here`, in which the person works from now on. */
async function failedHere(): Promise<string> {
  fs.mkdirSync(project.path("here"));
  cwd = project.path("here");
  const step = `{ id: one, run: test -e '${project.path("ready")}' }`;
  fs.writeFileSync(project.path("here", "p.yaml"), `steps:\n  - ${step}\n`);
  await perdure(["run", "p.yaml"]);
  return idHere();
}

it.each(Object.entries(SITUATIONS))("%s", async (_, situation) => follow(situation, SITE));
