/** Limits of the system and special files: a clear stop or failure, never a hang (P7, P10). */
import { execFileSync } from "node:child_process";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Project, type Result } from "../rig/project.ts";

const IS_ROOT = process.getuid?.() === 0;
const NOBODY = 65_534;

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** Our program under limits of the shell. */
function limited(limit: string): { through: readonly string[] } {
  return { through: ["sh", "-c", `ulimit ${limit}; exec "$@"`, "sh"] };
}

/** Nothing of Node's own words, and the command that continues. */
function expectClearStop(result: Result): void {
  const said = result.stdout + result.stderr;
  expect(result.exit, said).toBeGreaterThan(0);
  expect(said).not.toMatch(/^ +at /m);
  expect(said).not.toContain("internal error");
  expect(said).toMatch(/perdure resume [0-9a-f]{8}/);
}

describe("too few open files", () => {
  it.each([24, 26, 28, 30, 34, 40])(
    "ulimit -n %i stops clearly; resume continues",
    async (files) => {
      const steps = Array.from({ length: 12 }, (_, at) => `s${at}`);
      const lines = steps.map(
        (id) =>
          `  - { id: ${id}, needs: [], run: "echo ${id}; sleep 0.2; ${project.effect(id)}" }\n`,
      );
      const head = "workspace: { snapshots: false }\nmax_parallel: 12\n";
      project.write("p.yaml", `${head}steps:\n${lines.join("")}`);

      const result = await project.run(["run", "p.yaml"], limited(`-n ${files}`));
      if (!/run [0-9a-f]{8}/i.test(result.stdout + result.stderr)) {
        // There were too few even to begin.
        expect(result.stderr).not.toMatch(/^ +at /m);
        return;
      }
      if (result.exit !== 0) expectClearStop(result);
      const resumed =
        result.exit === 0 ? result : await project.run(["resume", await project.newestId()]);

      expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
      expect(project.effects()).toEqual(Object.fromEntries(steps.map((id) => [id, 1])));
    },
  );
});

describe("too few processes", () => {
  it.runIf(IS_ROOT).each([20, 30])(
    "ulimit -u %i stops clearly; resume continues",
    async (processes) => {
      const steps = Array.from({ length: 15 }, (_, at) => `s${at}`);
      const lines = steps.map(
        (id) => `  - { id: ${id}, needs: [], run: "sleep 0.2; ${project.effect(id)}" }\n`,
      );
      const head = "workspace: { snapshots: false }\nmax_parallel: 15\n";
      project.write("p.yaml", `${head}steps:\n${lines.join("")}`);
      execFileSync("chown", ["-R", String(NOBODY), project.dir]);
      // Only bash can set this limit.
      const through = ["bash", "-c", `ulimit -u ${processes}; exec "$@"`, "bash"];
      const as = { uid: NOBODY, env: { HOME: project.dir } };

      const result = await project.run(["run", "p.yaml"], { ...as, through });
      expectClearStop(result);
      expect(result.stdout).toContain("the system refuses more processes: raise `ulimit -u`");
      const [id = ""] = await project.runIds(as);
      const resumed = await project.run(["resume", id], as);

      expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
      expect(project.effects()).toEqual(Object.fromEntries(steps.map((id) => [id, 1])));
    },
  );
});

describe("a FIFO, a socket or a device instead of a file", () => {
  const cases: readonly (readonly [string, string, string])[] = [
    ["the context", `mkfifo "$PERDURE_CONTEXT"`, "what it wrote to $PERDURE_CONTEXT is no file"],
    ["a device as context", `ln -s /dev/zero "$PERDURE_CONTEXT"`, "$PERDURE_CONTEXT is no file"],
    ["the status", `mkfifo "$PERDURE_STATUS_FILE"`, "$PERDURE_STATUS_FILE is no file"],
  ];
  it.each(cases)("%s is refused without waiting", async (_name, command, message) => {
    project.write("p.yaml", `steps:\n  - id: one\n    run: ${command}\n`);
    const result = await project.run(["run", "p.yaml"]);
    expect(result.exit, result.stdout + result.stderr).toBe(3);
    expect(result.stdout).toContain(message);
  });

  it("is refused as an output and as a file of items", async () => {
    const output = "steps:\n  - { id: one, run: mkfifo made, outputs: { made: made } }\n";
    project.write("output.yaml", output);
    const noOutput = await project.run(["run", "output.yaml"]);
    expect(noOutput.exit, noOutput.stdout + noOutput.stderr).toBe(3);
    project.write(
      "items.yaml",
      `steps:
  - { id: one, run: mkfifo items.json }
  - { id: each, for_each: { in: { file: items.json } }, run: "true" }
`,
    );
    const noItems = await project.run(["run", "items.yaml"]);
    expect(noItems.exit, noItems.stdout + noItems.stderr).toBe(3);
    expect(noItems.stdout).toContain("there is no file items.json of items");
  });

  it("is refused as a pipeline file and as a prompt file, and does not block a resume", async () => {
    execFileSync("mkfifo", [project.path("fifo.yaml")]);
    const noPipeline = await project.run(["run", "fifo.yaml"]);
    expect(noPipeline.exit, noPipeline.stderr).toBe(2);
    expect(noPipeline.stderr).toContain("it is not a file that you may read");
    project.write(
      "prompt.yaml",
      "steps:\n  - { id: one, agent: claude, prompt_file: fifo.yaml }\n",
    );
    const noPrompt = await project.run(["validate", "prompt.yaml"]);
    expect(noPrompt.exit, noPrompt.stderr).toBe(4);

    project.write("p.yaml", `steps:\n  - { id: one, run: "${project.effect("one")}; exit 1" }\n`);
    await project.run(["run", "p.yaml"]);
    execFileSync("sh", ["-c", "rm p.yaml && mkfifo p.yaml"], { cwd: project.path(".") });
    const resumed = await project.run(["resume", await project.newestId()]);
    expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(3);
    expect(project.effects()).toEqual({ one: 2 });
  });

  it("hangs neither the runner nor the next one as the pid file or the output of a step", async () => {
    project.write(
      "p.yaml",
      `steps:
  - id: one
    retry: 2
    run: |
      ${project.effect("one")}
      test $PERDURE_ATTEMPT = 1 || exit 0
      rm "$PERDURE_ATTEMPT_DIR"/*
      mkfifo "$PERDURE_ATTEMPT_DIR/pid" "$PERDURE_ATTEMPT_DIR/output.log"
      kill -9 $PPID
`,
    );
    const result = await project.run(["run", "p.yaml"]);
    expect(result.exit, result.stdout + result.stderr).not.toBeNull();
    expect(project.effects().one).toBeGreaterThan(0);
  });
});

it("keeps the files of steps private, whatever the umask", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: |
      echo key=value >> "$PERDURE_CONTEXT"
      echo '{"outcome": "success"}' > "$PERDURE_STATUS_FILE"
`,
  );
  const through = ["sh", "-c", 'umask 000; exec "$@"', "sh"];
  await project.must(["run", "p.yaml"], { through });
  const [runId = ""] = await project.runIds();
  const folder = project.path(".perdure", "runs", runId, "attempts", "one@1.1");
  const modes = execFileSync("find", [folder, "-type", "f", "-printf", "%f %m\n"]);
  expect(String(modes).trim().split("\n").sort()).toEqual(["context 600", "status.json 600"]);
});

it.runIf(IS_ROOT)("reports that /proc is not mounted", async () => {
  project.write("p.yaml", `steps:\n  - { id: one, run: "true" }\n`);
  const through = ["unshare", "--mount", "sh", "-c", 'umount -l /proc && exec "$@"', "sh"];
  const result = await project.run(["run", "p.yaml"], { through });
  expect(result.exit).toBe(1);
  expect(result.stderr).toBe(
    "error: /proc is not mounted, so perdure cannot tell which processes are alive\n" +
      "  next: mount -t proc proc /proc\n",
  );
});
