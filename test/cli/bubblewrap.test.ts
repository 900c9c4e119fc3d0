/**
 * Steps in bubblewrap: what they see, what they may write, and that a kill affects them like other
 * steps.
 */
import { chmodSync, chownSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { INSTALL_MS_MAX, needBubblewrap } from "../../scripts/bubblewrap.ts";
import { FakeClaude } from "../rig/fake-claude.ts";
import { shell, stateless, text } from "../rig/model/reply.ts";
import { eventually, PlainProject, Project } from "../rig/project.ts";
import { userGit } from "../workspace/rig.ts";

const SECRET = "s3cret-of-the-runner";
/** The stand-in for the agent is here; a checkout in `/tmp` is invisible in a sandbox unless mounted. */
const ROOT = resolve(import.meta.dirname, "../..");

let project: Project;
beforeAll(needBubblewrap, INSTALL_MS_MAX);
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** The lines that a step wrote to the file `seen`. */
const seen = (): readonly string[] => project.read("seen").trim().split("\n");

/** The processes of this machine whose command line has a text: inside of a sandbox, too. */
function processesWith(text: string): readonly string[] {
  return readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return new Project("/proc").read(name, "cmdline").includes(text);
    } catch (error) {
      if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return false;
      throw error;
    }
  });
}

/** Shell text that leaves a process in a session of its own, without the attempt's marker. */
const escapes = (name: string): string =>
  `setsid env -i PATH="$PATH" sh -c 'sleep 987654; : ${name}' & until ps -eo args | grep -q '[ ]987654; : ${name}'; do :; done`;

it("lets a step write only to its workspace, and see only its own variables", async () => {
  project.write(
    "p.yaml",
    `env: {OF_PIPELINE: yes-1}
steps:
  - id: look
    runs_in: {sandbox: bubblewrap, network: false, variables: [CHOSEN], mounts: [shared, "fixed:ro"]}
    env: {OF_STEP: "it's \${{ input.text }}"}
    outputs: {made: made}
    check: test "$$" -lt 100 && test -z "$UNCHOSEN" && ${project.effect("check")}
    run: |
      try() { if (eval "$1") 2>/dev/null; then echo "yes: $1"; else echo "no: $1"; fi >>seen; }
      echo "$OF_PIPELINE $OF_STEP $CHOSEN \${UNCHOSEN-unset}" >>seen
      try 'echo x > made'
      try 'echo x > shared/made'
      try 'echo x > fixed/made'
      try 'echo x > .perdure/made'
      try 'echo x > /etc/made-in-a-sandbox'
      try 'echo x > /tmp/made-in-a-sandbox'
      try 'echo x > ~/made-in-a-sandbox'
      try 'test -e ~/private'
      try 'grep -q : /proc/net/route'
      try 'grep -l . /proc/[0-9]*/cmdline | grep -q "/proc/[0-9]\\{3\\}"'
      try 'grep -q "$CHOSEN" /proc/1/cmdline'
      echo "context=\${{ input.text }}" >> "$PERDURE_CONTEXT"
`,
  );
  for (const name of ["home", "shared", "fixed"]) mkdirSync(project.path(name));
  project.write("home/private", "x");
  const HOME = project.path("home");
  const env = { HOME, CHOSEN: SECRET, UNCHOSEN: SECRET };

  await project.must(["run", "p.yaml", "-i", `text=$(touch ${SECRET})'`], { env });

  expect(seen()).toEqual([
    `yes-1 it's $(touch ${SECRET})' ${SECRET} unset`,
    "yes: echo x > made",
    "yes: echo x > shared/made",
    "no: echo x > fixed/made",
    "no: echo x > .perdure/made",
    "no: echo x > /etc/made-in-a-sandbox",
    "yes: echo x > /tmp/made-in-a-sandbox",
    "yes: echo x > ~/made-in-a-sandbox",
    "no: test -e ~/private",
    "no: grep -q : /proc/net/route",
    'no: grep -l . /proc/[0-9]*/cmdline | grep -q "/proc/[0-9]\\{3\\}"',
    'no: grep -q "$CHOSEN" /proc/1/cmdline',
  ]);
  expect(readdirSync(HOME)).toEqual(["private"]);
  expect(project.effects()).toEqual({ check: 1 });
  const { context } = JSON.parse(await project.must(["show", "--json"])) as { context: object };
  expect(context).toMatchObject({ context: `$(touch ${SECRET})'` });
});

it("gives files to the user, even without root", async () => {
  const user = process.getuid?.() === 0 ? 65_534 : (process.getuid?.() ?? 0);
  if (process.getuid?.() === 0) chownSync(project.dir, user, user);
  chmodSync(project.dir, 0o755);
  project.write("p.yaml", "defaults: {runs_in: bubblewrap}\nsteps: [{id: a, run: id -u > seen}]\n");
  mkdirSync(project.stateHome);
  if (process.getuid?.() === 0) chownSync(project.stateHome, user, user);

  const result = await project.run(["run", "p.yaml"], {
    ...(process.getuid?.() === 0 ? { uid: user } : {}),
    env: { HOME: project.dir, XDG_CACHE_HOME: project.stateHome },
  });

  expect(result.exit, result.stderr).toBe(0);
  expect(seen()).toEqual([String(user)]);
  expect(statSync(project.path("seen")).uid).toBe(user);
});

it("lets a step commit in a worktree, but not change what git runs outside", async () => {
  await project.remove();
  project = new Project();
  userGit(project.dir, "init", "-q", "-b", "main");
  project.write(
    "p.yaml",
    `workspace: worktree
defaults: {runs_in: bubblewrap}
steps:
  - id: shared
    run: |
      git rev-parse --git-common-dir > here
      git add here && git -c user.name=a -c user.email=a@b commit -qm 'in a sandbox'
      ! echo x >> "$(cat here)/config"
      ! echo x > "$(cat here)/hooks/pre-commit"
      ! rm "$(cat here)/HEAD"
      ! rm .git
      echo x > ${project.path("outside")} || true
  - id: alone
    workspace: own
    run: git status --porcelain && git log --oneline -1 && echo own > own-file
`,
  );
  userGit(project.dir, "add", ".");
  userGit(project.dir, "commit", "-qm", "first");

  await project.must(["run", "p.yaml"]);
  expect(project.exists("outside")).toBe(false);
  const [id = ""] = await project.runIds();
  await project.must(["merge", id.slice(0, 8)]);

  expect(userGit(project.dir, "log", "--format=%s")).toContain("in a sandbox");
  expect(project.read("own-file")).toBe("own\n");
});

it("lets a step outlive a killed runner, whose successor takes its result", async () => {
  const hold = project.hold("work");
  project.write(
    "p.yaml",
    `steps:
  - id: work
    runs_in: bubblewrap
    check: ${project.effect("check")}
    run: |
      ${project.effect("work")}
      ${hold.command}
      echo "answer=42" >> "$PERDURE_CONTEXT"
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.kill();
  const resumed = project.start(["resume"]);
  await resumed.printed("re-attached");
  await hold.release();

  expect((await resumed.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ work: 1, check: 1 });
  const { context } = JSON.parse(await project.must(["show", "--json"])) as { context: object };
  expect(context).toMatchObject({ answer: "42" });
});

it("ends everything inside before the next attempt after a kill of the whole tree", async () => {
  const hold = project.hold("work");
  project.write(
    "p.yaml",
    `steps:
  - id: work
    runs_in: bubblewrap
    run: |
      ${project.effect("work")}
      ${escapes("$PERDURE_ATTEMPT")}
      ${hold.command}
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  const text = "987654; : ";
  expect(processesWith(text).length).toBeGreaterThan(0);
  await runner.kill();
  await project.killSteps();
  const resumed = project.start(["resume"]);
  await hold.arrived();
  await eventually("only the second attempt lives", () => processesWith(`${text}1`).length === 0);
  await hold.release();

  expect((await resumed.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ work: 2 });
  expect(processesWith(text)).toEqual([]);
});

it("gives the work its grace period at a stop, and then ends everything inside", async () => {
  const hold = project.hold("work");
  project.write(
    "p.yaml",
    `steps:
  - id: work
    runs_in: bubblewrap
    run: |
      sh -c 'trap "sleep 0.1; ${project.effect("saved").replaceAll("'", "")}; exit 0" TERM; ${hold.command.replaceAll("'", "")} & wait'
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();

  expect((await runner.kill("SIGTERM")).exit).toBe(143);
  expect(project.effects()).toEqual({ saved: 1 });
  expect(project.stepProcesses()).toEqual([]);
});

it("runs a probe where its step runs", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: deploy
    once: {probe: ./probe.sh}
    runs_in: bubblewrap
    run: |
      ${project.effect("deploy")}
      kill -9 $$
`,
  );
  project.write("probe.sh", `test "$$" -lt 100 && ${project.effect("probe")}\n`);
  chmodSync(project.path("probe.sh"), 0o755);
  const result = await project.run(["run", "p.yaml"]);

  expect(result.exit, result.stdout).toBe(0);
  expect(project.effects()).toEqual({ deploy: 1, probe: 1 });
});

it("gives an agent its login and its conversations, also in a new sandbox", async () => {
  const waits = "read _ < hold-tool && echo > hold-tool.gone";
  const fake = await FakeClaude.open(stateless(shell(waits), text("done")));
  try {
    const hold = fake.hold("tool");
    fake.write(
      "p.yaml",
      `steps:
  - id: fix
    agent: claude
    prompt: Fix it.
    runs_in: {sandbox: bubblewrap, variables: [FAKE_AGENT_HOME], mounts: ["${ROOT}:ro"]}
`,
    );
    const HOME = `${fake.stateHome}/home`;
    const CLAUDE_CONFIG_DIR = `${HOME}/.claude`;
    mkdirSync(HOME, { recursive: true });
    const env = { HOME, CLAUDE_CONFIG_DIR, FAKE_AGENT_HOME: `${CLAUDE_CONFIG_DIR}/projects/here` };
    const runner = fake.begin(["run", "p.yaml", "--no-preflight"], env);
    await hold.arrived();
    await runner.kill();
    await fake.killSteps();
    const resumed = fake.begin(["resume", "--no-preflight"], env);
    await hold.release();

    expect((await resumed.ended).exit, resumed.stdout + resumed.stderr).toBe(0);
    expect(await fake.said()).toEqual(["fix: task in 1", "fix: interrupted in 1"]);
    expect(readdirSync(HOME)).toEqual([".claude"]);
  } finally {
    await fake.close();
  }
});

it("reports a missing bubblewrap before anything starts", async () => {
  project.write(
    "p.yaml",
    `steps:
  - {id: first, run: ${project.effect("first")}}
  - {id: second, run: echo, runs_in: bubblewrap}
`,
  );
  mkdirSync(project.path("bin"));
  const PATH = project.path("bin");
  const refused = await project.run(["run", "p.yaml"], { env: { PATH } });

  expect(refused.exit, refused.stdout + refused.stderr).toBe(2);
  expect(refused.stderr).toContain("install the package bubblewrap");
  expect(project.effects()).toEqual({});
});
