/**
 * `-i key=value` and `--input-json key=...`: the schema decides the type of a value, and no value
 * is damaged.
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

const STEPS = "steps:\n  - id: a\n    run: exit 0\n";

/** The input of a run that was started with these options. */
async function inputOf(...options: readonly string[]): Promise<unknown> {
  await project.must(["run", "p.yaml", ...options]);
  const [id = ""] = await project.runIds();
  return JSON.parse(await project.must(["show", id, "--json"])).input;
}

describe("without a schema", () => {
  it("reads a value as text, unless it can only be something else", async () => {
    project.write("p.yaml", STEPS);
    const cases: Readonly<Record<string, unknown>> = {
      "1.20": "1.20",
      "007": "007",
      "9007199254740993": "9007199254740993",
      "-0": "-0",
      "1e3": "1e3",
      "0x10": "0x10",
      Infinity: "Infinity",
      "": "",
      " 1": " 1",
      True: "True",
      "[WIP] fix bug": "[WIP] fix bug",
      "{x}": "{x}",
      '"quoted" text': '"quoted" text',
      '["a"]': '["a"]',
      "a=b": "a=b",
      "1.5": 1.5,
      "-3": -3,
      "9007199254740991": 9007199254740991,
      true: true,
      false: false,
      null: null,
    };
    const texts = Object.keys(cases);
    const options = texts.flatMap((text, at) => ["-i", `v${at}=${text}`]);
    const given = (await inputOf(...options)) as Readonly<Record<string, unknown>>;
    const read = Object.fromEntries(texts.map((text, at) => [text, given[`v${at}`]]));
    expect(read).toEqual(cases);
  });

  it("accepts a whole input that begins with a bracket", async () => {
    project.write("p.yaml", STEPS);
    expect(await inputOf("-i", "[WIP] fix bug")).toBe("[WIP] fix bug");
    expect(await inputOf("-i", '{"a": [1, 2]}')).toEqual({ a: [1, 2] });
  });

  it("accepts JSON with --input-json, together with values of -i", async () => {
    project.write("p.yaml", STEPS);
    const json = [
      "--input-json",
      'tags=["a", 1]',
      "--input-json",
      "n=1.5",
      "--input-json",
      'o={"a": null}',
    ];
    expect(await inputOf("-i", "v=1.20", ...json)).toEqual({
      v: "1.20",
      tags: ["a", 1],
      n: 1.5,
      o: { a: null },
    });
    for (const [option, words] of [
      ["tags=[a]", "the input from --input-json tags is not JSON"],
      ["[1]", '--input-json takes key=JSON, such as \'tags=["a", "b"]\', not [1]'],
    ] as const) {
      const refused = await project.run(["run", "p.yaml", "--input-json", option]);
      expect(refused.exit).toBe(2);
      expect(refused.stderr).toContain(words);
    }
    const id = await project.newestId();
    await project.must(["fork", id, "--input-json", "v=[2]"]);
    const [fork = ""] = (await project.runIds()).filter((one) => one !== id);
    expect(JSON.parse(await project.must(["show", fork, "--json"])).input).toEqual({ v: [2] });
  });
});

describe("with a schema", () => {
  it("gives a value the type of the schema, or names the mistake", async () => {
    project.write(
      "p.yaml",
      `input:
  type: object
  properties:
    version: { type: string }
    n: { type: number }
    on: { type: boolean }
    tags: { type: array }
    o: { type: object }
    level: { enum: ["1", high, 2] }
    any: {}
${STEPS}`,
    );
    const typed = [
      "version=2",
      "n=2",
      "on=true",
      'tags=["a"]',
      'o={"k": 1}',
      "level=1",
      "any=true",
    ];
    expect(await inputOf(...typed.flatMap((pair) => ["-i", pair]))).toEqual({
      version: "2",
      n: 2,
      on: true,
      tags: ["a"],
      o: { k: 1 },
      level: "1",
      any: true,
    });
    expect(await inputOf("-i", "level=2", "-i", "version=[x")).toEqual({ level: 2, version: "[x" });
    for (const [pair, words] of [
      ["n=many", "n must be of type number, not string"],
      ["on=yes", "on must be of type boolean, not string"],
      ["tags=a,b", "the input from tags=... is not JSON"],
    ] as const) {
      const refused = await project.run(["run", "p.yaml", "-i", pair]);
      expect(refused.exit, pair).toBe(2);
      expect(refused.stderr).toContain(words);
    }
  });

  it("refuses a key that the pipeline does not declare, and suggests a similar one", async () => {
    project.write(
      "p.yaml",
      `input: { type: object, required: [version], properties: { version: { type: string } } }\n${STEPS}`,
    );
    const wrong = await project.run(["run", "p.yaml", "-i", "verison=1.20"]);
    expect(wrong.exit).toBe(2);
    expect(wrong.stderr).toBe(
      `error: the input does not fit the pipeline's schema: verison is not known (did you mean version?)
  next: perdure run p.yaml --input version=...
`,
    );
    const far = await project.run(["run", "p.yaml", "-i", "version=1", "-i", "colour=red"]);
    expect(far.stderr).toContain("colour is not known (it takes version)");
    expect(await project.must(["list"])).toContain("No runs.");
    expect(await inputOf("-i", "version=1.20")).toEqual({ version: "1.20" });
  });

  it("accepts an undeclared key where the schema allows additional ones", async () => {
    const schema = "type: object, properties: { version: { type: string } }";
    project.write("p.yaml", `input: { ${schema}, additionalProperties: true }\n${STEPS}`);
    expect(await inputOf("-i", "verison=1.20")).toEqual({ verison: "1.20" });
  });

  it("does not show a secret input that it refuses", async () => {
    project.write(
      "p.yaml",
      `secrets: [pin]
input: { type: object, properties: { pin: { type: string, pattern: "^[0-9]+$" } } }
${STEPS}`,
    );
    const refused = await project.run(["run", "p.yaml", "-i", "pin=q7w9x"]);
    expect(refused.exit).toBe(2);
    expect(refused.stdout + refused.stderr).not.toContain("q7w9x");
  });
});
