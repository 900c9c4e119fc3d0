/**
 * Full and read-only disks: the run stops with an error and the command that continues it, and
 * nothing is lost (P7, P10).
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

const NOBODY = 65_534;
const IS_ROOT = process.getuid?.() === 0;
/** Nothing is read-only for root. */
const AS_ORDINARY_USER = IS_ROOT ? { uid: NOBODY } : {};

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

/** Our program under a limit on the size of files, in blocks of 512 bytes. */
function limited(blocks: number): readonly string[] {
  return ["sh", "-c", `trap '' XFSZ; ulimit -f ${blocks}; exec "$@"`, "sh"];
}

function shell(command: string): void {
  execFileSync("/bin/sh", ["-c", command]);
}

it("stops with an error when the disk is full, and continues when there is room again", async () => {
  const steps = Array.from({ length: 60 }, (_, at) => `s${at}`);
  const lines = steps.map((id) => `  - id: ${id}\n    run: ${project.effect(id)}\n`);
  project.write("p.yaml", `steps:\n${lines.join("")}`);

  const full = await project.run(["run", "p.yaml"], { through: limited(256) });

  expect(full.exit, full.stdout + full.stderr).toBe(1);
  expect(full.stderr).not.toContain("internal error");
  expect(full.stderr).toContain("nothing recorded is lost");
  const command = /, then: perdure (resume [0-9a-f]{8})$/m.exec(full.stderr)?.[1];
  expect(command, full.stderr).toBeDefined();
  expect(Object.keys(project.effects()).length).toBeLessThan(60);
  const done = [...full.stdout.matchAll(/^✓ (\S+) completed/gm)].map((match) => match[1]);
  expect(done.length).toBeGreaterThan(0);

  const resumed = await project.run(command?.split(" ") ?? []);

  expect(resumed.exit, resumed.stderr).toBe(0);
  const effects = project.effects();
  expect(Object.keys(effects).sort()).toEqual([...steps].sort());
  for (const step of done) expect(effects[step ?? ""], step).toBe(1);
  expect(await project.must(["doctor"])).toContain("the journal is intact");
});

it("leaves running steps alone when the disk is full, and takes their result later", async () => {
  const hold = project.hold("slow");
  const noise = Array.from({ length: 80 }, (_, at) => `n${at}`);
  const lines = noise.map(
    (id, at) => `  - id: ${id}\n    needs: [${at === 0 ? "" : `n${at - 1}`}]
    run: "true"\n`,
  );
  project.write(
    "p.yaml",
    `steps:
  - id: slow
    run: |
      ${hold.command}
      ${project.effect("slow")}
${lines.join("")}`,
  );

  const full = await project.run(["run", "p.yaml"], { through: limited(256) });
  expect(full.exit, full.stderr).toBe(1);
  expect(full.stderr).toContain("nothing recorded is lost");
  await hold.release();
  const resumed = await project.run(["resume"]);

  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ slow: 1 });
});

it("stops with an error when its directory becomes read-only during a run", async () => {
  const hold = project.hold("one");
  if (IS_ROOT) for (const path of [project.dir, hold.path]) fs.chownSync(path, NOBODY, NOBODY);
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: |
      ${hold.command}
      ${project.effect("one")}
  - id: two
    run: ${project.effect("two")}
`,
  );
  const options = AS_ORDINARY_USER;
  const running = project.start(["run", "p.yaml"], options);
  await hold.arrived();
  const [runId = ""] = await project.runIds(options);
  const runDir = project.path(".perdure", "runs", runId);
  const closed = [
    project.path(".perdure"),
    runDir,
    ...["attempts", "receipts"].map((name) => `${runDir}/${name}`),
  ];
  for (const path of closed) fs.chmodSync(path, 0o500);
  await hold.release();
  const stopped = await running.ended;

  expect(stopped.exit, stopped.stdout + stopped.stderr).toBe(1);
  expect(stopped.stderr).toContain("it cannot be written: the permissions or the disk forbid it");
  expect(stopped.stderr).toContain(
    `make .perdure writable, then: perdure resume ${runId.slice(0, 8)}`,
  );
  const refused = await project.run(["resume"], options);
  expect(refused.exit).toBe(1);
  expect(refused.stderr).toContain("make .perdure writable, then: perdure resume");

  for (const path of closed) fs.chmodSync(path, 0o700);
  const resumed = await project.run(["resume"], options);

  expect(resumed.exit, resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ one: 1, two: 1 });
});

it("refuses to start a run where no state can be written", async () => {
  project.write("p.yaml", `steps:\n  - id: one\n    run: ${project.effect("one")}\n`);
  fs.chmodSync(project.dir, 0o555);

  const refused = await project.run(["run", "p.yaml"], AS_ORDINARY_USER);

  expect(refused.exit).toBe(1);
  expect(refused.stderr).toContain(
    `the state of the run cannot be kept in ${project.dir}/.perdure`,
  );
  expect(refused.stderr).toContain("next: make the directory writable, or run with -C DIR");
  expect(project.effects()).toEqual({});
});

it("continues a run whose output goes to a full disk, and warns once", async () => {
  project.write("p.yaml", `steps:\n  - id: one\n    run: ${project.effect("one")}\n`);

  const through = ["sh", "-c", 'exec "$@" > /dev/full', "sh"];
  const result = await project.run(["run", "p.yaml"], { through });

  expect(result.exit, result.stderr).toBe(0);
  expect(result.stderr).toMatch(/^warning: no more output can be printed: ENOSPC.*\n$/);
  expect(project.effects()).toEqual({ one: 1 });
});

describe.runIf(IS_ROOT)("a disk of its own for the project", () => {
  beforeEach(() => {
    fs.mkdirSync(project.path(".perdure"));
    const options = "-t tmpfs -o size=1m,mode=700 perdure-test";
    shell(`mount ${options} '${project.path(".perdure")}'`);
  });
  afterEach(() => {
    shell(`umount --lazy '${project.path(".perdure")}'`);
  });

  it("stops the run, not the step, when it is full to the last byte", async () => {
    const hold = project.hold("one");
    project.write(
      "p.yaml",
      `steps:
  - id: one
    run: |
      ${hold.command}
      ${project.effect("one")}
  - id: two
    run: ${project.effect("two")}
`,
    );
    const running = project.start(["run", "p.yaml"]);
    await hold.arrived();
    const [runId = ""] = await project.runIds();
    const filler = project.path(".perdure", "filler");
    // It ends with an error: that is what a full disk is.
    shell(`dd if=/dev/zero of='${filler}' bs=1k 2>/dev/null || true`);
    const stopped = await running.kill("SIGTERM");

    expect(stopped.exit, stopped.stdout + stopped.stderr).toBe(1);
    expect(stopped.stderr).toContain("the disk is full, or a limit on its use is reached");
    expect(stopped.stderr).toContain(`free some space, then: perdure resume ${runId.slice(0, 8)}`);
    const refused = await project.run(["run", "p.yaml"]);
    expect(refused.exit).toBe(1);
    expect(refused.stderr).toContain("the disk is full");

    fs.rmSync(filler);
    await hold.release();
    const resumed = await project.run(["resume"]);

    expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
    expect(project.effects()).toEqual({ one: 1, two: 1 });
  });

  it("loses no exit status when a step fills it, so that the step does not run again", async () => {
    const filler = project.path(".perdure", "filler");
    project.write(
      "p.yaml",
      `workspace: { snapshots: false }
steps:
  - id: a
    run: ${project.effect("a")}
  - id: b
    run: |
      ${project.effect("b")}
      dd if=/dev/zero of='${filler}' bs=1k 2>/dev/null || true
      cat /dev/zero >> '${filler}' 2>/dev/null || true
  - id: c
    run: ${project.effect("c")}
`,
    );
    const full = await project.run(["run", "p.yaml"]);

    expect(full.exit, full.stdout + full.stderr).toBe(1);
    expect(full.stderr).toContain("the disk is full, or a limit on its use is reached");
    const command = /free some space, then: perdure (resume [0-9a-f]{8})$/m.exec(full.stderr);
    expect(command, full.stderr).not.toBeNull();
    expect(project.effects()).toEqual({ a: 1, b: 1 });

    fs.rmSync(filler);
    const resumed = await project.run(command?.[1]?.split(" ") ?? []);

    expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
    expect(project.effects()).toEqual({ a: 1, b: 1, c: 1 });
  });
});
