/**
 * Writes the tables of docs/HTTP.md from the table of the server's endpoints: `node scripts/http.ts`.
 * A test compares the page with what the table says now.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { isOptional } from "../src/core/shape.ts";
import type { Endpoint } from "../src/web/endpoint.ts";
import { ENDPOINT_TABLES } from "../src/web/endpoints.ts";

const TABLES: Readonly<Record<string, Readonly<Record<string, Endpoint>>>> = ENDPOINT_TABLES;

const PAGE = new URL("../docs/HTTP.md", import.meta.url);
const MARKED = /(<!-- table: (\w+) -->\n)[\s\S]*?(<!-- end -->)/g;

/** The page with its tables as the code has them now. */
export function httpText(page: string): string {
  return page.replaceAll(MARKED, (_, start: string, name: string, end: string) => {
    return `${start}${table(TABLES[name] ?? {})}\n${end}`;
  });
}

function table(endpoints: Readonly<Record<string, Endpoint>>): string {
  const rows = Object.values(endpoints).map(
    (one) => `| \`${one.method} ${one.path}\` | ${one.about}${takes(one)}${form(one)} |`,
  );
  return ["| Address | |", "|---|---|", ...rows].join("\n");
}

/** The parameters of a GET, and the fields of a POST. */
function takes({ query, body }: Endpoint): string {
  const parameters = Object.entries(query).map(([name, about]) => `\`${name}\`: ${about}`);
  const fields = Object.entries(body).map(([name, shape]) =>
    isOptional(shape) ? `\`${name}\` (optional)` : `\`${name}\``,
  );
  const all = [...parameters, ...fields];
  return all.length === 0 ? "" : ` Takes ${all.join("; ")}.`.replaceAll("|", "\\|");
}

function form({ sent, about }: Endpoint): string {
  return sent.kind === "stream" && !about.includes("stream") ? " A stream." : "";
}

if (import.meta.main) writeFileSync(PAGE, httpText(readFileSync(PAGE, "utf8")));
