/** The action of this repository: its own shell lines, job after job, on two machines. */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { dirname, join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { parse } from "yaml";
import { cleanEnvironment, PROGRAM, Project } from "../rig/project.ts";
import { userGit } from "../workspace/rig.ts";

interface Step {
  readonly name?: string;
  readonly id?: string;
  readonly if?: string;
  readonly run?: string;
  readonly uses?: string;
  readonly with?: Readonly<Record<string, string | number>>;
  readonly env?: Readonly<Record<string, string>>;
}

interface Action {
  readonly inputs: Readonly<Record<string, { readonly default?: string }>>;
  readonly runs: { readonly steps: readonly Step[] };
}

const ROOT = resolve(import.meta.dirname, "../..");
const ACTION = parse(fs.readFileSync(join(ROOT, "action.yml"), "utf8")) as Action;

/** The values of the inputs: those of the example in docs/github-actions.md, or their defaults. */
type Inputs = Readonly<Record<string, string>>;

/** The inputs that the workflow of the document gives; all of them exist. */
function documentedInputs(): readonly string[] {
  const page = fs.readFileSync(join(ROOT, "docs/github-actions.md"), "utf8");
  const text = /```yaml\n(.*?)```/s.exec(page)?.[1] ?? "";
  const workflow = parse(text) as { jobs: { agents: { steps: Step[] } } };
  return Object.keys(workflow.jobs.agents.steps.at(-1)?.with ?? {});
}

/** Writes down its calls, and keeps the comments of one pull request, one file for each. */
const GH = `
echo "gh $*" >> WORLD/called
case "$*" in
  *"--paginate"*) grep -lF "$MARK" WORLD/comment-* 2> /dev/null | sed 's/.*-//' ;;
  *PATCH*) for word; do case "$word" in body=@*) cp "\${word#body=@}" WORLD/comment-1;; esac; done ;;
  *comments*) for word; do case "$word" in body=@*) cp "\${word#body=@}" WORLD/comment-1;; esac; done ;;
esac`;

let world: Project;
/** Where uploaded artifacts are. */
let kept: string;
beforeEach(() => {
  world = new Project();
  kept = world.path("artifact");
  fs.mkdirSync(world.path("bin"));
  const program = (name: string, text: string): void =>
    fs.writeFileSync(world.path("bin", name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  program("perdure", `exec '${process.execPath}' '${PROGRAM}' "$@"`);
  program("npm", `echo "npm $*" >> '${world.path("called")}'`);
  program("gh", GH.replaceAll("WORLD", world.dir));
  // The real one; its time is up when a step says so, however busy the machine is.
  const timeout = execFileSync("sh", ["-c", "command -v timeout"], { encoding: "utf8" }).trim();
  program("timeout", `echo $$ > '${world.path("timeout-pid")}'\nexec '${timeout}' "$@"`);
});
afterEach(() => world.remove());

/** A machine: a clone of the repository, a HOME and a place for temporary files of its own. */
function machine(name: string, origin: string, commit: string): Record<string, string> {
  const home = world.path(`${name}-home`);
  const temp = world.path(`${name}-temp`);
  for (const path of [home, temp]) fs.mkdirSync(path);
  userGit(world.dir, "clone", "-q", "--depth", "1", `file://${origin}`, name);
  expect(userGit(world.path(name), "rev-parse", "HEAD").trim()).toBe(commit);
  return {
    ...cleanEnvironment(),
    PATH: `${world.path("bin")}:${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
    HOME: home,
    RUNNER_TEMP: temp,
    GITHUB_OUTPUT: join(temp, "output"),
    GITHUB_STEP_SUMMARY: join(temp, "summary"),
    GITHUB_RUN_ID: "4711",
    GITHUB_REF_NAME: "main",
    GITHUB_REPOSITORY: "ann/app",
    GITHUB_WORKFLOW_REF: "ann/app/.github/workflows/agents.yml@refs/heads/main",
  };
}

/** Puts the values of `inputs.x` and of outputs of steps in the place of expressions. */
function filled(text: string, inputs: Inputs, outputs: Inputs): string {
  return text.replaceAll(/\$\{\{ (\w+)\.([\w.-]+) \}\}/g, (all, scope: string, name: string) => {
    if (scope === "inputs") return inputs[name] ?? "";
    if (scope === "steps") return outputs[name.split(".").at(-1) ?? ""] ?? "";
    throw new Error(`the action uses ${all}`);
  });
}

function outputsIn(file: string): Inputs {
  const text = fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "";
  return Object.fromEntries(text.split("\n").flatMap((line) => (line ? [line.split("=")] : [])));
}

/** Does what the action does, step by step; gives the outputs of its work. */
function job(name: string, env: Record<string, string>, inputs: Inputs): Inputs {
  const given = Object.fromEntries(
    Object.entries(ACTION.inputs).map(([key, { default: value = "" }]) => [
      key,
      inputs[key] ?? (value.includes("${{") ? "" : value),
    ]),
  );
  for (const step of ACTION.runs.steps) {
    const outputs = outputsIn(env.GITHUB_OUTPUT ?? "");
    const left = outputs.left === "yes";
    if (step.if === "inputs.from != ''" && given.from === "") continue;
    if (step.if === "steps.work.outputs.left == 'yes'" && !left) continue;
    if (step.if === "steps.work.outputs.left != 'yes'" && left) continue;
    if (step.run === undefined) {
      act(step, env);
      continue;
    }
    const own = Object.entries(step.env ?? {}).map(([key, text]) => [
      key,
      filled(text, given, outputs),
    ]);
    const shell = ["--noprofile", "--norc", "-eo", "pipefail", "-c", step.run];
    const all = { ...env, ...Object.fromEntries(own) };
    execFileSync("bash", shell, { cwd: world.path(name), env: all, stdio: "pipe" });
  }
  return outputsIn(env.GITHUB_OUTPUT ?? "");
}

/** What the actions do that the workflow uses, as far as it matters here. */
function act({ uses = "", with: given = {} }: Step, env: Record<string, string>): void {
  const path = String(given.path ?? "").replace("${{ runner.temp }}", env.RUNNER_TEMP ?? "");
  const [action] = uses.split("@");
  switch (action) {
    case "actions/checkout":
    case "actions/setup-node":
      return;
    case "actions/download-artifact":
      fs.copyFileSync(kept, join(path, "run.perdure"));
      return;
    case "actions/upload-artifact":
      fs.copyFileSync(path, kept);
      return;
    default:
      throw new Error(`the action uses ${uses}`);
  }
}

it("carries a run over the end of a job", () => {
  const origin = world.path("origin");
  fs.mkdirSync(origin);
  execFileSync("mkfifo", [world.path("forever")]);
  const endJob = `kill -TERM $(cat '${world.path("timeout-pid")}'); read _ < '${world.path("forever")}'`;
  const wait = `[ -e '${world.path("allowed")}' ] || { ${endJob}; }`;
  fs.writeFileSync(join(origin, ".gitignore"), "dist/\n.perdure/\n");
  fs.writeFileSync(
    join(origin, "pipeline.yaml"),
    `input: { type: object, properties: { who: { type: string } } }
steps:
  - id: build
    run: |
      ${world.effect("build")}
      echo "built \${{ input.who }}" > source.txt; echo made > "$PERDURE_OUTPUT_APP"
    outputs: { app: dist/app }
  - id: test
    run: |
      echo begun >> work.txt
      ${wait}
      cat source.txt \${{ outputs.build.app }} work.txt > '${world.path("result")}'
`,
  );
  userGit(origin, "init", "-q", "-b", "main");
  userGit(origin, "add", "-A");
  userGit(origin, "commit", "-q", "-m", "first");
  const commit = userGit(origin, "rev-parse", "HEAD").trim();

  const first = machine("first", origin, commit);
  expect(documentedInputs().filter((name) => ACTION.inputs[name] === undefined)).toEqual([]);
  const given = {
    ...{
      pipeline: "pipeline.yaml",
      install: "@anthropic-ai/claude-code",
      arguments: "-i who='a b'",
    },
    ...{ "pull-request": "7", token: "secret" },
  };
  expect(job("first", first, given)).toEqual({ status: "143", left: "yes" });
  const called = (): readonly string[] => world.read("called").split("\n").slice(0, -1);
  expect(called()).toEqual([
    "npm install --global perdure@latest @anthropic-ai/claude-code",
    `gh workflow run agents.yml --ref main -f from=4711 -f commit=${commit} -f pull-request=7`,
  ]);
  fs.rmSync(world.path("first"), { recursive: true });
  fs.rmSync(world.path("first-home"), { recursive: true });

  world.write("allowed", "");
  const second = machine("second", origin, commit);
  expect(job("second", second, { ...given, from: "4711" })).toEqual({ status: "0" });
  expect(world.effects()).toEqual({ build: 1 });
  expect(world.read("result")).toBe("built a b\nmade\nbegun\nbegun\n");
  expect(world.read("comment-1")).toMatch(/^<!-- perdure pipeline -->\n.*completed/s);
  expect(fs.readFileSync(second.GITHUB_STEP_SUMMARY ?? "", "utf8")).toContain("completed");

  // A later run of the same pipeline replaces the comment, and a failure is the status of the job.
  fs.writeFileSync(
    join(world.path("second"), "pipeline.yaml"),
    "steps: [{ id: a, run: exit 4 }]\n",
  );
  fs.rmSync(second.GITHUB_OUTPUT ?? "");
  fs.rmSync(join(second.RUNNER_TEMP ?? "", "run.perdure"));
  const plain = { pipeline: "pipeline.yaml", "pull-request": "7" };
  expect(() => job("second", second, plain)).toThrow();
  expect(outputsIn(second.GITHUB_OUTPUT ?? "")).toEqual({ status: "3" });
  expect(called().at(-1)).toContain("-X PATCH repos/ann/app/issues/comments/1 ");
  expect(world.read("comment-1")).toContain("failed");
});
