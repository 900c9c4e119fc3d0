/** Patterns of authors and schemas: matching takes linear time, whatever a step prints. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { PATIENCE_MS } from "../rig/patience.ts";
import { PlainProject, type Project } from "../rig/project.ts";

/** JavaScript's own engine needs hours for this pattern and this text. */
const SLOW_PATTERN = "^(a+)+$";
const SLOW_TEXT = `${"a".repeat(40)}!`;
/** A frozen runner hears no SIGTERM, so the test's own limit is what ends it. */
const LIMIT_MS = PATIENCE_MS;

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

it("in the schema of a check fails the step", { timeout: LIMIT_MS }, async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: make
    run: printf '{"name":"%s","map":{"%s":1}}' "$TEXT" "$TEXT" > o.json
    env: { TEXT: ${SLOW_TEXT} }
    check:
      file: o.json
      schema:
        properties:
          name: { pattern: "${SLOW_PATTERN}" }
          map: { patternProperties: { "${SLOW_PATTERN}": { type: string } } }
`,
  );
  const { exit, stdout } = await project.run(["run", "p.yaml"]);
  expect(stdout).toContain("o.json does not fit its schema: #/name: String does not match pattern");
  expect(exit).toBe(3);
});

it("in the schema of a check still accepts what matches", { timeout: LIMIT_MS }, async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: make
    run: printf '{"name":"aaé","x-1":"t","other":1,"p":"(?=a)"}' > o.json
    check:
      file: o.json
      schema:
        properties: { name: { pattern: "^(a+)+\\u00e9$" } }
        patternProperties: { "^x-\\\\d+$": { type: string }, "^p$": { format: regex } }
`,
  );
  await project.must(["run", "p.yaml"]);
});

it("in a condition decides it", { timeout: LIMIT_MS }, async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: no
    when: input.text.matches("${SLOW_PATTERN}")
    run: ${project.effect("no")}
  - id: yes
    when: input.text.matches(input.pattern) == false && "aaa".matches("${SLOW_PATTERN}")
    run: ${project.effect("yes")}
`,
  );
  await project.must(["run", "p.yaml", "-i", `text=${SLOW_TEXT}`, "-i", `pattern=${SLOW_PATTERN}`]);
  expect(project.effects()).toEqual({ yes: 1 });
});

it("in the schema of the input refuses it", { timeout: LIMIT_MS }, async () => {
  project.write(
    "p.yaml",
    `input: { type: object, properties: { text: { pattern: "${SLOW_PATTERN}" } } }
steps: [{ id: one, run: "true" }]
`,
  );
  const { exit, stderr } = await project.run(["run", "p.yaml", "-i", `text=${SLOW_TEXT}`]);
  expect(stderr).toContain("text: String does not match pattern");
  expect(exit).toBe(2);
});

it("in the edge of a DOT pipeline chooses it", { timeout: LIMIT_MS }, async () => {
  project.write(
    "p.dot",
    `digraph p {
  start [shape=Mdiamond]; done [shape=Msquare]
  say [shape=parallelogram, tool_command="printf %s ${SLOW_TEXT}"]
  no [shape=parallelogram, tool_command="${project.effect("no")}"]
  yes [shape=parallelogram, tool_command="${project.effect("yes")}"]
  start -> say
  say -> no [condition="tool.output matches ${SLOW_PATTERN}"]
  say -> yes
  no -> done
  yes -> done
}
`,
  );
  await project.must(["run", "p.dot"]);
  expect(project.effects()).toEqual({ yes: 1 });
});

it.each(["email", "hostname", "uri", "uri-reference", "uri-template", "url", "date-time"])(
  "of the format %s end too",
  { timeout: LIMIT_MS },
  async (format) => {
    project.write(
      "p.yaml",
      `input: { type: object, properties: { text: { format: ${format} } } }
steps: [{ id: one, run: "true" }]
`,
    );
    for (const text of [
      `http://${"a".repeat(60)}!`,
      `http://${"a-".repeat(60)}é `,
      `{${"a.".repeat(60)}`,
      `${"a@".repeat(500)} `,
    ]) {
      const { exit } = await project.run(["run", "p.yaml", "-i", `text=${text}`]);
      expect([0, 2]).toContain(exit);
    }
  },
);

it("fails the step at a list that is too long to be compared with itself", {
  timeout: LIMIT_MS,
}, async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: make
    run: seq -s , 1 200000 | sed 's/.*/[&]/' > o.json
    check: { file: o.json, schema: { type: array, uniqueItems: true } }
`,
  );
  const { exit, stdout } = await project.run(["run", "p.yaml"]);
  expect(stdout).toContain("a list of 200000 items; uniqueItems takes at most 5000");
  expect(exit).toBe(3);
});

it("that cannot be matched in linear time are mistakes with a position", async () => {
  project.write(
    "p.yaml",
    `input:
  type: object
  properties:
    one: { pattern: "^(?=.*x)a" }
  patternProperties:
    "(a)\\\\1": {}
steps:
  - id: one
    when: input.one.matches("(?<n>a)\\\\k<n>")
    run: "true"
`,
  );
  const { exit, stdout, stderr } = await project.run(["validate", "p.yaml"]);
  const said = stdout + stderr;
  expect(said).toContain("p.yaml:4:21");
  expect(said).toContain("p.yaml:6:5");
  expect(said).toContain("p.yaml:9:29");
  expect(said).toContain("no lookahead, lookbehind or backreference");
  expect(exit).toBe(4);
});
