/**
 * Failed items of a fan-out that continues without them: they are reported, and can be run again
 * alone.
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

function pipeline(steps = ""): void {
  project.write(
    "p.yaml",
    `steps:
  - id: a
    run: ${project.effect("a")}
  - id: map
    for_each: { in: [1, 2, 3, 4] }
    on_item_failure: continue
    max_parallel: 2
    ${steps === "" ? `run: ${work()}` : `steps:\n${steps}`}
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

it("are in the summary of the run, with the command that runs them again", async () => {
  pipeline();
  const { id, out } = await ran();
  expect(out).toContain("2 of 4 items of map failed");
  expect(out).toContain(`Run the failed items again: perdure retry ${id} map --failed`);
  expect(project.effects()).toEqual(ONCE);
});

it("run again all together, and what comes after the fan-out with them", async () => {
  pipeline();
  const { id } = await ran();
  project.write("go-2", "");
  const plan = await project.must(["retry", id, "map", "--failed", "--dry-run"]);
  expect(plan).toMatch(/map +continue +2 items that failed run again; the others stay completed/);
  await project.must(["retry", id, "map", "--failed"]);
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

it("continue in the middle of an item that has several steps", async () => {
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

it("are run again once although the runner is killed meanwhile", async () => {
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
