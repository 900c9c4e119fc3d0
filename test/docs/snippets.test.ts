/** The pipelines, console examples and links in README.md and docs/ are valid as they stand there. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const DOCUMENTS = ["README.md", "AGENTS.md", ...markdownIn("docs"), ...markdownIn("docs/adr")];

function markdownIn(folder: string): readonly string[] {
  const names = readdirSync(join(ROOT, folder)).filter((name) => name.endsWith(".md"));
  return names.map((name) => `${folder}/${name}`);
}

function textOf(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** Every block of YAML that is a pipeline, with the document that it stands in. */
const PIPELINES = DOCUMENTS.flatMap((path) =>
  [...textOf(path).matchAll(/^```yaml\n([\s\S]*?)^```$/gm)]
    .map(([, yaml = ""]) => [path, yaml] as const)
    .filter(([, yaml]) => /^steps:/m.test(yaml)),
);

describe("pipelines", () => {
  let project: Project;
  beforeEach(() => {
    project = new Project();
  });
  afterEach(() => project.remove());

  it("are in the README", () => {
    expect(PIPELINES.filter(([path]) => path === "README.md").length).toBeGreaterThanOrEqual(2);
  });

  it("are in TypeScript, too", async () => {
    const [, text = ""] = /^```ts\n([\s\S]*?)^```$/m.exec(textOf("README.md")) ?? [];
    project.write("checks.ts", text);
    expect(await project.must(["validate", "checks.ts"])).toBe("checks.ts: valid, 3 steps\n");
  });

  it.each(PIPELINES)("%s: %s", async (_path, yaml) => {
    const file = (name: string, text: string): void => {
      mkdirSync(dirname(project.path(name)), { recursive: true });
      project.write(name, text);
    };
    for (const [, name = ""] of yaml.matchAll(/prompt_file: (\S+)/g)) file(name, "Do it.\n");
    for (const [, name = ""] of yaml.matchAll(/schema: ([\w/]+\.json)/g)) file(name, "{}\n");
    for (const [, name = ""] of yaml.matchAll(/pipeline: (\S+\.yaml)/g)) {
      file(name, "steps: [{ id: out, run: ls }]\n");
    }
    project.write("p.yaml", yaml);
    const { exit, stdout, stderr } = await project.run(["validate", "p.yaml"]);
    expect(stdout + stderr).toMatch(/^p\.yaml: valid, \d+ steps?\n$/);
    expect(exit).toBe(0);
  });
});

describe("links", () => {
  it.each(DOCUMENTS)("%s", (path) => {
    const links = [...textOf(path).matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, link = ""]) => link)
      .filter((link) => !/^https?:/.test(link));
    const broken = links.filter((link) => {
      const [file = "", anchor] = link.split("#");
      const target = file === "" ? path : join(dirname(path), file);
      if (!existsSync(join(ROOT, target))) return true;
      return anchor !== undefined && !anchorsOf(target).includes(anchor);
    });
    expect(broken).toEqual([]);
  });
});

/** The anchors that GitHub makes of the headings of a document. */
function anchorsOf(path: string): readonly string[] {
  return [...textOf(path).matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replace(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );
}
