/** A fan-out that takes some of the items of a JSON file, in an order of its own. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
  project.write(
    "items.json",
    JSON.stringify({
      data: {
        items: [
          { name: "a", score: 3, ok: true },
          { name: "b", score: 9, ok: true },
          { name: "c", score: 5, ok: false },
          { name: "d", score: 7, ok: true },
        ],
      },
    }),
  );
});
afterEach(() => project.remove());

function pipeline(forEach: string): void {
  const run = 'run: "echo ${{ item.name }} >> names"';
  project.write("p.yaml", `steps:\n  - { id: each, for_each: ${forEach}, ${run} }\n`);
}

it("filters, sorts and limits the items at a path of a file", async () => {
  const selection = 'where: item.ok, sort_by: "-item.score", limit: 2, max_parallel: 1';
  pipeline(`{ in: { file: items.json, path: "$.data.items[*]" }, ${selection} }`);
  await project.must(["run", "p.yaml"]);
  expect(project.read("names")).toBe("b\nd\n");
});

it("does the same with the items of an expression, which sees the name of `as`", async () => {
  const selection = 'as: one, where: "one.score > 4 && index > 0", sort_by: one.name';
  pipeline(`{ in: input.data.items, ${selection}, max_parallel: 1 }`);
  await project.must(["run", "p.yaml", "-i", "@items.json"]);
  expect(project.read("names")).toBe("b\nc\nd\n");
});

it("fails if there is no list, or if an expression has no value, and says so", async () => {
  pipeline("{ in: { file: items.json, path: data.nothing } }");
  const none = await project.run(["run", "p.yaml"]);
  expect(none.stdout).toContain("items.json at `data.nothing` holds no list");
  pipeline("{ in: { file: items.json, path: data.items }, where: item.color == 1 }");
  const bad = await project.run(["run", "p.yaml"]);
  expect(bad.exit).toBe(3);
  expect(bad.stdout).toContain('there is no key "color"');
});

it("is checked before the run", async () => {
  pipeline("{ in: input.data.items, where: itm.ok }");
  const refused = await project.run(["validate", "p.yaml"]);
  expect(refused.exit).toBe(4);
  expect(refused.stdout + refused.stderr).toContain("itm");
});
