/**
 * Secrets are masked where they are shown and nowhere else: steps and conditions use every value as
 * it was given (P5).
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

const SECRET = "s3cr3t-hunter2-value";

it("changes no value because a variable has the same text", async () => {
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

it("passes a secret that is given on purpose to steps, conditions and the next owner", async () => {
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

it("masks declared secrets in all output, in any shell", async () => {
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
  await project.must(["resume", id], { env });
  for (const args of [
    ["show", id],
    ["show", id, "--json"],
    ["why", id, "--json"],
    ["logs", id],
    ["list", "--output", "json"],
    ["report", id, "--with-output"],
    ["report", id, "--format", "html", "--with-output"],
    ["report", id, "--format", "json"],
    ["attach", id, "--json"],
  ]) {
    const said = await project.must(args);
    expect(said, args.join(" ")).not.toMatch(/q7w9|ann:pw/);
  }
  expect(JSON.parse(await project.must(["show", id, "--json"]))).toBeTypeOf("object");
  for (const name of ["receipts", "handoffs"]) {
    const dir = project.path(".perdure", "runs", id, name);
    for (const file of fs.readdirSync(dir)) {
      expect(fs.readFileSync(join(dir, file), "utf8"), file).not.toMatch(/q7w9|ann:pw/);
    }
  }
});

it("recognises a secret by a whole word in the name of its variable", async () => {
  const plain = {
    GIT_AUTHOR_EMAIL: "jane@example.com",
    XAUTHORITY: "authority-of-x",
    SSH_AUTH_SOCK: "agent-socket-1",
    MONKEY: "a-monkey-in-a-tree",
    TOKENIZER: "sentence-pieces",
  };
  const secret = {
    GITHUB_TOKEN: "ghp_0123456789",
    API_KEY: "key-0123456789",
    DB_PASSWORD: "password-of-the-db",
    AUTH_TOKEN: "auth-0123456789",
    NPM_AUTH: "basic-0123456789",
    PROXY: "http://ann:pw123@proxy.example",
  };
  const names = [...Object.keys(plain), ...Object.keys(secret)];
  project.write(
    "p.yaml",
    `steps:\n  - id: a\n    run: echo ${names.map((n) => `$${n}`).join(" ")}\n`,
  );
  const ran = await project.must(["run", "p.yaml"], { env: { ...plain, ...secret } });
  const hidden = Object.keys(secret).map(() => "[redacted]");
  expect(ran).toContain(`a │ ${[...Object.values(plain), ...hidden].join(" ")}\n`);
});

describe("in a shell without the secrets", () => {
  const LINES = Array.from({ length: 3 }, (_, at) => `${at}MIIEvQIBADANBgkqhkiG9w0BAQEFAASC`);
  const env = {
    GITHUB_TOKEN: "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    DATABASE_URL: "db-of-ann-at-home",
    DEPLOY_KEY: `${LINES.join("\n")}\n`,
    NOTE_TOKEN: "note-abcdefghijklmnopqrstuvwxyz0123456789",
  };

  /** Every text of the run that is shown, by the command that shows it. */
  async function shown(id: string): Promise<ReadonlyMap<string, string>> {
    const said = new Map<string, string>();
    for (const args of [
      ["logs", id],
      ["show", id],
      ["show", id, "--json"],
      ["why", id],
      ["list", "--output", "json"],
      ["report", id, "--with-output"],
      ["report", id, "--format", "html", "--with-output"],
      ["report", id, "--format", "json", "--with-output"],
      ["timeline", id],
      ["attach", id, "--json"],
    ]) {
      said.set(args.join(" "), (await project.run(args)).stdout);
    }
    return said;
  }

  it("masks all output, also values of the context and values that are cut", async () => {
    project.write(
      "p.yaml",
      `secrets: [DATABASE_URL]
steps:
  - id: leak
    run: |
      echo "x$GITHUB_TOKEN,y and ($DATABASE_URL)"
      echo "$DEPLOY_KEY"
      echo "https://$GITHUB_TOKEN@host/$GITHUB_TOKEN$DATABASE_URL"
      echo "note=$(printf '%0390d' 0)$NOTE_TOKEN" >> "$PERDURE_CONTEXT"
  - id: fail
    run: exit 1
`,
    );
    const input = `note=${"0".repeat(380)}${env.NOTE_TOKEN}`;
    expect((await project.run(["run", "p.yaml", "-i", input], { env })).exit).toBe(3);
    const [id = ""] = await project.runIds();
    const texts = await shown(id);
    for (const [command, text] of texts) {
      expect(text, command).not.toMatch(/ghp_|db-of-ann|MIIEvQ|note-/);
    }
    expect(texts.get(`logs ${id}`)).toBe(
      `leak │ x[redacted],y and ([redacted])
${LINES.map(() => "leak │ [redacted]\n").join("")}leak │
leak │ https://[redacted]@host/[redacted][redacted]
`,
    );
    // The journal holds only what is data of the run.
    for (const name of fs.readdirSync(project.path(".perdure"))) {
      if (!name.startsWith("state.db")) continue;
      const bytes = fs.readFileSync(project.path(".perdure", name), "latin1");
      expect(bytes, name).not.toMatch(/ghp_abcdef|db-of-ann|MIIEvQ/);
    }
    const events = project.read(".perdure", "runs", id, "events.jsonl");
    expect(events).not.toMatch(/ghp_abcdef|db-of-ann|MIIEvQ/);
    // An export says that it holds them.
    expect(await project.must(["export", id, "-o", "run.perdure"])).toContain("contains secrets");
  });

  it("masks the secrets of every owner", async () => {
    const hold = project.hold("held");
    project.write(
      "p.yaml",
      `steps:\n  - id: a\n    run: echo "$GITHUB_TOKEN"; ${hold.command}; echo "$GITHUB_TOKEN"\n`,
    );
    const first = project.start(["run", "p.yaml"], { env });
    await hold.arrived();
    await first.kill();
    const [id = ""] = await project.runIds();
    // The step continues with the environment that it has; the next attempt would have another.
    const second = project.start(["resume", id], { env: { GITHUB_TOKEN: "ghp_of-another-job-1" } });
    await second.printed("is still running");
    await hold.release();
    expect((await second.ended).exit).toBe(0);
    expect(await project.must(["retry", id, "a", "--dry-run"])).not.toContain("ghp_");
    const third = project.start(["retry", id, "a"], {
      env: { GITHUB_TOKEN: "ghp_of-a-third-job-1" },
    });
    await hold.arrived();
    await hold.release();
    expect((await third.ended).exit).toBe(0);
    const logs = await project.must(["logs", id]);
    expect(logs.match(/\[redacted\]/g)).toHaveLength(4);
    expect(logs).not.toContain("ghp_");
  });
});

it("warns about a step that passes on a secret, without changing the value", async () => {
  project.write(
    "p.yaml",
    `secrets: [pin, kept]
steps:
  - id: leak
    run: |
      echo "token=Bearer $API_TOKEN" >> "$PERDURE_CONTEXT"
      echo "kept=$API_TOKEN" >> "$PERDURE_CONTEXT"
      echo "pin \${{ input.pin }}" > "$PERDURE_OUTPUT_REPORT"
    outputs: { report: report.txt }
  - id: use
    when: context.token == "Bearer ${SECRET}"
    run: ${project.effect("use")}
`,
  );
  const env = { API_TOKEN: SECRET };
  const said = await project.must(["run", "p.yaml", "-i", "pin=q7w9"], { env });
  const words = "it stored secrets: API_TOKEN in context.token, input.pin in outputs.report";
  expect(said).toMatch(new RegExp(`✓ leak completed.*; warning: ${words}\\n`));
  expect(project.effects()).toEqual({ use: 1 });
  expect(project.read("report.txt")).toBe("pin q7w9\n");
  const [id = ""] = await project.runIds();
  expect(await project.must(["why", id])).toContain(`warning: leak: ${words}`);
  const receipt = project.read(".perdure", "runs", id, "receipts", "leak-shell.json");
  expect(JSON.parse(receipt).exposed_secrets).toEqual([
    { secret: "API_TOKEN", in: "context.token" },
    { secret: "input.pin", in: "outputs.report" },
  ]);
});

it("warns about a failed step that passes on a secret, too", async () => {
  const status = '{"context_updates":{"token":"\'$API_TOKEN\'"}}';
  project.write(
    "p.yaml",
    `steps:
  - id: leak
    run: echo '${status}' > "$PERDURE_STATUS_FILE"; exit 1
    on_failure: continue
  - id: use
    when: context.token == "${SECRET}"
    run: ${project.effect("use")}
`,
  );
  const said = await project.must(["run", "p.yaml"], { env: { API_TOKEN: SECRET } });
  const words = "it stored a secret: API_TOKEN in context.token";
  expect(said).toMatch(new RegExp(`✗ leak failed.*; warning: ${words}`));
  expect(project.effects()).toEqual({ use: 1 });
  const [id = ""] = await project.runIds();
  expect(await project.must(["why", id])).toContain(`warning: leak: ${words}`);
  const receipt = project.read(".perdure", "runs", id, "receipts", "leak-shell.json");
  expect(JSON.parse(receipt).exposed_secrets).toEqual([
    { secret: "API_TOKEN", in: "context.token" },
  ]);
});

it("masks an input that is named like a secret", async () => {
  project.write("p.yaml", 'steps:\n  - id: a\n    run: echo "${{ input.api_token }}"\n');
  const ran = await project.must(["run", "p.yaml", "-i", `api_token=${SECRET}`]);
  expect(ran).toContain("a │ [redacted]\n");
  const [id = ""] = await project.runIds();
  for (const args of [
    ["report", id],
    ["show", id, "--json"],
    ["logs", id],
  ]) {
    expect(await project.must(args), args.join(" ")).not.toContain(SECRET);
  }
});

it("lets only the user read the files that hold unmasked values", async () => {
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
    expect(fs.statSync(project.path(file)).mode & 0o077, file).toBe(0);
  }
});
