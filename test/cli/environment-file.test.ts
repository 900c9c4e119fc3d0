/**
 * Variables from a file count as if the shell had set them, and their secrets are never stored.
 */
import * as fs from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

const TOKEN = "tok-0123456789abcdef";

it("sets variables for steps and expressions; the shell and `env` override them", async () => {
  project.write(".env", "A=file\nB=file\nC='in quotes'\n# a comment\nPERDURE_X=no\n");
  project.write("own.env", "B=own\n");
  project.write("perdure.yaml", "env_file: .env\n");
  project.write(
    "p.yaml",
    `env_file: [own.env]
env: { D: "\${{ env.C }}" }
steps: [{ id: say, run: 'echo "$A $B $C $D \${{ env.B }}<$PERDURE_X>"' }]
`,
  );
  const said = await project.must(["run", "p.yaml"]);
  expect(said).toContain("file own in quotes in quotes own<>\n");
  const shell = await project.must(["run", "p.yaml"], { env: { A: "shell" } });
  expect(shell).toContain("shell own in quotes");
});

it("keeps the variables that expressions name, and reads the others again", async () => {
  const hold = project.hold("first");
  project.write(".env", `REGION=north\nLEVEL=one\nAPI_TOKEN=${TOKEN}\n`);
  project.write(
    "p.yaml",
    `env_file: .env
steps:
  - { id: first, run: "${hold.command}" }
  - { id: say, run: 'echo "\${{ env.REGION }} $LEVEL \${#API_TOKEN} $API_TOKEN"' }
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.kill("SIGKILL");
  project.write(".env", `REGION=south\nLEVEL=two\nAPI_TOKEN=${TOKEN}\n`);
  const resumed = project.start(["resume"]);
  await hold.release();
  const { exit, stdout } = await resumed.ended;
  expect(exit).toBe(0);
  expect(stdout).toContain("north two 20 [redacted]");
  expect(stdout).toContain("REGION changed since the run started");
  expect(fs.readFileSync(project.path(".perdure", "state.db")).includes(TOKEN)).toBe(false);
});

it("must exist to start and to continue", async () => {
  project.write("p.yaml", "env_file: .env\nsteps: [{ id: a, run: test -e go }]\n");
  const none = await project.run(["run", "p.yaml"]);
  expect(none.exit).toBe(2);
  expect(none.stderr).toContain(".env, an `env_file` of the pipeline, cannot be read");
  expect(project.exists(".perdure")).toBe(false);
  project.write(".env", "A=b\n");
  expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
  fs.rmSync(project.path(".env"));
  project.write("go", "");
  const id = await project.newestId();
  expect((await project.run(["resume", id])).exit).toBe(2);
  project.write(".env", "A=b\n");
  await project.must(["resume", id]);
});
