/** What axe-core finds on a page: the rule, the first element, and how many more there are. */
import * as fs from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const require = createRequire(import.meta.url);
const SOURCE = require.resolve("axe-core/axe.min.js");

interface Found {
  readonly id: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** The violations on the page as it is shown now; none is what a test expects. */
export async function violations(page: Page): Promise<readonly string[]> {
  // Half a megabyte; it stays until the page is loaded anew.
  if (!(await page.evaluate("'axe' in globalThis"))) {
    await page.evaluate(fs.readFileSync(SOURCE, "utf8"));
  }
  const found = await page.evaluate<readonly Found[]>(
    "axe.run(document, { resultTypes: ['violations'], preload: false }).then((all) => all.violations)",
  );
  return found.map(({ id, nodes }) => `${id} (${nodes.length}): ${nodes[0]?.html.slice(0, 160)}`);
}
