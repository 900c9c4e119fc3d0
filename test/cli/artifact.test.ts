/** Outputs of steps are kept by their content: no later attempt, edit or deletion loses one. */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Output, RunEvent } from "../../src/core/event.ts";
import { sha256 } from "../../src/util/json.ts";
import { eventually, type Hold, Project } from "../rig/project.ts";
import { userGit } from "../workspace/rig.ts";

let project: Project;
let hold: Hold;
beforeEach(() => {
  project = new Project();
  hold = project.hold("two");
});
afterEach(() => project.remove());

/** Two steps: the first hands on a program, the second waits, then reads it. */
function pipeline(workspace: string, between = ""): void {
  project.write(
    "p.yaml",
    `${workspace}
steps:
  - id: one
    run: |
      ${project.effect("one")}
      echo made > "$PERDURE_OUTPUT_APP"; chmod 755 "$PERDURE_OUTPUT_APP"
    outputs: { app: out/app }
${between}
  - id: two
    run: |
      ${hold.command}
      cat \${{ outputs.one.app }} > '${project.path("read")}'
      test -x \${{ outputs.one.app }}
`,
  );
}

/** Runs until the second step waits, then kills the runner and the step. */
async function cutOff(): Promise<string> {
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  const [id = ""] = await project.runIds();
  // The second copy is written beside the next step.
  await eventually("the events file has the first step", () => outputs(id).length > 0);
  await runner.kill("SIGKILL");
  await project.killSteps();
  return id;
}

async function resumed(...args: readonly string[]): Promise<string> {
  const runner = project.start(["resume", ...args]);
  await hold.release();
  const { exit, stdout, stderr } = await runner.ended;
  expect(exit, stdout + stderr).toBe(0);
  return stdout;
}

function kept(content: string): string {
  const hash = sha256(content);
  return project.path(".perdure", "artifacts", hash.slice(0, 2), hash);
}

/** The outputs in the whole lines of the events file, which may be written just now. */
function outputs(runId: string): readonly Output[] {
  const file = [".perdure", "runs", runId, "events.jsonl"];
  const text = project.exists(...file) ? project.read(...file) : "";
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as { type: RunEvent["type"]; data: { outputs?: object } })
    .filter(({ type }) => type === "step.completed")
    .flatMap(({ data }) => Object.values((data.outputs ?? {}) as Record<string, Output>));
}

const HERE = "workspace: here";
const PLAIN = "workspace: { snapshots: false }";
const DIRECTORY = "workspace: { kind: directory, snapshots: false }";

describe("an output", () => {
  it("is kept once for its content, readable only by its user", async () => {
    project.write(
      "p.yaml",
      `steps:
  - { id: one, run: 'echo same > "$PERDURE_OUTPUT_A"', outputs: { a: a } }
  - { id: two, run: 'echo same > "$PERDURE_OUTPUT_B"', outputs: { b: b } }
`,
    );
    await project.must(["run", "p.yaml"]);
    expect(fs.readFileSync(kept("same\n"), "utf8")).toBe("same\n");
    expect(fs.statSync(kept("same\n")).mode & 0o777).toBe(0o600);
    const all = fs.readdirSync(project.path(".perdure", "artifacts"), {
      recursive: true,
      encoding: "utf8",
    });
    const hash = sha256("same\n");
    expect(all.toSorted()).toEqual([hash.slice(0, 2), join(hash.slice(0, 2), hash)].toSorted());
  });

  it("of an earlier attempt is kept when a later attempt writes another one", async () => {
    project.write(
      "p.yaml",
      `steps:
  - id: one
    run: echo x >> count; cat count > "$PERDURE_OUTPUT_A"
    outputs: { a: a }
`,
    );
    await project.must(["run", "p.yaml"]);
    const [id = ""] = await project.runIds();
    await project.must(["retry", id, "one"]);
    expect(outputs(id).map((one) => one.sha256)).toEqual([sha256("x\n"), sha256("x\nx\n")]);
    for (const text of ["x\n", "x\nx\n"]) expect(fs.readFileSync(kept(text), "utf8")).toBe(text);
  });
});

describe("an output at resume", () => {
  it.each([HERE, PLAIN, DIRECTORY])("is restored if it is missing (%s)", async (workspace) => {
    pipeline(workspace);
    const id = await cutOff();
    const [output] = outputs(id);
    fs.rmSync(output?.path ?? "");
    expect(await resumed()).toContain(
      `outputs.app of step one was missing and is put back: ${output?.path}`,
    );
    expect(project.read("read")).toBe("made\n");
    expect(project.effects()).toEqual({ one: 1 });
  });

  it("is left alone and reported if it was changed in the project", async () => {
    pipeline(HERE);
    await cutOff();
    project.write("out/app", "mine\n");
    expect(await resumed()).toContain(
      `outputs.app of step one was changed since; its kept copy: ${kept("made\n")}`,
    );
    expect(project.read("read")).toBe("mine\n");
  });

  it("is restored if it was changed in the run's own workspace, and the change is kept", async () => {
    pipeline(DIRECTORY);
    const id = await cutOff();
    fs.writeFileSync(outputs(id)[0]?.path ?? "", "mine\n");
    const said = await resumed();
    expect(said).toContain("outputs.app of step one was changed and is put back");
    expect(said).toContain(kept("mine\n"));
    expect(fs.readFileSync(kept("mine\n"), "utf8")).toBe("mine\n");
    expect(project.read("read")).toBe("made\n");
  });

  it("keeps the change of a later step", async () => {
    pipeline(DIRECTORY, `  - { id: sign, run: 'echo signed >> \${{ outputs.one.app }}' }\n`);
    await cutOff();
    expect(await resumed()).not.toContain("put back");
    expect(project.read("read")).toBe("made\nsigned\n");
  });

  it("is the last one of two with the same path", async () => {
    const again = `  - { id: again, run: 'echo more >> "$PERDURE_OUTPUT_APP"', outputs: { app: out/app } }`;
    pipeline(DIRECTORY, `${again}\n`);
    await cutOff();
    expect(await resumed()).not.toContain("outputs.");
    expect(project.read("read")).toBe("made\nmore\n");
  });

  it("is restored in a worktree even if git ignores it", async () => {
    userGit(project.dir, "init", "-q", "-b", "main");
    project.write(".gitignore", "out/\n");
    userGit(project.dir, "add", ".gitignore");
    userGit(project.dir, "commit", "-q", "-m", "first");
    pipeline("workspace: worktree");
    const id = await cutOff();
    const [output] = outputs(id);
    expect(output?.path).toContain("workspace/out/app");
    fs.rmSync(output?.path ?? "");
    expect(await resumed()).toContain("is put back");
    expect(project.read("read")).toBe("made\n");
  });

  it("leads to a refusal if its kept copy is missing, too, and the suggested command works", async () => {
    pipeline(PLAIN);
    const id = await cutOff();
    fs.rmSync(project.path("out/app"));
    fs.rmSync(kept("made\n"));
    const before = project.read(".perdure", "runs", id, "events.jsonl");
    const { exit, stderr } = await project.run(["resume"]);
    expect(exit).toBe(1);
    expect(stderr).toBe(
      `error: outputs.app of step one is missing, and so is its kept copy: ${project.path("out/app")}\n` +
        `  next: perdure retry ${id.slice(0, 8)} one\n`,
    );
    expect(project.read(".perdure", "runs", id, "events.jsonl")).toBe(before);
    const runner = project.start(["retry", id, "one"]);
    await hold.release();
    expect((await runner.ended).exit).toBe(0);
    expect(project.effects()).toEqual({ one: 2 });
    expect(project.read("read")).toBe("made\n");
  });

  it("is missing if its kept copy is damaged", async () => {
    pipeline(PLAIN);
    await cutOff();
    fs.rmSync(project.path("out/app"));
    fs.writeFileSync(kept("made\n"), "rots\n");
    const { exit, stderr } = await project.run(["resume"]);
    expect(exit).toBe(1);
    expect(stderr).toContain("is missing, and so is its kept copy");
    expect(project.exists("out/app")).toBe(false);
  });
});
