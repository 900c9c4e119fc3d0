/**
 * Failed items of a fan-out that continues without them are reported, and can be run again alone.
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

function pipeline(steps = "", run = work()): void {
  project.write(
    "p.yaml",
    `steps:
  - id: a
    run: ${project.effect("a")}
  - id: map
    for_each: { in: [1, 2, 3, 4] }
    on_item_failure: continue
    max_parallel: 2
    ${steps === "" ? `run: ${JSON.stringify(run)}` : `steps:\n${steps}`}
  - id: sum
    run: ${project.effect("sum")}
`,
  );
}

/** The items 2 and 4 fail until there is a file of their name. */
function work(): string {
  const counted = `echo "item $PERDURE_ITEM" >> '${project.path("effects")}'`;
  const ok = `{ [ $((PERDURE_ITEM % 2)) = 1 ] || test -e '${project.dir}'/go-$PERDURE_ITEM; }`;
  return `${counted}; ${ok}`;
}

async function ran(): Promise<{ readonly id: string; readonly out: string }> {
  const out = await project.must(["run", "p.yaml"]);
  const [id = ""] = await project.runIds();
  return { id: id.slice(0, 8), out };
}

const ONCE = { a: 1, "item 1": 1, "item 2": 1, "item 3": 1, "item 4": 1, sum: 1 };

it("are in the summary of the run, with the command that retries them", async () => {
  pipeline();
  const { id, out } = await ran();
  expect(out).toContain("2 of 4 items of map failed: map[1] (2), map[3] (4)");
  expect(out).toMatch(new RegExp(`Run the failed items again: perdure retry ${id} map$`, "m"));
  const why = await project.must(["why", id]);
  expect(why).toContain("with 2 failed items");
  expect(why).toContain("map[1] (2), map[3] (4)");
  expect(project.effects()).toEqual(ONCE);
});

it("run again all together, followed by the steps after the fan-out", async () => {
  pipeline();
  const { id } = await ran();
  project.write("go-2", "");
  const plan = await project.must(["retry", id, "map", "--dry-run"]);
  expect(plan).toMatch(/map +continue +2 items run again; the others stay as they are/);
  await project.must(["retry", id, "map"]);
  expect(project.effects()).toEqual({ ...ONCE, "item 2": 2, "item 4": 2, sum: 2 });
  project.write("go-4", "");
  const last = await project.must(["retry", id, "map", "--failed"]);
  expect(project.effects()).toEqual({ ...ONCE, "item 2": 2, "item 4": 3, sum: 3 });
  expect(last).not.toContain("items of map failed");
  const none = await project.run(["retry", id, "map", "--failed"]);
  expect(none.exit).toBe(2);
  expect(none.stderr).toContain("no item of step map failed");
});

it("run again one by one", async () => {
  pipeline();
  const { id } = await ran();
  project.write("go-4", "");
  const out = await project.must(["retry", id, "map@1.1[3]/map"]);
  expect(project.effects()).toEqual({ ...ONCE, "item 4": 2, sum: 2 });
  expect(out).toContain("1 of 4 items of map failed");
  const done = await project.run(["retry", id, "map@1.1[0]/map"]);
  expect(done.stderr).toContain("only a step of the pipeline itself can be run again");
});

it("continue at the failed step of an item with several steps", async () => {
  const effect = (name: string): string =>
    `echo "${name} $PERDURE_ITEM" >> '${project.path("effects")}'`;
  pipeline(
    `      - { id: first, run: ${JSON.stringify(effect("first"))} }
      - { id: check, run: ${JSON.stringify(work())} }
      - { id: last, run: ${JSON.stringify(effect("last"))} }
`,
  );
  const { id } = await ran();
  project.write("go-2", "");
  project.write("go-4", "");
  await project.must(["retry", id, "map", "--failed"]);
  const each = (name: string, count: number): Record<string, number> =>
    Object.fromEntries([1, 2, 3, 4].map((item) => [`${name} ${item}`, count]));
  expect(project.effects()).toEqual({
    a: 1,
    ...each("first", 1),
    ...each("last", 1),
    ...each("item", 1),
    ...{ "item 2": 2, "item 4": 2 },
    sum: 2,
  });
});

it("run again once even if the runner is killed meanwhile", async () => {
  pipeline();
  const { id } = await ran();
  project.write("go-2", "");
  project.write("go-4", "");
  const runner = project.start(["retry", id, "map", "--failed"]);
  await runner.printed("running again");
  await runner.kill("SIGKILL");
  await project.must(["resume", id]);
  expect(project.effects()).toEqual({ ...ONCE, "item 2": 2, "item 4": 2, sum: 2 });
});

it("run again by their positions, like completed items", async () => {
  pipeline();
  const { id } = await ran();
  project.write("go-4", "");
  const plan = await project.must(["retry", id, "map[3]", "map[0]", "--dry-run"]);
  expect(plan).toMatch(/map +continue +2 items run again/);
  const out = await project.must(["retry", id, "map[3]", "map[0]"]);
  expect(project.effects()).toEqual({ ...ONCE, "item 4": 2, "item 1": 2, sum: 2 });
  expect(out).toContain("1 of 4 items of map failed: map[1] (2)");
  await project.must(["replay", id]);
});

it("are named in a refusal when they do not exist", async () => {
  pipeline();
  const { id } = await ran();
  const refused = async (...names: readonly string[]): Promise<string> => {
    const { exit, stderr } = await project.run(["retry", id, ...names]);
    expect(exit).toBe(2);
    return stderr;
  };
  expect(await refused("map[4]")).toContain(
    "there is no map[4] in step map: its last item is map[3]",
  );
  expect(await refused("sum[0]")).toContain("step sum is not a fan-out");
  expect(await refused("map[1]", "sum")).toContain("must be items of one fan-out");
  expect(await refused("map@1.2[1]")).toContain("is not the last attempt");
  expect(project.effects()).toEqual(ONCE);
});

it("keep a fan-out that needs every item failed until each has run again", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: map
    for_each: { in: [1, 2, 3, 4] }
    max_parallel: 4
    run: ${work()}
  - id: sum
    run: ${project.effect("sum")}
`,
  );
  const failed = await project.run(["run", "p.yaml"]);
  expect(failed.exit).toBe(3);
  expect(failed.stdout).toContain("2 of 4 items of map failed: map[1] (2), map[3] (4)");
  const [id = ""] = await project.runIds();
  project.write("go-2", "");
  project.write("go-4", "");
  const again = await project.run(["retry", id, "map[1]"]);
  expect(again.exit).toBe(3);
  expect(again.stdout).toContain("1 of 4 items of map failed: map[3] (4)");
  const { a: _, sum: __, ...items } = ONCE;
  expect(project.effects()).toEqual({ ...items, "item 2": 2 });
  await project.must(["retry", id, "map[3]"]);
  expect(project.effects()).toEqual({ ...items, "item 2": 2, "item 4": 2, sum: 1 });
});

it("run again once by position even if the runner is killed inside the item", async () => {
  const hold = project.hold("item");
  const again = `test ! -e '${project.path("go-4")}' || [ $PERDURE_ITEM != 4 ] || ${hold.command}`;
  pipeline("", `${work()} && { ${again}; }`);
  const { id } = await ran();
  project.write("go-4", "");
  const runner = project.start(["retry", id, "map[3]"]);
  await hold.arrived();
  await runner.kill("SIGKILL");
  await hold.release();
  await project.must(["resume", id]);
  expect(project.effects()).toEqual({ ...ONCE, "item 4": 2, sum: 2 });
});

it("run again in a living run, without a second runner", async () => {
  const hold = project.hold("sum");
  project.write(
    "p.yaml",
    `steps:
  - id: map
    for_each: { in: [1, 2, 3, 4] }
    on_item_failure: continue
    run: ${work()}
  - { id: other, needs: [], run: ${JSON.stringify(hold.command)} }
  - { id: sum, needs: [map], run: ${project.effect("sum")} }
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.printed("sum completed");
  const [id = ""] = await project.runIds();
  project.write("go-4", "");
  const said = await project.must(["retry", id, "map[3]"]);
  expect(said).toContain("Retrying map[3] of run");
  expect(said).toContain("runs again: sum");
  await runner.printed(/sum completed[\s\S]*sum completed/);
  await hold.release();
  const { exit, stdout } = await runner.ended;
  expect(exit).toBe(0);
  expect(stdout).toContain("1 of 4 items of map failed: map[1] (2)");
  const { a: _, ...once } = ONCE;
  expect(project.effects()).toEqual({ ...once, "item 4": 2, sum: 2 });
});
