/**
 * A step that must not happen twice does not, whatever brings it back (P4): retry of a step before
 * it, resume --from-step, rewind, fork, an edit of the pipeline, and the retry of a group around
 * it. Effects are counted.
 */
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { Situation } from "../rig/kept-project.ts";
import { type Hold, PlainProject, type Program, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** The effect leaves a mark with its key, which a probe can look for. */
const PUSH = `echo "$PERDURE_IDEMPOTENCY_KEY" >> pushed`;
const PROBE = `grep -qxF "$PERDURE_IDEMPOTENCY_KEY" pushed && echo "found $PERDURE_IDEMPOTENCY_KEY"`;

function pipeline(once: string, a = "one"): string {
  return `steps:
  - id: a
    run: ${project.effect("a")} # ${a}
  - id: push
    once: ${once}
    run: |
      ${project.effect("push")}
      ${PUSH}
  - id: z
    run: ${project.effect("z")}
`;
}

async function another(once: string): Promise<string> {
  project.write("p.yaml", pipeline(once));
  await project.must(["run", "p.yaml"]);
  const [id = ""] = await project.runIds();
  return id.slice(0, 8);
}

const WITH_PROBE = `{ probe: '${PROBE}' }`;

const SITUATIONS = {
  true: new Situation<Project, string>(() => another("true")),
  [WITH_PROBE]: new Situation<Project, string>(() => another(WITH_PROBE)),
};
afterAll(() => {
  for (const one of Object.values(SITUATIONS)) one.forget();
});

/** A completed run, which the tests share: each has it as it was when it had ended. */
async function completed(once: keyof typeof SITUATIONS): Promise<string> {
  const found = await SITUATIONS[once].in(project);
  project = found.project;
  return found.value;
}

type IncomingEdge = readonly [name: string, bring: (id: string) => readonly (readonly string[])[]];

const WAYS: readonly IncomingEdge[] = [
  ["retry of a step before it", (id) => [["retry", id, "a"]]],
  ["resume --from-step", (id) => [["resume", id, "--from-step", "a"]]],
  [
    "rewind and resume",
    (id) => [
      ["rewind", id, "a"],
      ["resume", id],
    ],
  ],
  ["fork --start", (id) => [["fork", id, "--at", "a", "--start"]]],
  ["fork --start at the step", (id) => [["fork", id, "--at", "push", "--start"]]],
];

describe.each(WAYS)("brought back by %s", (_name, bring) => {
  it("asks its probe first, whose yes stands for the effect", async () => {
    const id = await completed(WITH_PROBE);
    let out = "";
    for (const args of bring(id)) out = await project.must(args);
    expect(out).toMatch(
      /\? push must not happen twice, and it happened as push@1.*the probe is asked/,
    );
    expect(out).toMatch(/\? push happened, according to its probe: found /);
    expect(project.effects()).toMatchObject({ push: 1, z: 2 });
  });

  it("asks a person if there is no probe", async () => {
    const id = await completed("true");
    let exit: number | null = 0;
    let out = "";
    for (const args of bring(id)) ({ exit, stdout: out } = await project.run(args));
    expect(exit).toBe(3);
    expect(project.effects()).toMatchObject({ push: 1, z: 1 });
    const [settle = "", run = ""] = /perdure settle (\w+) push done/.exec(out) ?? [];
    await project.must(settle.split(" ").slice(1));
    await project.must(["resume", run]);
    expect(project.effects()).toMatchObject({ push: 1, z: 2 });
  });
});

it("runs again if its probe says no, or a person says redo", async () => {
  const id = await completed(WITH_PROBE);
  project.write("pushed", "");
  await project.must(["retry", id, "a"]);
  expect(project.effects()).toMatchObject({ push: 2, z: 2 });
  // The effect of the second visit has a key of its own, and is found by it.
  await project.must(["retry", id, "a"]);
  expect(project.effects()).toMatchObject({ a: 3, push: 2, z: 3 });

  const other = await another("true");
  await project.run(["retry", other, "a"]);
  await project.must(["settle", other, "push", "redo"]);
  await project.must(["resume", other]);
  expect(project.effects()).toMatchObject({ push: 4, z: 5 });
});

it("keeps the key of an unconfirmed effect over a rewind", async () => {
  const [before, after] = [project.hold("before"), project.hold("after")];
  project.write(
    "p.yaml",
    `steps:
  - id: push
    once: { probe: 'test -e know || exit 2; ${PROBE}' }
    run: |
      ${before.command}
      ${project.effect("push")}
      ${PUSH}
      ${after.command}
`,
  );
  await killed(await startedAt(before, ["run", "p.yaml"]));
  const [id = ""] = await project.runIds();
  await project.must(["rewind", id, "push"]);
  expect((await project.run(["resume", id])).exit).toBe(3);
  await project.must(["settle", id, "push", "redo"]);
  const runner = project.start(["resume", id]);
  await before.release();
  await after.arrived();
  await killed(runner);
  project.write("know", "");
  await project.must(["resume", id]);
  expect(project.effects()).toEqual({ push: 1 });
  expect(project.read("pushed")).toBe(`${id}/push@1\n`);
});

async function killed(runner: Program): Promise<void> {
  await runner.kill("SIGKILL");
  await project.killSteps();
}

async function startedAt(hold: Hold, args: readonly string[]): Promise<Program> {
  const runner = project.start(args);
  await hold.arrived();
  return runner;
}

it("asks before an edit repeats it", async () => {
  const id = await completed(WITH_PROBE);
  project.write("p.yaml", pipeline(WITH_PROBE, "two").replace("effects' #", "effects' ; true #"));
  const reported = await project.must(["resume", id, "--update", "--dry-run"]);
  expect(reported).toContain("push@1 happened and must not happen twice: the probe is asked first");
  await project.must(["resume", id, "--update", "--yes"]);
  expect(project.effects()).toEqual({ a: 2, push: 1, z: 2 });
});

it("asks before the retry of a group repeats it", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: group
    retry: 3
    steps:
      - id: push
        once: ${WITH_PROBE}
        run: |
          ${project.effect("push")}
          ${PUSH}
      - id: late
        run: ${project.effect("late")}; test "$(grep -c late '${project.path("effects")}')" = 3
`,
  );
  await project.must(["run", "p.yaml"]);
  expect(project.effects()).toEqual({ push: 1, late: 3 });
});

it("does not ask about a new iteration of a loop, which is another effect", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: push
    once: true
    run: ${project.effect("push")}
  - id: test
    run: test "$(grep -c push '${project.path("effects")}')" = 3
    on_failure: push
    max_visits: 5
`,
  );
  await project.must(["run", "p.yaml"]);
  expect(project.effects()).toEqual({ push: 3 });
});

it("announces what it will ask", async () => {
  const probed = await completed(WITH_PROBE);
  const table = await project.must(["retry", probed, "a", "--dry-run"]);
  expect(table).toMatch(/push +probe first +it comes after a; push@1 happened and must not happen/);
  const plain = await another("true");
  expect(await project.must(["resume", plain, "--from-step", "a", "--dry-run"])).toMatch(
    /push +needs settle +it comes after a; push@1 happened .* you are asked first/,
  );
  expect(await project.must(["rewind", plain, "a", "--dry-run"])).toContain(
    "once: push; push@1 happened and must not happen twice: you are asked first\n",
  );
  expect(await project.must(["fork", probed, "--at", "a", "--dry-run"])).toContain(
    `once: push@1 happened in run ${probed}; its probe is asked before it happens again\n`,
  );
  expect(project.effects()).toMatchObject({ push: 2 });
});
