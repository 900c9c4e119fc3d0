/** Writes the JSON Schemas of pipelines and of all JSON that commands print: `node scripts/schema.ts`. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { publishedConfigurationSchema, publishedSchema } from "../src/pipeline/schema.ts";
import { publishedSchemas } from "../src/view/json/json-schema.ts";

const folder = new URL("../schema/", import.meta.url);

function write(name: string, schema: unknown): void {
  writeFileSync(new URL(`${name}.schema.json`, folder), `${JSON.stringify(schema, null, 2)}\n`);
}

write("pipeline", publishedSchema());
write("configuration", publishedConfigurationSchema());
rmSync(new URL("json/", folder), { recursive: true, force: true });
mkdirSync(new URL("json/", folder));
for (const [name, schema] of publishedSchemas()) write(`json/${name}`, schema);
