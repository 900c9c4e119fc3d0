/** The workflow in docs/github-actions.md: its own shell lines, job after job, on two machines. */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { dirname, join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { parse } from "yaml";
import { cleanEnvironment, PROGRAM, Project } from "../rig/project.ts";
import { userGit } from "../workspace/rig.ts";

interface Step {
  readonly name?: string;
  readonly if?: string;
  readonly run?: string;
  readonly uses?: string;
  readonly with?: Readonly<Record<string, string | number>>;
}

/** What hangs must not hang for ever; nothing here takes a tenth of it. */
const PATIENCE_MS = 120_000;
const DOCUMENT = resolve(import.meta.dirname, "../../docs/github-actions.md");

function workflowSteps(): readonly Step[] {
  const text = /```yaml\n(.*?)```/s.exec(fs.readFileSync(DOCUMENT, "utf8"))?.[1] ?? "";
  const workflow = parse(text) as { jobs: { leg: { steps: Step[] } } };
  return workflow.jobs.leg.steps;
}

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
  // The time is up when a step says so, or never; not after seconds that a busy machine needs longer for.
  program(
    "timeout",
    `[ "$1 $2" = "--preserve-status --kill-after=10m" ] || exit 99
limit=$3; shift 3
"$@" & child=$!
if [ "$limit" = until-begun ]; then read _ < '${world.path("begun")}'; kill -TERM $child; fi
wait $child`,
  );
  program("npm", `echo "npm $*" >> '${world.path("called")}'`);
  program("gh", `echo "gh $*" >> '${world.path("called")}'`);
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
    GITHUB_RUN_ID: "4711",
    GITHUB_REF_NAME: "main",
  };
}

/** Does what the job does, action by action; true when work is left. */
function leg(name: string, env: Record<string, string>, from: string): boolean {
  let left = false;
  for (const step of workflowSteps()) {
    if (step.if === "inputs.from != ''" && from === "") continue;
    if (step.if?.startsWith("steps.work.") === true && !left) continue;
    if (step.run !== undefined) {
      const shell = ["--noprofile", "--norc", "-eo", "pipefail", "-c", step.run];
      const options = { cwd: world.path(name), env, stdio: "pipe", timeout: PATIENCE_MS } as const;
      execFileSync("bash", shell, options);
    } else act(step, env);
    const output = env.GITHUB_OUTPUT ?? "";
    left = fs.existsSync(output) && fs.readFileSync(output, "utf8") === "left=yes\n";
  }
  return left;
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
      throw new Error(`the workflow uses ${uses}`);
  }
}

it("carries a run over the end of a job", () => {
  const origin = world.path("origin");
  fs.mkdirSync(origin);
  for (const name of ["begun", "forever"]) execFileSync("mkfifo", [world.path(name)]);
  const wait = `if [ ! -e '${world.path("allowed")}' ]; then
        echo begun > '${world.path("begun")}'
        read _ < '${world.path("forever")}'
      fi`;
  fs.writeFileSync(join(origin, ".gitignore"), "dist/\n.perdure/\n");
  fs.writeFileSync(
    join(origin, "pipeline.yaml"),
    `steps:
  - id: build
    run: |
      ${world.effect("build")}
      echo built > source.txt; echo made > "$PERDURE_OUTPUT_APP"
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
  expect(leg("first", { ...first, LEG: "until-begun" }, "")).toBe(true);
  expect(world.read("called").split("\n").slice(0, -1)).toEqual([
    "npm install --global perdure @anthropic-ai/claude-code",
    `gh workflow run agents.yml --ref main -f from=4711 -f commit=${commit}`,
  ]);
  fs.rmSync(world.path("first"), { recursive: true });
  fs.rmSync(world.path("first-home"), { recursive: true });

  world.write("allowed", "");
  const second = machine("second", origin, commit);
  expect(leg("second", { ...second, LEG: "340m" }, "4711")).toBe(false);
  expect(world.effects()).toEqual({ build: 1 });
  expect(world.read("result")).toBe("built\nmade\nbegun\nbegun\n");
});
