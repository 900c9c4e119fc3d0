/**
 * `perdure service`: runs continue without a person, schedules start, and old runs are cleaned.
 */
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, it } from "vitest";
import { bundledProgram } from "../rig/bundled-program.ts";
import { machineWith, needNamespaces } from "../rig/namespace.ts";
import { killProcess, PlainProject, type Program, type Project } from "../rig/project.ts";

const PASS = await bundledProgram(resolve(import.meta.dirname, "../rig/service-pass.ts"));
const BOOT_ID = "/proc/sys/kernel/random/boot_id";
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

let project: Project;
beforeEach(() => {
  project = new PlainProject();
  mkdirSync(project.path("pipelines"));
});
afterEach(() => project.remove());

/** One look of the service at all projects, at a time. */
async function pass(now: number, options: Parameters<Project["run"]>[1] = {}): Promise<string> {
  const { exit, stdout, stderr } = await project.script(PASS, [String(now)], options).ended;
  expect(exit, stdout + stderr).toBe(0);
  return stdout;
}

/** A pipeline whose first step waits the first time that it runs. */
async function heldRun(name: string, through: readonly string[]): Promise<Program> {
  const hold = project.hold(name);
  const first = `${project.effect(`${name}1`)}; if mkdir ${name}-once; then ${hold.command}; fi`;
  const steps = `[{ id: one, run: "${first}" }, { id: two, run: "${project.effect(`${name}2`)}" }]`;
  project.write(`${name}.yaml`, `steps: ${steps}\n`);
  const runner = project.start(["run", `${name}.yaml`], { through });
  await hold.arrived();
  return runner;
}

interface Standing {
  readonly pid: number | null;
  readonly cleans_from: string | null;
  readonly schedules: readonly { readonly file: string; readonly next: string }[];
  readonly problems: readonly { readonly run_id: string; readonly message: string }[];
}

async function standing(): Promise<Standing> {
  return JSON.parse(await project.must(["service", "status", "--json"]));
}

/** How many runs are running; a question to the journal costs less than a process. */
function running(): number {
  const journal = new DatabaseSync(project.path(".perdure", "state.db"), { readOnly: true });
  try {
    const sql = "SELECT count(*) AS runs FROM pipeline_state WHERE status = 'running'";
    return Number(journal.prepare(sql).get()?.runs);
  } finally {
    journal.close();
  }
}

async function effectsBecome(expected: Readonly<Record<string, number>>): Promise<void> {
  await expect.poll(() => project.effects()).toEqual(expected);
  await expect.poll(running).toBe(0);
}

it("continues runs after a reboot that no person stopped, and runs a missed schedule once", async () => {
  needNamespaces();
  const before = machineWith(project.dir, { [BOOT_ID]: `${randomUUID()}\n` });
  const nightly = `on: { schedule: "0 3 * * *" }\nsteps: [{ id: a, run: "${project.effect("nightly")}" }]\n`;
  project.write("pipelines/nightly.yaml", nightly);
  const cut = await heldRun("cut", before);
  const told = await heldRun("told", before);
  const stopped = await heldRun("stopped", before);
  project.write(
    "gate.yaml",
    `steps: [{ id: go, gate: Go? }, { id: b, run: "${project.effect("gate")}" }]\n`,
  );
  expect((await project.run(["run", "gate.yaml"], { through: before })).exit).toBe(6);
  await project.must(["answer", await project.newestId(), "go", "approve"], { through: before });
  const now = Date.now();
  await pass(now, { through: before }).then((text) => expect(text).toContain("was answered"));
  await expect.poll(() => project.effects().gate).toBe(1);
  expect(project.effects().nightly).toBeUndefined();

  // A person stops one run; then the machine goes down: one run is told, the other is not.
  await stopped.kill("SIGINT");
  await told.kill("SIGTERM");
  await cut.kill("SIGKILL");
  await project.killSteps();

  const later = now + 3 * DAY_MS;
  const text = await pass(later);
  expect(text).toContain("(cut) ");
  expect(text).toContain("had been shut down");
  const effects = { cut1: 2, cut2: 1, told1: 2, told2: 1, stopped1: 1, gate: 1 };
  await effectsBecome({ ...effects, nightly: 1 });
  // Nothing more is due, until the next night.
  expect(await pass(later + 60_000)).toBe("");
  expect(await pass(later + DAY_MS)).toContain("started run");
  await effectsBecome({ ...effects, nightly: 2 });
});

it("ends waits and questions after a reboot whose time is over, with their original times", async () => {
  needNamespaces();
  const before = machineWith(project.dir, { [BOOT_ID]: `${randomUUID()}\n` });
  const steps = (name: string, held: string): string =>
    `steps: [{ id: a, run: "${project.effect(`${name}1`)}" }, ${held}, { id: b, run: "${project.effect(`${name}2`)}" }]\n`;
  project.write(
    "late.yaml",
    steps("late", "{ id: go, gate: { ask: Go?, timeout: 3s, default: approve } }"),
  );
  project.write(
    "open.yaml",
    steps("open", "{ id: go, gate: { ask: Go?, timeout: 20d, default: approve } }"),
  );
  project.write("wait.yaml", steps("wait", "{ id: w, wait: 15s }"));
  project.write("long.yaml", steps("long", "{ id: w, wait: 20d }"));
  for (const name of ["late", "open"]) {
    const asked = await project.run(["run", `${name}.yaml`], { through: before });
    expect(asked.exit, asked.stdout + asked.stderr).toBe(6);
  }
  const wakes = async (): Promise<readonly unknown[]> => {
    const ids = await project.runIds();
    return ids
      .map((id) => project.read(".perdure", "runs", id, "events.jsonl"))
      .flatMap((text) => [...text.matchAll(/"wake":\{[^}]*\}/g)].map(([wake]) => wake));
  };
  const runners = ["wait", "long"].map((name) =>
    project.start(["run", `${name}.yaml`], { through: before }),
  );
  await expect.poll(async () => (await wakes()).length).toBe(2);
  const known = await wakes();
  for (const runner of runners) await runner.kill();
  expect(project.effects()).toEqual({ late1: 1, open1: 1, wait1: 1, long1: 1 });

  // The service of the next boot looks until the question's time is over; what it starts waits by the
  // clock of the machine.
  const look = async (): Promise<unknown> => {
    await pass(Date.now());
    return project.effects().late2;
  };
  await expect.poll(look, { interval: 2_000 }).toBe(1);
  const both = { late1: 1, late2: 1, open1: 1, wait1: 1, wait2: 1, long1: 1 };
  await expect.poll(() => project.effects()).toEqual(both);
  expect(await wakes()).toEqual(known);
  const running = JSON.parse(await project.must(["list", "runs", "--status", "running", "--json"]));
  expect(JSON.stringify(running)).toContain("long");
});

it("neither loses nor doubles a scheduled run when it is killed", async () => {
  const file = "pipelines/nightly.yaml";
  project.write(
    file,
    `on: { schedule: "0 3 * * *" }\nsteps: [{ id: a, run: "${project.effect("nightly")}" }]\n`,
  );
  project.write("p.yaml", "steps: [{ id: a, run: echo }]\n");
  await project.must(["run", "p.yaml"]);
  const start = Date.now();
  await pass(start);
  const [schedule] = (await standing()).schedules;
  expect(schedule).toMatchObject({ file: project.path(file) });
  expect(Date.parse(schedule?.next ?? "")).toBeGreaterThan(start);
  // The kill meets the service, or one of the processes that it starts.
  for (const [night, kill] of [1, 2, 3].entries()) {
    const due = start + (night + 1) * DAY_MS;
    const env = { PERDURE_FAILPOINT: String(kill) };
    await project.script(PASS, [String(due)], { env }).ended;
    await expect
      .poll(
        async () => {
          await pass(due + HOUR_MS / 2);
          return project.effects();
        },
        { interval: 1_000 },
      )
      .toEqual({ nightly: night + 1 });
  }
  expect(await project.runIds()).toHaveLength(4);
});

it("cleans completed runs after seven days, a day after it has announced it", async () => {
  project.write("good.yaml", "steps: [{ id: a, run: echo }]\n");
  project.write("bad.yaml", "steps: [{ id: a, run: exit 1 }]\n");
  project.write("own.yaml", "workspace: directory\nsteps: [{ id: a, run: echo > file }]\n");
  await project.must(["run", "good.yaml"]);
  const good = await project.newestId();
  await project.run(["run", "bad.yaml"]);
  await project.must(["run", "own.yaml"]);
  const folder = (id: string): string => join(".perdure", "runs", id);

  const late = Date.now() + 8 * DAY_MS;
  project.write("perdure.yaml", "service: { clean: never }\n");
  await pass(late);
  expect(await standing()).toMatchObject({ cleans_from: null, pid: null });
  project.write("perdure.yaml", "service: { clean: 7d }\n");
  expect(await pass(late)).toBe("");
  expect((await standing()).cleans_from).toBe(new Date(late + DAY_MS).toISOString());
  expect((await project.run(["list"])).stderr).toContain("service: {clean: never}");
  expect(project.exists(folder(good))).toBe(true);

  expect(await pass(late + DAY_MS)).toContain("cleaned 1 completed run");
  const left = (await project.runIds()).filter((id) => project.exists(folder(id)));
  expect(left).toHaveLength(2);
  expect(left).not.toContain(good);

  const wrong = `on: { schedule: "0 25 * * *" }\nsteps: [{ id: a, run: echo }]\n`;
  project.write("wrong.yaml", wrong);
  const { stderr } = await project.run(["validate", "wrong.yaml"]);
  expect(stderr).toMatch(/is not a schedule\n +--> wrong\.yaml:1:/);
});

it("runs once per user, and gives up on a run that keeps dying", async () => {
  const runner = await heldRun("sick", []);
  await runner.kill("SIGKILL");
  const id = await project.newestId();
  const service = project.start(["service", "run"]);
  await service.printed("its process had died");
  const refused = await project.run(["service", "run", "--once"]);
  expect(refused.exit).toBe(1);
  expect(refused.stderr).toContain("perdure service status");
  expect(await standing()).toMatchObject({ pid: service.pid, problems: [] });
  expect((await service.kill("SIGTERM")).exit).toBe(0);

  const owner = async (): Promise<number> => {
    const { owner } = JSON.parse(await project.must(["show", id, "--json"]));
    return owner.pid;
  };
  for (let deaths = 0; deaths < 2; deaths++) {
    await killProcess(await owner());
    expect(await pass(Date.now())).toContain("its process had died");
  }
  await killProcess(await owner());
  expect(await pass(Date.now())).toContain("without getting further");
  const { problems } = await standing();
  expect(problems).toMatchObject([{ run_id: id, directory: project.dir }]);
  const status = await project.must(["service", "status"]);
  expect(status).toContain("needs you");
  expect(status).toContain(`perdure -C ${project.dir} why ${id}`);
  // What it suggests works.
  expect(await project.must(["-C", project.dir, "why", id])).toContain("perdure resume");
});

it("delivers a notice whose process was killed", async () => {
  const hold = project.hold("receiver");
  const told = `${project.effect("told")}; if mkdir once; then ${hold.command}; fi`;
  const notify = `notify: { on: [completed], run: "${told}" }`;
  project.write("p.yaml", `${notify}\nsteps: [{ id: a, run: echo }]\n`);
  await project.must(["run", "p.yaml"]);
  await hold.arrived();
  // A notifier that lives is left alone.
  await pass(Date.now());
  const id = await project.newestId();
  const { pid } = JSON.parse(project.read(".perdure", "runs", id, "notifier.json"));
  await killProcess(pid);
  await pass(Date.now());
  const unsent = async (): Promise<unknown> => {
    const { notices } = JSON.parse(await project.must(["show", id, "--json"]));
    return notices[0].sent_at;
  };
  await expect.poll(unsent).toBeTruthy();
  expect(project.effects()).toEqual({ told: 2 });
  await hold.release();
});

it("installs and removes a unit of systemd", async () => {
  mkdirSync(project.path("bin"));
  project.write("bin/systemctl", `#!/bin/sh\necho "$@" >> '${project.path("calls")}'\n`);
  chmodSync(project.path("bin", "systemctl"), 0o755);
  const env = {
    PATH: `${project.path("bin")}:${process.env.PATH}`,
    XDG_CONFIG_HOME: project.path("config %"),
  };
  expect(await project.must(["service", "install"], { env })).toContain("The service runs");
  const unit = project.path("config %", "systemd", "user", "perdure.service");
  const text = readFileSync(unit, "utf8");
  expect(text).toMatch(/^ExecStart="[^"]+" "[^"]+perdure\.js" "service" "run"$/m);
  expect(text).toContain("KillMode=process");
  expect(text).toContain(`Environment="XDG_CONFIG_HOME=${project.path("config %%")}"`);
  // Where systemd is installed, it has nothing to say about the unit; it need not run.
  const verified = spawnSync("systemd-analyze", ["--user", "verify", unit], {
    env: { ...process.env, XDG_RUNTIME_DIR: project.dir },
    encoding: "utf8",
  });
  if (verified.error === undefined) expect([verified.status, verified.stderr]).toEqual([0, ""]);
  const removed = await project.must(["service", "uninstall", "--json"], { env });
  expect(JSON.parse(removed)).toMatchObject({ unit: null, pid: null });
  expect(project.read("calls").trim().split("\n")).toEqual([
    "--user daemon-reload",
    "--user enable perdure.service",
    "--user restart perdure.service",
    "--user disable --now perdure.service",
    "--user daemon-reload",
  ]);
});
