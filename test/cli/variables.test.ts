/**
 * The variables that a run relies on survive in another shell; its secrets must be set there (P5).
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

describe("a variable that an expression names", () => {
  beforeEach(() => {
    project.write(
      "p.yaml",
      `steps:
  - id: a
    run: echo "a $REGION \${{ env.REGION }}" >> seen
  - id: b
    run: test -e go
  - id: c
    when: env.REGION == "eu-1.20"
    run: echo "c $REGION \${{ env.REGION }}" >> seen; ${project.effect("c")}
`,
    );
  });

  async function failed(): Promise<string> {
    const env = { REGION: "eu-1.20" };
    expect((await project.run(["run", "p.yaml"], { env })).exit).toBe(3);
    project.write("go", "");
    return project.newestId();
  }

  it("has the value of the run's start if it is not set, which is reported", async () => {
    const id = await failed();
    const said = await project.must(["resume", id]);
    expect(said).toContain(
      "REGION is not set here: steps get the value that the run started with\n",
    );
    expect(project.read("seen")).toBe("a eu-1.20 eu-1.20\nc eu-1.20 eu-1.20\n");
    expect(project.effects()).toEqual({ c: 1 });
  });

  it("keeps its value if another one is set, and the suggested command takes the new one", async () => {
    const id = await failed();
    fs.rmSync(project.path("go"));
    const env = { REGION: "us" };
    const kept = await project.run(["resume", id], { env });
    expect(kept.exit).toBe(3);
    expect(kept.stdout).toContain(
      "REGION changed since the run started: steps get the value that it",
    );
    const [, command = ""] = /^Use the new value: (perdure .*)$/m.exec(kept.stdout) ?? [];
    project.write("go", "");
    const taken = await project.must(command.split(" ").slice(1), { env });
    expect(taken).not.toContain("REGION changed");
    expect(taken).toContain("c skipped: its condition is false");
    expect(project.effects()).toEqual({});
    // From there on that is the value of the run.
    const other = { env: { REGION: "moon" } };
    const again = await project.must(["retry", id, "a"], other);
    const [, retry = ""] = /^Use the new value: (perdure .*)$/m.exec(again) ?? [];
    await project.must(retry.split(" ").slice(1), other);
    expect(project.read("seen")).toBe("a eu-1.20 eu-1.20\na us us\na moon moon\n");
  });

  it("may be given another value, unless it is a secret", async () => {
    const id = await failed();
    const bad = await project.run(["resume", id, "--env", "A_TOKEN=x"]);
    expect(bad.exit).toBe(2);
    expect(bad.stderr).toContain("--env A_TOKEN: a run does not keep its secrets");
    expect((await project.run(["resume", id, "--env", "NOWHERE"])).stderr).toBe(
      "error: --env NOWHERE: the variable is not set here\n  next: --env NOWHERE=value\n",
    );
    await project.must(["resume", id, "--env", "REGION=moon"]);
    expect(project.read("seen")).toBe("a eu-1.20 eu-1.20\n");
    // An edit may name another variable.
    project.write("p.yaml", project.read("p.yaml").replace('echo "a', 'echo "${{ env.NEW }}'));
    const update = ["resume", id, "--update", "--yes"];
    expect((await project.run(update)).stderr).toContain(`run ${id.slice(0, 8)} relies on NEW`);
    await project.must([...update, "--env", "NEW=n"]);
    expect(project.read("seen")).toBe("a eu-1.20 eu-1.20\nn moon moon\n");
  });

  it("survives a move to another project, and so do the marks of secrets", async () => {
    project.write(
      "p.yaml",
      `steps:
  - id: a
    run: echo "token $GITHUB_TOKEN"
  - id: b
    run: test -e '${project.path("go")}'
  - id: c
    run: echo "\${{ env.REGION }}" > seen
`,
    );
    const env = { REGION: "eu", GITHUB_TOKEN: "ghp_abcdefghijklmnop" };
    expect((await project.run(["run", "p.yaml"], { env })).exit).toBe(3);
    const id = await project.newestId();
    await project.must(["export", id, "-o", "run.perdure"]);
    const other = new PlainProject();
    try {
      await other.must(["import", project.path("run.perdure")]);
      project.write("go", "");
      await other.must(["resume", id]);
      expect(other.read("seen")).toBe("eu\n");
      expect(await other.must(["logs", id, "a"])).toBe("token [redacted]\n");
    } finally {
      await other.remove();
    }
  });

  it("survives a kill", async () => {
    const hold = project.hold("held");
    const where = '"${{ env.REGION }}"';
    project.write(
      "p.yaml",
      `steps:\n  - id: a\n    run: ${hold.command}\n  - id: b\n    run: echo ${where} > seen\n`,
    );
    const first = project.start(["run", "p.yaml"], { env: { REGION: "eu" } });
    await hold.arrived();
    await first.kill();
    const id = await project.newestId();
    const second = project.start(["resume", id]);
    await second.printed("is still running");
    await hold.release();
    expect((await second.ended).exit).toBe(0);
    expect(project.read("seen")).toBe("eu\n");
  });
});

it("takes a variable of the machine from the machine", async () => {
  const run = 'echo "$TMPDIR ${{ env.TMPDIR }}" >> seen; test -e go';
  project.write("p.yaml", `steps:\n  - id: a\n    run: ${run}\n`);
  const one = fs.mkdtempSync(join(project.dir, "one-"));
  const two = fs.mkdtempSync(join(project.dir, "two-"));
  expect((await project.run(["run", "p.yaml"], { env: { TMPDIR: one } })).exit).toBe(3);
  project.write("go", "");
  const said = await project.must(["resume", await project.newestId()], { env: { TMPDIR: two } });
  expect(said).toContain("TMPDIR changed since the run started: steps get the new value\n");
  expect(project.read("seen")).toBe(`${one} ${one}\n${two} ${two}\n`);
});

describe("a secret that a run relies on", () => {
  const SECRET = "ghp_abcdefghijklmnop";

  beforeEach(() => {
    project.write(
      "p.yaml",
      `secrets: [DEPLOY_URL]
steps:
  - id: a
    run: test -e go
  - id: b
    run: ${project.effect("b")}; echo "$DEPLOY_URL \${{ env.GH_TOKEN }}" > seen
`,
    );
  });

  it("is required before anything starts, and is never stored", async () => {
    const env = { GH_TOKEN: SECRET, DEPLOY_URL: "deploy-to-the-moon" };
    expect((await project.run(["run", "p.yaml"], { env })).exit).toBe(3);
    project.write("go", "");
    const id = await project.newestId();
    const short = id.slice(0, 8);
    for (const [given, missing, values] of [
      [{}, "DEPLOY_URL, GH_TOKEN", "DEPLOY_URL=... GH_TOKEN=..."],
      [{ GH_TOKEN: SECRET }, "DEPLOY_URL", "DEPLOY_URL=..."],
    ] as const) {
      const refused = await project.run(["resume", id], { env: given });
      expect(refused.exit).toBe(2);
      expect(refused.stderr).toBe(
        `error: run ${short} relies on ${missing} in the environment; a run does not keep its secrets
  next: export ${values}, then: perdure resume ${short}
`,
      );
    }
    expect(project.effects()).toEqual({});
    const said = await project.must(["resume", id], {
      env: { ...env, GH_TOKEN: "ghp_a-new-token" },
    });
    expect(said).toContain("GH_TOKEN changed since the run started: steps get the new value\n");
    expect(said).not.toContain("DEPLOY_URL");
    expect(project.read("seen")).toBe("deploy-to-the-moon ghp_a-new-token\n");
    for (const file of journalFiles()) {
      expect(fs.readFileSync(file, "latin1"), file).not.toMatch(/ghp_|deploy-to-the-moon/);
    }
  });
});

/** The journal and its copies, which hold everything that is kept of a run's environment. */
function journalFiles(): readonly string[] {
  const root = project.path(".perdure");
  return fs
    .readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .filter(({ name }) => /^state\.db|\.jsonl$|checkpoint\.json$|plan\.json$/.test(name))
    .map((entry) => join(entry.parentPath, entry.name));
}
