/** The form that is made from the schema of an input, and the input that it stands for. */
import { expect, test } from "vitest";
import { fieldsOf, hintsOf, inputOf, placedFaults } from "../../src/page/start/input-form.ts";
import type { Json } from "../../src/util/json.ts";

const SCHEMA = {
  type: "object",
  required: ["task", "count", "address"],
  properties: {
    task: { type: "string", maxLength: 80 },
    count: { type: "integer", minimum: 1 },
    ratio: { type: "number", default: 0.5 },
    fast: { type: "boolean", default: true },
    level: { enum: ["low", "high", 3] },
    tags: { type: "array", items: { type: "string" } },
    sizes: { type: "array", items: { type: "integer" } },
    regions: { type: "array", items: { enum: ["eu", "us"] }, default: ["eu"] },
    address: {
      type: "object",
      required: ["city"],
      properties: { city: { type: "string" }, deep: { type: "object", properties: { a: {} } } },
    },
    other: { oneOf: [{ type: "string" }, { type: "number" }] },
  },
} as const satisfies Json;

const kinds = (schema: Json): string =>
  fieldsOf(schema)
    .map(({ path, kind }) => `${path}:${kind}`)
    .join(" ");

test("each schema has the field that fits it, and JSON for the rest", () => {
  expect(kinds(SCHEMA)).toBe(
    "task:text count:integer ratio:number fast:boolean level:enum tags:list sizes:list " +
      "regions:choices address:group other:json",
  );
  const group = fieldsOf(SCHEMA).find(({ kind }) => kind === "group");
  expect(group?.fields.map(({ path, kind }) => `${path}:${kind}`)).toEqual([
    "address/city:text",
    "address/deep:json",
  ]);
  expect(kinds({ type: "string" })).toBe(":text");
  expect(kinds(null)).toBe(":json");
  expect(kinds({ anyOf: [SCHEMA, { type: "string" }] })).toBe(":json");
  expect(kinds({ type: "object", properties: {} })).toBe("");
  const count = fieldsOf(SCHEMA).find(({ path }) => path === "count");
  expect(count === undefined ? "" : hintsOf(count)).toBe("at least 1");
});

test("fields become the input; what was not touched is left to the pipeline's defaults", () => {
  const { input, faults } = inputOf(fieldsOf(SCHEMA), {
    task: "mend it",
    count: "3",
    fast: false,
    level: "3",
    tags: "a\n\nb c\n",
    sizes: "1\n2",
    regions: ["us"],
    "address/city": "Rome",
    other: '{"x": [1]}',
  });
  expect(faults).toEqual({});
  expect(input).toEqual({
    ...{ task: "mend it", count: 3, fast: false, level: 3, tags: ["a", "b c"], sizes: [1, 2] },
    ...{ regions: ["us"], address: { city: "Rome" }, other: { x: [1] } },
  });
  expect(inputOf(fieldsOf({ type: "string" }), { "": "[not JSON" }).input).toBe("[not JSON");
  expect(inputOf(fieldsOf(null), {}).input).toBeUndefined();
  expect(inputOf(fieldsOf(null), { "": "[1]" }).input).toEqual([1]);
});

test("what cannot be sent is a fault of its field; the server's faults come to theirs", () => {
  const fields = fieldsOf(SCHEMA);
  const { faults } = inputOf(fields, { count: "1.5", ratio: "much", sizes: "1\nx", other: "{" });
  expect(Object.keys(faults).sort()).toEqual(
    ["address/city", "count", "other", "ratio", "sizes", "task"].sort(),
  );
  const found = { "tags/1": "This is wrong.", "address/city": "This is missing.", "": "Too much." };
  expect(placedFaults(fields, found)).toEqual({
    tags: "This is wrong.",
    "address/city": "This is missing.",
    "": "Too much.",
  });
});
