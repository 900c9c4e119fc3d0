/**
 * The processes that an attempt leaves running end with it, unless its step says otherwise (DESIGN
 * 21).
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** Shell text that waits until a file has so many lines of this text. */
function until(file: string, line: string, count: number): string {
  return `until [ "$(grep -c '^${line}$' ${file} || true)" -ge ${count} ]; do sleep 0.01; done`;
}

/** Shell text of a server in the background; `name` gets its pid. */
function server(name: string, before = "", how = "env"): string {
  return `${how} sh -c '${before} echo $$ > ${name}; while :; do sleep 0.1; done' &
      until [ -s ${name} ]; do sleep 0.01; done`;
}

/** Shell text that succeeds while the process lives; of a zombie there is no command line. */
const LIVES = "grep -q . /proc/$(cat pid)/cmdline";

const isAlive = (): boolean => project.stepProcesses().includes(Number(project.read("pid")));

it("lets nothing of an attempt write beside the next one, beside the next step, or after the run", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: one
    retry: 2
    run: |
      touch fx
      before=$(grep -c '^1$' fx || true)
      (while :; do echo $PERDURE_ATTEMPT >> fx; sleep 0.01; done) &
      ${until("fx", "$PERDURE_ATTEMPT", 5).replaceAll("'", '"')}
      echo $PERDURE_ATTEMPT >> ended
      test "$(grep -c '^1$' fx)" = "$before"
  - id: two
    run: |
      before=$(grep -c '^2$' fx)
      (for i in 1 2 3 4 5; do echo two >> fx; sleep 0.01; done) & wait
      test "$(grep -c '^2$' fx)" = "$before"
`,
  );

  const result = await project.run(["run", "p.yaml"]);

  expect(result.exit, result.stdout + result.stderr).toBe(0);
  expect(project.read("ended")).toBe("1\n2\n");
  expect(project.stepProcesses()).toEqual([]);
});

describe("a server that a step left running", () => {
  const cases = [
    ["in its group", "env", ""],
    ["in a session of its own", "setsid", ""],
    ["that ignores SIGTERM", "env", `trap "" TERM;`],
  ];
  it.each(cases)("%s is ended before the next step, and named", async (_name, how, before) => {
    project.write(
      "p.yaml",
      `steps:
  - id: one
    run: |
      ${server("pid", before, how)}
  - id: two
    run: |
      ! ${LIVES}
`,
    );

    const result = await project.run(["run", "p.yaml"]);

    expect(result.exit, result.stdout + result.stderr).toBe(0);
    const [runId = ""] = await project.runIds();
    const folder = [".perdure", "runs", runId, "receipts", "one-shell.json"];
    const receipt = JSON.parse(project.read(...folder)) as { left_running: object[] };
    expect(receipt.left_running).toContainEqual({
      pid: Number(project.read("pid")),
      command: expect.stringContaining("while :; do sleep 0.1; done"),
      survived: false,
    });
    expect(result.stdout).toMatch(/it left (a process|processes) running, which (was|were) ended/);
  });
});

describe("leaves_running", () => {
  function pipeline(rest: string): void {
    project.write(
      "p.yaml",
      `steps:
  - id: serve
    leaves_running: true
    run: |
      ${server("pid", "", "setsid")}
${rest}`,
    );
  }

  it("lets a server live for later steps, until the run completes", async () => {
    pipeline(`  - id: use\n    run: ${LIVES}\n`);
    const result = await project.run(["run", "p.yaml"]);
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(isAlive()).toBe(false);
  });

  it("ends it when the run fails", async () => {
    pipeline(`  - id: use\n    run: ${LIVES} && exit 3\n`);
    expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
    expect(isAlive()).toBe(false);
  });

  it("ends it when the run is stopped", async () => {
    const hold = project.hold("use");
    pipeline(`  - id: use\n    run: ${hold.command}\n`);
    const running = project.start(["run", "p.yaml"]);
    await hold.arrived();
    expect(isAlive()).toBe(true);
    await running.kill("SIGTERM");
    expect(isAlive()).toBe(false);
  });

  it("keeps it after a kill of the runner, and ends it at the end of the resumed run", async () => {
    const hold = project.hold("use");
    pipeline(`  - id: use\n    run: ${hold.command}\n  - id: last\n    run: ${LIVES}\n`);
    const running = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await running.kill("SIGKILL");
    expect(isAlive()).toBe(true);
    const resumed = project.start(["resume"]);
    await hold.release();
    const result = await resumed.ended;
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(isAlive()).toBe(false);
  });

  it("ends the server of an attempt that failed because of its outputs", async () => {
    project.write(
      "p.yaml",
      `steps:
  - id: serve
    leaves_running: true
    retry: 2
    outputs: { made: made }
    run: |
      test ! -s pid || ! ${LIVES}
      rm -f pid
      ${server("pid")}
      test $PERDURE_ATTEMPT = 1 || touch made
`,
    );
    const result = await project.run(["run", "p.yaml"]);
    expect(result.exit, result.stdout + result.stderr).toBe(0);
  });

  it("is refused for an isolated step, which cannot leave processes", async () => {
    project.write(
      "p.yaml",
      "defaults: { isolate: true }\nsteps:\n  - { id: one, run: serve, leaves_running: true }\n",
    );
    const { exit, stderr } = await project.run(["validate", "p.yaml"]);
    expect(stderr).toContain("error[leaves-running]");
    expect(exit).toBe(4);
  });
});
