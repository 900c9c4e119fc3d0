/** What a resumed run resets and what it reports: pauses, variables, and rows that stay true. */
import { execFileSync } from "node:child_process";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

function rows(sql: string): readonly Record<string, unknown>[] {
  const database = new DatabaseSync(project.path(".perdure", "state.db"), { readOnly: true });
  try {
    return database.prepare(sql).all();
  } finally {
    database.close();
  }
}

it("starts new retries of a resume with the first pause", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: a
    retry: { attempts: 4, backoff: { initial: 10ms, jitter: 0 } }
    run: ${project.effect("a")}; exit 1
`,
  );
  await project.run(["run", "p.yaml"]);
  await project.run(["resume", await project.newestId()]);
  await project.run(["resume", await project.newestId()]);
  const pauses = rows("SELECT data FROM events WHERE type = 'step.failed' ORDER BY seq")
    .map(({ data }) => JSON.parse(String(data)) as { retry?: { delayMs: number } })
    .map(({ retry }) => retry?.delayMs);
  const first = pauses.slice(0, 4);
  expect(first[0]).toBe(10);
  expect(pauses).toEqual([...first, ...first, ...first]);
  expect(project.effects()).toEqual({ a: 12 });
});

describe("a variable that an expression uses", () => {
  beforeEach(() => {
    project.write(
      "p.yaml",
      'steps:\n  - id: a\n    run: echo "${{ env.MYVAR }}" >> seen; test -e go\n',
    );
  });

  it("is not reported when it has not changed", async () => {
    const env = { MYVAR: "the first value" };
    await project.run(["run", "p.yaml"], { env });
    const same = await project.run(["resume", await project.newestId()], { env });
    expect(same.stdout).not.toContain("MYVAR");
    expect(project.read("seen")).toBe("the first value\nthe first value\n");
  });
});

describe("step_state", () => {
  it.each(["worktree", "directory", "copy", "here"])(
    "says where a step worked: %s",
    async (kind) => {
      execFileSync("git", ["-C", project.dir, "init", "-q"]);
      const by = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"];
      const commit = ["commit", "-q", "--allow-empty", "-m", "first"];
      execFileSync("git", ["-C", project.dir, ...by, ...commit]);
      project.write(
        "p.yaml",
        `workspace: ${kind}
steps:
  - id: a
    run: pwd >> '${project.path("a.txt")}'
  - id: b
    workspace: own
    run: pwd >> '${project.path("b.txt")}'
`,
      );
      await project.must(["run", "p.yaml"]);
      for (const row of rows("SELECT * FROM step_state")) {
        const step = String(row.step_id);
        expect(`${String(row.workspace_path)}\n`, step).toBe(project.read(`${step}.txt`));
      }
      if (kind !== "here") expect(project.read("a.txt")).toContain(".perdure/runs/");
    },
  );

  it("says when a failed step finished, and nothing while it is being retried", async () => {
    project.write("p.yaml", "steps:\n  - id: a\n    run: exit 1\n");
    await project.run(["run", "p.yaml"]);
    const [row] = rows("SELECT * FROM step_state");
    expect(row).toMatchObject({ state: "failed", completed_at: expect.stringMatching(/^\d{4}-/) });
    const hold = project.hold("a");
    project.write(
      "q.yaml",
      `steps:
  - id: a
    retry: { attempts: 2, backoff: 10ms }
    run: if [ "$PERDURE_ATTEMPT" = 2 ]; then ${hold.command}; fi; exit 1
`,
    );
    const runner = project.start(["run", "q.yaml"]);
    await hold.arrived();
    const [, second] = rows("SELECT * FROM step_state ORDER BY rowid");
    expect(second).toMatchObject({ state: "running", retry_count: 1, completed_at: null });
    await runner.kill("SIGINT");
  });
});
