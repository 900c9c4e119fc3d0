/** Values that go into steps and come out of them: context, prompts, environment, secrets. */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

async function runId(): Promise<string> {
  const [id = ""] = await project.runIds();
  return id;
}

it("passes context, outputs and environment on to later steps, also after a resume", async () => {
  project.write(
    "p.yaml",
    `env: { LEVEL: pipeline, BASE: "\${{ input.base }}" }
steps:
  - id: make
    run: |
      echo "from make" > "$PERDURE_OUTPUT_REPORT"
      echo "count=3" >> "$PERDURE_CONTEXT"
      echo "$LEVEL $BASE" > level
    outputs: { report: out/report.txt }
  - id: gate
    run: test -e '${project.path("flag")}'
  - id: use
    env: { LEVEL: step }
    run: |
      cat "$PERDURE_OUTPUT_MAKE_REPORT" > seen
      echo "count is \${{ context.count }}, level is $LEVEL" >> seen
      echo \${{ outputs.make.report }} >> seen
`,
  );
  expect((await project.run(["run", "p.yaml", "-i", "base=a b"])).exit).toBe(3);
  project.write("flag", "");
  await project.must(["resume", await project.newestId()]);

  expect(project.read("level")).toBe("pipeline a b\n");
  expect(project.read("seen")).toBe(
    `from make\ncount is 3, level is step\n${project.path("out/report.txt")}\n`,
  );
});

it("reports a step as pending that the run has not reached", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: write
    run: |
      echo '\${{ results.check.status }} \${{ has(results.check.output) }}' >> seen
  - id: check
    run: echo checked; test $(wc -l < seen) -gt 1
    on_failure: again
  - { id: again, needs: [], pass: true, goto: write, max_visits: 3 }
`,
  );
  await project.must(["run", "p.yaml"]);
  expect(project.read("seen")).toBe("pending false\nfailed true\n");
});

it("passes hostile values as data, never as shell syntax", async () => {
  const hostile = `'; touch pwned; $(touch pwned) \`touch pwned\` "$HOME" \\ \n*`;
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: |
      printf %s \${{ input.text }} > bare
      printf %s "\${{ input.text }}" > double
      printf %s '\${{ input.text }}' > single
      printf %s "$TEXT" > env
    env: { TEXT: "\${{ input.text }}" }
  - id: two
    run: |
      printf 'copy=%s\\n' "$(cat bare | head -1)" >> "$PERDURE_CONTEXT"
  - id: three
    run: printf %s \${{ context.copy }} > context
`,
  );
  await project.must(["run", "p.yaml", "--input", JSON.stringify({ text: hostile })]);

  for (const name of ["bare", "double", "single", "env"]) {
    expect(project.read(name), name).toBe(hostile);
  }
  expect(project.read("context")).toBe(hostile.split("\n")[0]);
  expect(project.exists("pwned")).toBe(false);
});

const SECRET = "s3cr3t-hunter2-value";

it("keeps secrets of the environment out of all output", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: leak
    run: |
      echo "token=$API_TOKEN" >> "$PERDURE_CONTEXT"
      echo "the token is $API_TOKEN"
  - id: fail
    env: { COPY: "\${{ env.API_TOKEN }}" }
    run: |
      echo "again $COPY"
      echo "bad key $API_TOKEN" >> "$PERDURE_CONTEXT"
`,
  );
  const env = { API_TOKEN: SECRET };
  const result = await project.run(["run", "p.yaml", "--input", `note=${SECRET}`], { env });
  const id = await runId();

  expect(result.exit).toBe(3);
  expect(result.stdout + result.stderr).not.toContain(SECRET);
  expect(result.stdout).toContain("leak │ the token is [redacted]");
  for (const args of [
    ["logs", id],
    ["logs", id, "leak"],
    ["show", id],
    ["show", id, "--json"],
    ["why", id],
    ["list", "--output", "json"],
  ]) {
    const said = await project.must(args, { env });
    expect(said, args.join(" ")).not.toContain(SECRET);
  }
  for (const file of stateFiles()) {
    // What a run uses is kept as it is, in private files of the user.
    if (!/\/(receipts|handoffs)\/|receipt\.json$/.test(file)) continue;
    expect(fs.readFileSync(file, "latin1").includes(SECRET), file).toBe(false);
  }
});

it("lets only the user read its files", async () => {
  project.write(
    "p.yaml",
    "agents: { cat: cat }\nsteps:\n  - id: one\n    run: echo hi\n    check: exit 0\n  - id: two\n    agent: cat\n    prompt: hello\n",
  );
  await project.must(["run", "p.yaml"], { through: ["sh", "-c", 'umask 000; exec "$@"', "sh"] });
  for (const file of [project.path(".perdure"), ...stateFiles("with-directories")]) {
    // The shell that runs a step writes these with the step's own umask, in a private directory.
    if (/\/(pid|exit)$/.test(file)) continue;
    // So does git, in private directories.
    if (/\/(snapshots\.git|snapshots)\//.test(file)) continue;
    const { mode } = fs.statSync(file);
    expect((mode & 0o077).toString(8), file).toBe("0");
  }
});

function stateFiles(kind: "files" | "with-directories" = "files"): readonly string[] {
  const root = project.path(".perdure");
  return fs
    .readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() || kind === "with-directories")
    .map((entry) => join(entry.parentPath, entry.name));
}

it("gives an agent its prompt on stdin and in a file, and keeps its output separate", async () => {
  project.write(
    "p.yaml",
    `agents:
  echo: |
    tee stdin >/dev/null
    cat "$PERDURE_PROMPT_FILE" > file
    echo answer
    echo thinking >&2
steps:
  - id: ask
    agent: echo
    prompt: "Do \${{ input.what }}; \\"quotes\\" and $HOME stay."
`,
  );
  const said = await project.must(["run", "p.yaml", "-i", "what=the thing"]);

  const prompt = 'Do the thing; "quotes" and $HOME stay.';
  expect(project.read("stdin")).toBe(prompt);
  expect(project.read("file")).toBe(prompt);
  expect(said).toContain("ask │ answer");
  const receipts = fs.readdirSync(project.path(".perdure", "runs", await runId(), "receipts"));
  expect(receipts).toEqual(["ask-echo.json"]);
});

it("refuses an input that does not fit, and starts nothing", async () => {
  project.write(
    "p.yaml",
    `input:
  type: object
  additionalProperties: false
  required: [issue]
  properties:
    issue: { type: integer, description: The issue. }
    dry: { type: boolean, default: true }
steps:
  - id: one
    run: echo \${{ input.issue }} \${{ input.dry }} > seen
`,
  );
  const missing = await project.run(["run", "p.yaml"]);
  expect(missing.exit).toBe(2);
  expect(missing.stderr).toBe(
    `error: the input does not fit the pipeline's schema: issue is missing
  next: perdure run p.yaml --input issue=...
`,
  );
  const wrong = await project.run(["run", "p.yaml", "-i", "issue=many"]);
  expect(wrong.exit).toBe(2);
  expect(wrong.stderr).toContain("schema: issue must be of type integer, not string\n");
  const strange = await project.run(["run", "p.yaml", "-i", "issue=1", "-i", "isue=2"]);
  expect(strange.exit).toBe(2);
  expect(strange.stderr).toContain("schema: isue is not known (did you mean issue?)\n");
  expect(await project.must(["list"])).toBe("No runs. Start one with: perdure run FILE\n");

  await project.must(["run", "p.yaml", "-i", "issue=42"]);
  expect(project.read("seen")).toBe("42 true\n");
});

it("names a missing variable of the environment before anything runs", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: ${project.effect("one")}
  - id: two
    run: echo \${{ env.DEPLOY_TARGET }}
`,
  );
  const refused = await project.run(["run", "p.yaml"]);
  expect(refused.exit).toBe(2);
  expect(refused.stderr).toBe(
    `error: the pipeline relies on DEPLOY_TARGET in the environment
  next: export DEPLOY_TARGET=..., then: perdure run p.yaml
`,
  );
  expect(project.effects()).toEqual({});
  const done = await project.run(["run", "p.yaml"], { env: { DEPLOY_TARGET: "x" } });
  expect(done.exit).toBe(0);
});

it("lets expressions see the variables that the pipeline and the step set", async () => {
  project.write(
    "p.yaml",
    `env: { P: demo, Q: "\${{ env.Q }}+", R: "\${{ input.r }}" }
steps:
  - id: one
    env: { S: own, P: "step \${{ env.P }}" }
    when: env.P == "step demo" && env.S == "own" && env.R == "given"
    run: echo "$P \${{ env.P }}, $Q \${{ env.Q }}, $R \${{ env.R }}, $S \${{ env.S }}" > one
  - id: two
    run: echo "$P \${{ env.P }}" > two
`,
  );
  // P, R and S need not be set outside; where P is, the pipeline's counts for both.
  await project.must(["run", "p.yaml", "-i", "r=given"], { env: { Q: "q" } });
  const seen = "step demo step demo, q+ q+, given given, own own\n";
  expect(project.read("one")).toBe(seen);
  await project.must(["run", "p.yaml", "-i", "r=given"], { env: { Q: "q", P: "outer" } });
  expect(project.read("one")).toBe(seen);
  expect(project.read("two")).toBe("demo demo\n");

  const { exit, stderr } = await project.run(["run", "p.yaml", "-i", "r=given"]);
  expect(exit).toBe(2);
  expect(stderr).toContain("the pipeline relies on Q in the environment");
});
