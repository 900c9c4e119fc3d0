/** Writes schema/pipeline.schema.json from the zod schema: `node scripts/schema.ts`. */
import { writeFileSync } from "node:fs";
import { publishedSchema } from "../src/pipeline/schema.ts";

const file = new URL("../schema/pipeline.schema.json", import.meta.url);
writeFileSync(file, `${JSON.stringify(publishedSchema(), null, 2)}\n`);
