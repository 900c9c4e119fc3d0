/** The package as it is published: installed in a scratch project, type-checked and run there. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { PlainProject, Project } from "../rig/project.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const MODULES = join(ROOT, "node_modules");

let project: Project;
let files: readonly string[];
beforeAll(() => {
  project = new Project();
  const packing = ["pack", "--ignore-scripts", "--json", "--pack-destination", project.dir];
  const [packed] = JSON.parse(
    execFileSync("npm", packing, { cwd: ROOT, encoding: "utf8", stdio: "pipe" }),
  ) as { filename: string; files: { path: string }[] }[];
  files = packed?.files.map(({ path }) => path) ?? [];
  install(packed?.filename ?? "");
});
afterAll(() => project.remove());

/** What `npm install` would do, without a network. */
function install(tarball: string): void {
  const target = project.path("node_modules", "perdure");
  mkdirSync(target, { recursive: true });
  execFileSync("tar", ["-xzf", project.path(tarball), "-C", target, "--strip-components=1"]);
  const { dependencies } = JSON.parse(readFileSync(join(target, "package.json"), "utf8")) as {
    dependencies: Readonly<Record<string, string>>;
  };
  for (const name of [...Object.keys(dependencies), "@types/node"]) {
    const folder = project.path("node_modules", ...name.split("/").slice(0, -1));
    mkdirSync(folder, { recursive: true });
    symlinkSync(join(MODULES, name), join(folder, name.split("/").at(-1) ?? ""));
  }
}

it("holds the program, its types and nothing of the workshop", () => {
  expect(new Set(files.map((path) => path.split("/")[0]))).toEqual(
    new Set([
      ...["CHANGELOG.md", "LICENSE", "README.md", "bin", "dist", "docs", "examples"],
      ...["package.json", "schema", "templates"],
    ]),
  );
  const page = /^dist\/page\/(assets\/[\w-]+\.(css|woff2)|icon\.svg|index\.html|LICENCES\.md)$/;
  const odd = files.filter(
    (path) =>
      path.startsWith("dist/") && !/\.(js|d\.ts)$|LICENCES\.txt$/.test(path) && !page.test(path),
  );
  expect(odd).toEqual([]);
});

it("holds the documents and examples that its README links to", () => {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  // The pictures of the dashboard are only in the repository.
  const links = [...readme.matchAll(/\]\(((?:docs|examples)[^)#]*)/g)]
    .map(([, link = ""]) => link)
    .filter((link) => !link.startsWith("docs/images/"));
  expect(links.length).toBeGreaterThan(10);
  const missing = links.filter((link) => !files.some((path) => path.startsWith(link)));
  expect(missing).toEqual([]);
});

const PIPELINE = `import { definePipeline } from "perdure";

const name: string = "packed";
export default definePipeline({
  name,
  steps: [
    { id: "a", run: "echo a >> effects" },
    { id: "b", run: "echo b >> effects", needs: ["a"] },
  ],
});
`;

const PROGRAM = `import { openRun, PipelineInvalid, run, type RunResult, type EventJson } from "perdure";
import pipeline from "./pipeline.ts";

const handle = await run(pipeline, { cwd: import.meta.dirname });
for await (const event of handle) {
  const told: EventJson = event;
  if (told.type === "step.completed") console.log(told.step, told.exit);
}
const result: RunResult = await handle.done;
const seen = await (await openRun(handle.id, { cwd: import.meta.dirname })).view();
console.log(result.exitCode, seen.status);
const refused: unknown = await run({ steps: [] }).catch((error: unknown) => error);
console.log(refused instanceof PipelineInvalid && refused.diagnostics[0]?.rule);
`;

/** Wrong on purpose: the installed types must say so. */
const WRONG = `import { definePipeline } from "perdure";
export default definePipeline({ steps: [{ id: "a", run: "ls", agent: "claude" }] });
export const second = definePipeline({ steps: [{ id: "a", run: "ls", needs: ["b"] }] });
`;

it("type-checks and runs where it is installed", async () => {
  project.write("package.json", '{ "type": "module" }');
  project.write("pipeline.ts", PIPELINE);
  project.write("program.ts", PROGRAM);
  const strict = ["--strict", "--target", "esnext", "--module", "nodenext", "--types", "node"];
  // The libraries of TypeScript itself are not checked, and threads would cost more than they bring.
  const cheap = ["--skipDefaultLibCheck", "--singleThreaded"];
  const more = ["--exactOptionalPropertyTypes", "--allowImportingTsExtensions", ...cheap];
  const tsc = (...names: readonly string[]): string => {
    const args = [join(MODULES, "typescript/bin/tsc"), "--noEmit", ...strict, ...more, ...names];
    try {
      return execFileSync(process.execPath, args, { cwd: project.dir, encoding: "utf8" });
    } catch (error) {
      return (error as { stdout: string }).stdout;
    }
  };
  cpSync(join(ROOT, "examples", "checks.ts"), project.path("checks.ts"));
  project.write("wrong.ts", WRONG);
  const complaints = tsc("program.ts", "checks.ts", "wrong.ts").match(/^\S+?\(\d+/gm);
  expect(complaints).toEqual(["wrong.ts(2", "wrong.ts(3"]);

  const { stdout, stderr, exit } = await project.script(project.path("program.ts")).ended;
  expect({ stdout, stderr, exit }).toEqual({
    stdout: "a 0\nb 0\n0 completed\nempty-pipeline\n",
    stderr: "",
    exit: 0,
  });
  const bin = project.path("node_modules", "perdure", "bin", "perdure.js");
  const cli = await project.script(bin, ["run", "pipeline.ts", "--quiet"]).ended;
  expect(cli).toMatchObject({ exit: 0, stdout: "", stderr: "" });
  expect(project.effects()).toEqual({ a: 2, b: 2 });
});

it("reads a pipeline of a project that has no node_modules", async () => {
  const bare = new PlainProject();
  try {
    bare.write("pipeline.ts", PIPELINE);
    const bin = project.path("node_modules", "perdure", "bin", "perdure.js");
    expect(readdirSync(bare.dir)).toEqual(["pipeline.ts"]);
    expect(await bare.script(bin, ["run", "pipeline.ts", "--quiet"]).ended).toMatchObject({
      exit: 0,
    });
    expect(await bare.must(["graph", "pipeline.ts"])).toContain("flowchart");
    expect(bare.effects()).toEqual({ a: 1, b: 1 });
  } finally {
    await bare.remove();
  }
});

const TEMPLATES = readdirSync(join(ROOT, "templates")).map((file) => file.replace(/\.yaml$/, ""));

/** Writes a template in a fresh directory, runs it, kills its runner in the first step, and resumes. */
async function tryTemplate(template: string): Promise<void> {
  const fresh = new PlainProject();
  const bin = project.path("node_modules", "perdure", "bin", "perdure.js");
  try {
    const said = await fresh.script(bin, ["init", template]).ended;
    expect(said, said.stderr).toMatchObject({ exit: 0, stderr: "" });
    expect(said.stdout).toContain(`perdure run ${template}\n`);
    const runner = fresh.script(bin, ["run", template, "--auto-approve"]);
    await runner.printed("▶");
    await runner.kill("SIGKILL");
    const { exit, stdout, stderr } = await fresh.script(bin, ["resume", "--auto-approve"]).ended;
    expect(exit, `${template}: ${stdout}${stderr}`).toBe(0);
    expect(stdout).toContain("completed in");
  } finally {
    await fresh.remove();
  }
}

it("writes templates that run as they are in a fresh directory, are killed, and resume", async () => {
  expect(TEMPLATES).toHaveLength(8);
  await Promise.all(TEMPLATES.map(tryTemplate));
});

it("never replaces a pipeline, and names the templates that there are", async () => {
  const fresh = new PlainProject();
  try {
    await fresh.must(["init", "fix", "--agent", "claude"]);
    expect(fresh.read("pipelines", "fix.yaml")).toContain("agent: claude\n");
    expect(await fresh.must(["validate", "fix"])).toContain("valid");
    const again = await fresh.run(["init", "fix"]);
    expect(again.exit).toBe(1);
    expect(again.stderr).toContain("pipelines/fix.yaml exists already");
    const unnamed = await fresh.run(["init"]);
    expect(unnamed.exit).toBe(2);
    for (const name of TEMPLATES) expect(unnamed.stderr).toContain(`  ${name} `);
    expect((await fresh.run(["init", "reserch"])).stderr).toContain("perdure init research");
  } finally {
    await fresh.remove();
  }
});
