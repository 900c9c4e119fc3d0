/** docs/HTTP.md has the addresses that the server has. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { httpText } from "../../scripts/http.ts";
import { ENDPOINTS } from "../../src/web/endpoints.ts";

const page = readFileSync(new URL("../../docs/HTTP.md", import.meta.url), "utf8");

it("lists every address (`npm run docs` writes it)", () => {
  expect(httpText(page)).toBe(page);
  for (const { method, path } of Object.values(ENDPOINTS)) {
    expect(page).toContain(`\`${method} ${path}\``);
  }
});
