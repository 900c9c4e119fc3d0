/**
 * Secrets are masked where they are shown and nowhere else: every value that steps and conditions use
 * is the one that was given (P5).
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

const SECRET = "s3cr3t-hunter2-value";

it("no value changes because a variable holds the same text", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: a
    run: |
      printf '%s' "\${{ input.who }}" > who
      echo "author=Jane Doe" >> "$PERDURE_CONTEXT"
      echo "name=deadbeef-production-42" >> "$PERDURE_CONTEXT"
  - id: b
    when: context.author == "Jane Doe" && context.name == "deadbeef-production-42"
    run: ${project.effect("b")}
`,
  );
  const env = { GIT_AUTHOR_NAME: "Jane Doe", DB_PASSWORD: "production" };
  const out = await project.must(["run", "p.yaml", "-i", "who=Jane Doe"], { env });
  expect(project.read("who")).toBe("Jane Doe");
  expect(project.effects()).toEqual({ b: 1 });
  expect(out).not.toContain("[redacted]");
});

it("a secret that is given on purpose reaches the steps, the conditions and the next owner", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: a
    run: |
      printf '%s' "\${{ input.note }}" > note
      echo "copy=\${{ input.note }}" >> "$PERDURE_CONTEXT"
  - id: b
    run: test -e go
  - id: c
    when: context.copy == input.note
    run: printf '%s' "\${{ context.copy }}" > copy
`,
  );
  const env = { API_TOKEN: SECRET };
  const first = await project.run(["run", "p.yaml", "-i", `note=${SECRET}`], { env });
  expect(first.exit).toBe(3);
  project.write("go", "");
  // In another shell, which does not know the secret.
  await project.must(["resume", await project.newestId()]);
  expect(project.read("note")).toBe(SECRET);
  expect(project.read("copy")).toBe(SECRET);
});

it("declared secrets are masked in all that is shown, in any shell", async () => {
  project.write(
    "p.yaml",
    `secrets: [DATABASE_URL, pin, session]
steps:
  - id: leak
    run: |
      echo "pin \${{ input.pin }} at $DATABASE_URL"
      echo "session=opened-by-\${{ input.pin }}" >> "$PERDURE_CONTEXT"
  - id: ask
    gate: { ask: "Is \${{ context.session }} right?" }
`,
  );
  const env = { DATABASE_URL: "db://ann:pw@host" };
  const ran = await project.run(["run", "p.yaml", "-i", "pin=q7w9"], { env });
  expect(ran.exit).toBe(6);
  expect(ran.stdout).toContain("leak │ pin [redacted] at [redacted]\n");
  const [id = ""] = await project.runIds();
  const answered = ["answer", id, "ask", "approve", "-t", "the pin is q7w9"];
  expect(await project.must(answered)).not.toContain("q7w9");
  await project.must(["resume", id]);
  for (const args of [
    ["show", id],
    ["show", id, "-o", "json"],
    ["why", id, "-o", "json"],
    ["logs", id],
    ["list", "-o", "json"],
    ["report", id, "--with-output"],
    ["report", id, "--format", "html", "--with-output"],
    ["report", id, "--format", "json"],
    ["attach", id, "-o", "json"],
  ]) {
    // The output of steps is a file: a variable's value is known where the variable is set.
    const output = args[0] === "logs" || args.includes("--with-output");
    const said = await project.must(args, output ? { env } : {});
    expect(said, args.join(" ")).not.toMatch(/q7w9|ann:pw/);
  }
  expect(JSON.parse(await project.must(["show", id, "-o", "json"]))).toBeTypeOf("object");
  for (const name of ["receipts", "handoffs"]) {
    const dir = project.path(".perdure", "runs", id, name);
    for (const file of readdirSync(dir)) {
      expect(readFileSync(join(dir, file), "utf8"), file).not.toMatch(/q7w9|ann:pw/);
    }
  }
});

it("what holds every value as it is can be read by its user alone", async () => {
  project.write("p.yaml", 'steps:\n  - id: a\n    run: echo "x=1" >> "$PERDURE_CONTEXT"\n');
  const through = ["sh", "-c", 'umask 000; exec "$@"', "sh"];
  await project.must(["run", "p.yaml", "-i", `note=${SECRET}`], { through });
  const [id = ""] = await project.runIds();
  await project.must(["export", id, "-o", "run.perdure"], { through });
  for (const file of [
    "run.perdure",
    ".perdure/state.db",
    `.perdure/runs/${id}/events.jsonl`,
    `.perdure/runs/${id}/checkpoint.json`,
  ]) {
    expect(statSync(project.path(file)).mode & 0o077, file).toBe(0);
  }
});
