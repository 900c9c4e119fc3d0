/**
 * The files of the page, which the build has made.
 *
 * Owns: which files there are, and how long a browser keeps them.
 * Does not: join a path of a request with anything. A request names one of the files that were there
 * when the server started, or none.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import type { SentBytes } from "./answer.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".woff2": "font/woff2",
  ".json": "application/json",
};
/** The names of these files contain the hash of their content. */
const HASHED = "/assets/";
const KEPT_FOR_EVER = "public, max-age=31536000, immutable";

/** The files by their addresses. */
export type PageFiles = ReadonlyMap<string, SentBytes>;

/** Reads the files of the page; none when it was not built. */
export function readPageFiles(directory: string): PageFiles {
  const files = new Map<string, SentBytes>();
  if (!existsSync(directory)) return files;
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((one) => one.isFile())) {
    const path = join(entry.parentPath, entry.name);
    const address = path.slice(directory.length).replaceAll("\\", "/");
    files.set(address, {
      type: TYPES[extname(path)] ?? "application/octet-stream",
      body: new Uint8Array(readFileSync(path)),
      headers: { "Cache-Control": address.startsWith(HASHED) ? KEPT_FOR_EVER : "no-cache" },
    });
  }
  return files;
}

/** The file at an address; every address of the page itself is answered with its first file. */
export function pageFile(files: PageFiles, address: string): SentBytes | undefined {
  const file = files.get(address);
  // The names of pipelines and steps may have dots; they stand below the first folder.
  const isFile = address.startsWith(HASHED) || /^\/[^/]*\.\w+$/.test(address);
  if (file !== undefined || isFile) return file;
  return files.get("/index.html");
}
