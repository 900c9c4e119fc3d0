/**
 * Steps in containers, with a stand-in for docker and podman (test/rig/container-runtime.ts) whose
 * containers outlive their clients and are found only by asking it; and with a real one if there is
 * one.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually, PlainProject, type Project } from "../rig/project.ts";

const RUNTIME = resolve(import.meta.dirname, "../rig/container-runtime.ts");
const SECRET = "s3cret-of-the-runner";

let project: Project;
let env: Record<string, string>;
beforeEach(() => {
  project = new PlainProject();
  mkdirSync(project.path("home"));
  env = { HOME: project.path("home"), PATH: `${project.path("bin")}:${process.env.PATH}` };
  install("docker");
});
afterEach(() => project.remove());

/** Puts a stand-in first on the PATH; its state is below `runtime`. */
function install(name: "docker" | "podman", info = "[]"): void {
  for (const folder of ["bin", "runtime"]) mkdirSync(project.path(folder), { recursive: true });
  mkdirSync(project.path("runtime", name));
  const state = project.path("runtime", name);
  writeFileSync(
    project.path("bin", name),
    `#!/bin/sh
RUNTIME_INFO='${info}' RUNTIME_STATE='${state}' exec '${process.execPath}' '${RUNTIME}' "$@"
`,
    { mode: 0o755 },
  );
}

/** The arguments of all calls of a runtime. */
function calls(name = "docker"): readonly (readonly string[])[] {
  const lines = project.read("runtime", name, "calls").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as string[]);
}

const containers = (): readonly string[] =>
  readdirSync(project.path("runtime", "docker", "containers"));

/** The values of an option in the first container's command. */
function given(option: string, name?: string): readonly string[] {
  const words = calls(name).find(([command]) => command === "run") ?? [];
  return words.filter((_, at) => words[at - 1] === option);
}

it("runs a step in the image, with its workspace, its variables and its check", async () => {
  project.write(
    "p.yaml",
    `secrets: [TOKEN]
defaults: {runs_in: {image: "alpine:3", network: false, variables: [TOKEN]}}
steps:
  - id: work
    env: {OF_STEP: "\${{ env.TOKEN }}"}
    outputs: {made: made}
    check: test "$IN_CONTAINER" = alpine:3 && ${project.effect("check")}
    run: |
      test "$IN_CONTAINER $TOKEN $OF_STEP $UNCHOSEN" = "alpine:3 ${SECRET} ${SECRET} "
      printf '%s' "\${{ env.TOKEN }}" > made
      echo answer=42 >> "$PERDURE_CONTEXT"
  - id: outside
    runs_in: host
    run: test -z "$IN_CONTAINER" && test "$(cat made)" = "$TOKEN"
`,
  );
  await project.must(["run", "p.yaml"], { env: { ...env, TOKEN: SECRET, UNCHOSEN: "x" } });

  expect(project.effects()).toEqual({ check: 1 });
  expect(JSON.stringify(calls())).not.toContain(SECRET);
  expect(given("--network")).toEqual(["none"]);
  expect(given("--user")).toEqual([`${process.getuid?.()}:${process.getgid?.()}`]);
  const state = project.path(".perdure");
  expect(given("--mount")).toEqual([
    `type=bind,source=${project.dir},target=${project.dir}`,
    `type=bind,source=${state},target=${state},readonly`,
    expect.stringMatching(/attempts\/work@1\.1$/),
  ]);
  expect(given("--env")).toEqual(expect.arrayContaining(["TOKEN", "OF_STEP", "HOME"]));
  expect(given("--env")).not.toContain("PATH");
  expect(given("--env")).not.toContain("UNCHOSEN");
  const { context } = JSON.parse(await project.must(["show", "--json"])) as { context: object };
  expect(context).toMatchObject({ answer: "42" });
});

/** A run whose step waits in its container, the first time only. */
async function heldRun(): ReturnType<typeof start> {
  const hold = project.hold("work");
  project.write(
    "p.yaml",
    `steps:
  - id: work
    runs_in: {image: alpine}
    run: |
      ${project.effect("work")}
      test "$PERDURE_ATTEMPT" != 1 || ${hold.command}
      ${project.effect("done")}
`,
  );
  return start(hold);
}

async function start(hold: ReturnType<Project["hold"]>) {
  const runner = project.start(["run", "p.yaml"], { env });
  await hold.arrived();
  return { hold, runner };
}

it("lets a step outlive a killed runner, whose successor takes its result", async () => {
  const { hold, runner } = await heldRun();
  await runner.kill();
  const resumed = project.start(["resume"], { env });
  await resumed.printed("re-attached");
  await hold.release();

  expect((await resumed.ended).exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ work: 1, done: 1 });
  expect(containers()).toEqual([]);
});

it("ends a container that outlived its client before the next attempt", async () => {
  const { runner } = await heldRun();
  await runner.kill();
  await project.killSteps();
  expect(containers()).toHaveLength(1);
  await project.must(["resume"], { env });

  expect(project.effects()).toEqual({ work: 2, done: 1 });
  expect(containers()).toEqual([]);
});

it("ends a container when only its client was killed", async () => {
  const { runner } = await heldRun();
  await project.killSteps();

  expect((await runner.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ work: 2, done: 1 });
  expect(containers()).toEqual([]);
});

it("ends a container with `stop` when nothing else is left of its step", async () => {
  const { runner } = await heldRun();
  await runner.kill();
  await project.killSteps();
  await project.must(["stop"], { env });

  expect(containers()).toEqual([]);
  expect(project.effects()).toEqual({ work: 1 });
});

it("continues nothing while the runtime does not answer", async () => {
  const { runner } = await heldRun();
  await runner.kill();
  await project.killSteps();
  writeFileSync(project.path("runtime", "docker", "down"), "");
  // Nothing else is on the PATH, whatever this machine has.
  const alone = { ...env, PATH: project.path("bin") };
  const refused = await project.run(["resume"], { env: alone });
  expect(refused.exit).toBe(2);
  expect(refused.stderr).toContain("docker does not answer");
  // A person who insists does not get a second container beside the first one.
  const insisted = await project.run(["resume", "--no-preflight"], { env: alone });
  expect(insisted.exit).not.toBe(0);
  expect(insisted.stderr).toContain("it is not known whether a container is left");
  expect(project.effects()).toEqual({ work: 1 });
  rmSync(project.path("runtime", "docker", "down"));
  await project.must(["resume"], { env });

  expect(project.effects()).toEqual({ work: 2, done: 1 });
  expect(containers()).toEqual([]);
});

it("gives the work its grace period at a stop", async () => {
  const hold = project.hold("work");
  project.write(
    "p.yaml",
    `steps:
  - id: work
    runs_in: {image: alpine}
    run: ./work.sh && true
`,
  );
  writeFileSync(
    project.path("work.sh"),
    `#!/bin/sh\ntrap "sleep 0.3; ${project.effect("saved")}; exit 0" TERM\n${hold.command} & wait\n`,
    { mode: 0o755 },
  );
  const { runner } = await start(hold);

  expect((await runner.kill("SIGTERM")).exit).toBe(143);
  expect(project.effects()).toEqual({ saved: 1 });
  expect(containers()).toEqual([]);
});

it("uses podman where docker does not answer, and keeps the ids of the user", async () => {
  install("podman", "true");
  writeFileSync(project.path("runtime", "docker", "down"), "");
  project.write("p.yaml", "steps: [{id: a, run: echo a > made, runs_in: {image: alpine}}]\n");
  await project.must(["run", "p.yaml"], { env });

  expect(project.read("made")).toBe("a\n");
  expect(given("--userns", "podman")).toEqual(["keep-id"]);
  expect(calls().map(([command]) => command)).not.toContain("run");
});

it("reports a missing runtime before anything starts", async () => {
  project.write(
    "p.yaml",
    `steps:
  - {id: first, run: ${project.effect("first")}}
  - {id: second, run: echo, runs_in: {image: alpine}}
`,
  );
  const refused = await project.run(["run", "p.yaml"], { env: { PATH: project.path("nothing") } });

  expect(refused.exit, refused.stderr).toBe(2);
  expect(refused.stderr).toContain("neither docker nor podman is on the PATH");
  expect(project.effects()).toEqual({});
});

/** A real runtime with this image; nothing is fetched. */
const IMAGE = process.env.PERDURE_TEST_IMAGE ?? "alpine";
const REAL = ["docker", "podman"].find(
  (name) => spawnSync(name, ["image", "inspect", IMAGE]).status === 0,
);

it.runIf(REAL !== undefined)("adopts a real container, and ends it after a kill", async () => {
  rmSync(project.path("bin"), { recursive: true });
  const hold = project.hold("work");
  project.write(
    "p.yaml",
    `steps:
  - id: work
    runs_in: {image: "${IMAGE}", network: false}
    run: |
      ${project.effect("work")}
      test "$PERDURE_ATTEMPT" != 1 || ${hold.command}
      ${project.effect("done")}
`,
  );
  const { runner } = await start(hold);
  await runner.kill();
  await project.killSteps();
  await project.must(["resume"], { env });

  expect(project.effects()).toEqual({ work: 2, done: 1 });
  const [id = ""] = await project.runIds();
  const filter = ["ps", "--all", "--quiet", "--filter", `label=PERDURE_RUN_ID=${id}`];
  expect(spawnSync(REAL ?? "", filter, { encoding: "utf8" }).stdout).toBe("");
  await eventually("nothing is left", () => project.stepProcesses().length === 0);
});
