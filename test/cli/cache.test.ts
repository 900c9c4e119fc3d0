/**
 * Steps with `cache` take the results of earlier runs: nothing runs twice with the same inputs, and
 * no result is taken that is damaged, too old, or whose files differ.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { CRASH_ALL } from "../rig/crash-all.ts";
import { FakeClaude } from "../rig/fake-claude.ts";
import { KeptProject } from "../rig/kept-project.ts";
import { stateless, text } from "../rig/model/reply.ts";
import { Project, type StartOptions } from "../rig/project.ts";

/** Effects are counted outside of the project: a file in it would be an input of every step. */
const counted = new Project();
let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(async () => {
  await project.remove();
  effects();
});
afterAll(async () => {
  await counted.remove();
  completed?.forget();
});

/** The effects since the last call. */
function effects(): Readonly<Record<string, number>> {
  const found = counted.effects();
  fs.rmSync(counted.path("effects"), { force: true });
  return found;
}

/** Runs the pipeline; gives what it printed. */
function run(...args: readonly string[]): Promise<string> {
  return project.must(["run", "p.yaml", "--plain", ...args]);
}

async function short(): Promise<string> {
  return (await project.newestId()).slice(0, 8);
}

interface Recall {
  readonly why?: string;
  readonly rejected?: readonly { readonly why: string; readonly message: string }[];
}

/** What the newest run recalled, by step. */
async function recalls(): Promise<Readonly<Record<string, Recall>>> {
  const file = project.path(".perdure", "runs", await project.newestId(), "events.jsonl");
  const lines = fs.readFileSync(file, "utf8").trim().split("\n");
  const events = lines.map(
    (line) => JSON.parse(line) as { type: string; data: Recall & { step: string } },
  );
  const recalled = events.filter(({ type }) => type === "step.recalled");
  return Object.fromEntries(recalled.map(({ data }) => [data.step, data]));
}

/** `gen` makes a file and a value, `use` needs both, `other` needs neither. */
function chain(): void {
  project.write("in.txt", "one\n");
  project.write("other.txt", "other\n");
  project.write(
    "p.yaml",
    `steps:
  - id: gen
    run: |
      ${counted.effect("gen")}
      cat in.txt in.txt > doubled.txt; chmod +x doubled.txt; mkdir -p out; cat in.txt > out/keep
      echo color=blue >> "$PERDURE_CONTEXT"
    outputs: { doubled: doubled.txt, keep: out/keep }
    cache: { files: [in.txt] }
  - id: use
    run: |
      ${counted.effect("use")}
      sed "s/$/ \${{ context.color }}/" \${{ outputs.gen.doubled }} | tee used.txt
    outputs: { used: used.txt }
    capture: text
    cache: { files: [] }
  - id: other
    needs: []
    run: "${counted.effect("other")}; cat other.txt > copy.txt"
    outputs: { copy: copy.txt }
    workspace: own
    cache: { files: [other.txt] }
`,
  );
}

/** The chain after its first run. */
let completed: KeptProject | undefined;

/** Brings the project to the state after the first run of the chain. */
async function chainCompleted(): Promise<void> {
  if (completed === undefined) {
    chain();
    await run();
    expect(effects()).toEqual({ gen: 1, use: 1, other: 1 });
    completed = new KeptProject(project);
  } else {
    await project.remove();
    project = completed.project;
    completed.putBack();
  }
}

const PRODUCTS = ["doubled.txt", "out", "used.txt", "copy.txt"];

function removeProducts(): void {
  for (const path of PRODUCTS) fs.rmSync(project.path(path), { recursive: true, force: true });
}

function products(): Readonly<Record<string, string>> {
  const names = ["doubled.txt", "out/keep", "used.txt", "copy.txt"];
  return Object.fromEntries(
    names.map((name) => {
      const mode = fs.statSync(project.path(name)).mode & 0o100;
      return [name, `${mode === 0 ? "" : "x "}${project.read(name)}`];
    }),
  );
}

describe("an unchanged pipeline", () => {
  it("runs nothing the second time, and later only what a change affects", async () => {
    await chainCompleted();
    const first = await short();
    const files = products();
    removeProducts();

    const said = await run();
    expect(effects()).toEqual({});
    expect(products()).toEqual(files);
    expect(said).toContain(`reused from run ${first} (gen@1.1)`);
    const explained = await project.must(["explain", await short(), "use"]);
    expect(explained).toContain(`use@1.1 of run ${first}`);
    expect(await project.must(["show", await short()])).toMatch(/reused +3 steps/);
    expect(await project.must(["report", await short()])).toContain("was reused from run");
    expect(await project.must(["replay", await short()])).toContain("no difference");

    // The products are there already, and are no inputs.
    await run();
    expect(effects()).toEqual({});

    // A person wants it to run; the newest result counts from then on.
    await run("--no-cache");
    expect(effects()).toEqual({ gen: 1, use: 1, other: 1 });
    const newest = await short();

    // Only what a changed file or value leads to runs.
    project.write("other.txt", "changed\n");
    expect(await run()).toContain(`reused from run ${newest} (gen@1.1)`);
    expect(effects()).toEqual({ other: 1 });
    expect(project.read("copy.txt")).toBe("changed\n");

    project.write("in.txt", "two\n");
    await run();
    expect(effects()).toEqual({ gen: 1, use: 1 });
    expect(project.read("used.txt")).toBe("two blue\ntwo blue\n");

    const edited = project.read("p.yaml").replace("color=blue", "color=red");
    project.write("p.yaml", edited);
    await run();
    expect(effects()).toEqual({ gen: 1, use: 1 });
    expect(project.read("used.txt")).toBe("two red\ntwo red\n");
  });

  it("depends on all files of the workspace, unless the author names some", async () => {
    project.write("in.txt", "one\n");
    const step = `run: "${counted.effect("copy")}; cat in.txt > copy.txt"`;
    const outputs = "outputs: { copy: copy.txt }";
    project.write("p.yaml", `steps:\n  - { id: copy, ${step}, ${outputs}, cache: true }\n`);
    await run();
    await run();
    expect(effects()).toEqual({ copy: 1 });
    project.write("new.txt", "new\n");
    await run();
    expect(effects()).toEqual({ copy: 1 });
    expect((await recalls()).copy?.why).toBe("none");
  });
});

describe("a result is not taken", () => {
  const kept = (): readonly string[] => {
    const root = project.path(".perdure", "artifacts");
    const files = fs.readdirSync(root, { recursive: true, withFileTypes: true });
    return files.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  };

  it("when its output or its snapshot is damaged, which is reported", async () => {
    await chainCompleted();
    removeProducts();
    for (const file of kept()) {
      fs.chmodSync(file, 0o600);
      fs.appendFileSync(file, "x");
    }
    const said = await run();
    expect(effects()).toEqual({ gen: 1, use: 1, other: 1 });
    expect(said).toMatch(/gen does not reuse gen@1\.1 of run .*"doubled" is damaged/);
    expect((await recalls()).gen).toMatchObject({
      why: "rejected",
      rejected: [{ why: "damaged" }],
    });

    removeProducts();
    const objects = project.path(".perdure", "snapshots.git", "objects");
    for (const name of fs.readdirSync(objects)) {
      if (name.length === 2) fs.rmSync(join(objects, name), { recursive: true });
    }
    await run();
    expect(effects()).toEqual({ gen: 1, use: 1, other: 1 });
    expect((await recalls()).gen?.rejected?.[0]?.why).toBe("damaged");
  });

  it("when it is too old, too large, or its run was cleaned", async () => {
    project.write("in.txt", "one\n");
    const step = `run: "${counted.effect("gen")}; cat in.txt > copy.txt", outputs: { a: copy.txt }`;
    project.write("p.yaml", `steps: [{ id: gen, ${step}, cache: { files: [in.txt] } }]\n`);
    await run();
    expect(effects()).toEqual({ gen: 1 });
    project.write("perdure.yaml", "cache: { max_size: 1B }\n");
    await run();
    expect(effects()).toEqual({ gen: 1 });
    expect((await recalls()).gen?.rejected?.[0]?.why).toBe("size");

    project.write("perdure.yaml", "cache: { max_age: 1ms }\n");
    await run();
    expect(effects()).toEqual({ gen: 1 });
    expect((await recalls()).gen?.why).toBe("none");
    fs.rmSync(project.path("perdure.yaml"));

    await run();
    expect(effects()).toEqual({});
    const [taker = "", ...earlier] = await project.runIds();
    await project.must(["clean", ...earlier]);
    fs.rmSync(project.path("copy.txt"));
    await run();
    expect(effects()).toEqual({});
    expect(project.read("copy.txt")).toBe("one\n");
    await project.must(["clean", taker, (await project.runIds())[0] ?? ""]);
    await run();
    expect(effects()).toEqual({ gen: 1 });
  });

  it("when its changes do not fit the files", async () => {
    project.write("notes.txt", "a\n");
    const step = `run: "${counted.effect("add")}; echo more >> notes.txt"`;
    project.write("p.yaml", `steps: [{ id: add, ${step}, cache: { files: [] } }]\n`);
    await run();
    project.write("notes.txt", "a\n");
    await run();
    expect(effects()).toEqual({ add: 1 });
    expect(project.read("notes.txt")).toBe("a\nmore\n");
    project.write("notes.txt", "b\n");
    await run();
    expect(effects()).toEqual({ add: 1 });
    expect(project.read("notes.txt")).toBe("b\nmore\n");
    expect((await recalls()).add?.rejected?.[0]?.message).toContain("notes.txt");
  });

  it("when it changed files that no snapshot has, unless nobody needs them", async () => {
    project.write(".gitignore", "build-*/\nnode_modules/\n");
    fs.mkdirSync(project.path("node_modules"));
    fs.mkdirSync(project.path("build-output"));
    project.write("build-output/b", "of an earlier run\n");
    const step = (id: string, more: string): string =>
      `  - id: ${id}\n    run: "${counted.effect(id)}; mkdir -p build-${id}; echo ${id} > build-${id}/b"\n` +
      `    ${more}\n`;
    const steps = [
      // An output is kept beside the snapshots.
      step("output", "cache: true\n    outputs: { b: build-output/b }"),
      step("make", "cache: true"),
      step("waste", "cache: { ignored_files: not-needed }"),
    ];
    project.write("p.yaml", `steps:\n${steps.join("")}`);
    await run();
    expect(effects()).toEqual({ make: 1, waste: 1, output: 1 });
    for (const path of fs.globSync(project.path("build-*"))) fs.rmSync(path, { recursive: true });
    await run();
    expect(effects()).toEqual({ make: 1 });
    expect(await project.must(["explain", await short(), "make"])).toMatch(/not reusable.*build/);
    expect(project.read("build-output/b")).toBe("output\n");
    expect(project.exists("build-waste")).toBe(false);
  });

  it("when another step works in the same files, or when it failed", async () => {
    project.write(
      "p.yaml",
      `steps:
  - { id: left, needs: [], run: "${counted.effect("left")}", cache: true }
  - { id: right, needs: [], run: "${counted.effect("right")}", cache: true }
  - { id: fails, needs: [left, right], run: "${counted.effect("fails")}; exit 1", cache: true }
`,
    );
    for (let round = 0; round < 2; round++) {
      expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
      expect(effects()).toEqual({ left: 1, right: 1, fails: 1 });
    }
  });
});

it("takes the items of a fan-out one by one", async () => {
  project.write(
    "p.yaml",
    `input: { type: object, properties: { names: { type: array } } }
steps:
  - id: each
    for_each: { in: input.names, max_parallel: 1 }
    run: "${counted.effect("each")}; echo \${{ item }} > \${{ item }}.txt"
    outputs: { made: "\${{ item }}.txt" }
    cache: { files: [] }
`,
  );
  await run("--input-json", 'names=["a", "b"]');
  expect(effects()).toEqual({ each: 2 });
  for (const name of ["a", "b"]) fs.rmSync(project.path(`${name}.txt`));
  await run("--input-json", 'names=["new", "b", "a"]');
  expect(effects()).toEqual({ each: 1 });
  const texts = ["a", "b", "new"].map((name) => project.read(`${name}.txt`));
  expect(texts).toEqual(["a\n", "b\n", "new\n"]);
});

it("keeps secrets out of the key, and counts the variables that the plan names", async () => {
  const step = `run: "${counted.effect("call")}; echo \${{ env.REGION }} \${{ env.API_TOKEN }} > /dev/null"`;
  project.write("p.yaml", `steps: [{ id: call, ${step}, cache: true }]\n`);
  const start = (env: StartOptions["env"]): Promise<string> =>
    project.must(["run", "p.yaml"], { env: env ?? {} });
  await start({ REGION: "north", API_TOKEN: "secret-number-one" });
  await start({ REGION: "north", API_TOKEN: "secret-number-two" });
  expect(effects()).toEqual({ call: 1 });
  await start({ REGION: "south", API_TOKEN: "secret-number-two" });
  expect(effects()).toEqual({ call: 1 });
});

it("does not pay an agent twice, and reports the savings", async () => {
  const claude = await FakeClaude.open(stateless(text("The answer is 42.")));
  try {
    claude.write(
      "p.yaml",
      `prices: { fake-model: { input: 1000, output: 2000 } }
workspace: directory
steps:
  - { id: ask, agent: claude, prompt: What is it?, cache: true }
  - { id: tell, run: "printf '%s' \${{ results.ask.answer }} > answer.txt" }
`,
    );
    const said = async (args: readonly string[]): Promise<string> => {
      const { exit, stdout, stderr } = await claude.finish(args);
      expect(exit, stdout + stderr).toBe(0);
      return stdout;
    };
    await said(["run", "p.yaml", "--plain"]);
    const paid = claude.model.requests().length;
    expect(paid).toBeGreaterThan(0);
    expect(await said(["run", "p.yaml", "--plain"])).toMatch(/ask completed .*which cost \$/);
    expect(claude.model.requests()).toHaveLength(paid);
    const shown = JSON.parse(await said(["show", "--json"])) as { spent?: { cost_usd?: number } };
    expect(shown.spent?.cost_usd ?? 0).toBe(0);
    const [id = ""] = await claude.runIds();
    const answer = claude.path(".perdure", "runs", id, "workspace", "answer.txt");
    expect(fs.readFileSync(answer, "utf8")).toBe("The answer is 42.");
  } finally {
    await claude.close();
  }
});

/** The failpoints around a result that is taken; test/crash kills at all those of a run. */
const OURS = /^(reuse|workspace\.appl|workspace\.artifact)/;

describe("a kill while a result is being taken", () => {
  it("runs nothing and loses nothing, at every failpoint", { timeout: 240_000 }, async () => {
    await chainCompleted();
    const files = products();
    const log = counted.path("failpoints");
    const walk = async (nth: number): Promise<readonly string[]> => {
      removeProducts();
      fs.rmSync(log, { force: true });
      const env = { PERDURE_FAILPOINT_LOG: log, PERDURE_FAILPOINT: String(nth) };
      const { signal, exit, stdout, stderr } = await project.run(["run", "p.yaml"], { env });
      if (signal === null) expect(exit, stdout + stderr).toBe(0);
      else await project.must(["resume", await short()]);
      const passed = fs.readFileSync(log, "utf8").trim().split("\n");
      const where = `killed at ${passed.at(-1)}`;
      expect(effects(), where).toEqual({});
      expect(products(), where).toEqual(files);
      return passed;
    };
    const all = await walk(1_000_000);
    const first = all.indexOf("reuse.recalled");
    const places = all.flatMap((name, index) => {
      const isOne = CRASH_ALL || (OURS.test(name) && all.lastIndexOf(name) === index);
      return index >= first && isOne ? [index + 1] : [];
    });
    expect(places.length).toBeGreaterThan(6);
    for (const nth of places) await walk(nth);
  });
});

it("reports a step whose result cannot be reused, and says why", async () => {
  const refusals = [
    ["it must happen once", "run: make, once: true, cache: true"],
    ["it leaves a process running", "run: make, leaves_running: true, cache: true"],
    ["its agent continues a conversation", "agent: x, prompt: Go., session: main, cache: true"],
    ["`cache` has no effect on a gate", "gate: Go?, cache: true"],
  ];
  const steps = refusals.map(([, keys], index) => `  - { id: s${index}, ${keys} }\n`);
  project.write("p.yaml", `steps:\n${steps.join("")}`);
  const plain = "steps: [{ id: work, run: make, cache: true }]\n";
  project.write("none.yaml", `workspace: { snapshots: false }\n${plain}`);
  const { exit, stderr } = await project.run(["validate", "p.yaml"]);
  expect(exit).toBe(4);
  for (const [why] of refusals) expect(stderr).toContain(why);
  expect(stderr.match(/error\[cache\]/g)).toHaveLength(3);
  const none = await project.run(["validate", "none.yaml"]);
  expect(none.exit).toBe(4);
  expect(none.stderr).toMatch(/error\[cache\].*needs snapshots/);
});
