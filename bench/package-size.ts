/**
 * The size of what `npm install perdure` installs: the files that `npm pack` would pack, and the
 * packages that it depends on, with their own dependencies, as they are in node_modules. Floor: 20 MB.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Line } from "./measure.ts";

const ROOT = resolve(import.meta.dirname, "..");
const BYTES_MAX = 20e6;

export async function bench(): Promise<readonly Line[]> {
  const packages = closureOf(ROOT);
  const bytes = packages.reduce((sum, path) => sum + folderBytes(path), ownBytes());
  const megabytes = `${(bytes / 1e6).toFixed(1)} MB`;
  return [
    {
      what: `installed package with its ${packages.length} dependencies`,
      floor: "20 MB",
      measured: megabytes,
      ratio: bytes / BYTES_MAX,
      limit: 1,
    },
  ];
}

function ownBytes(): number {
  const args = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const { stdout, stderr } = spawnSync("npm", args, { cwd: ROOT, encoding: "utf8" });
  const [packed] = JSON.parse(stdout || "[]") as { unpackedSize: number }[];
  if (packed === undefined) throw new Error(`npm pack: ${stderr}`);
  return packed.unpackedSize;
}

/** The folders of all packages that a package needs to run. */
function closureOf(start: string): readonly string[] {
  const found = new Set([start]);
  for (const path of found) {
    const text = readFileSync(join(path, "package.json"), "utf8");
    const { dependencies = {} } = JSON.parse(text) as { dependencies?: Record<string, string> };
    for (const name of Object.keys(dependencies)) found.add(join(ROOT, "node_modules", name));
  }
  found.delete(start);
  return [...found];
}

function folderBytes(path: string): number {
  return readdirSync(path, { recursive: true, encoding: "utf8" }).reduce((sum, name) => {
    const stat = statSync(join(path, name));
    return sum + (stat.isFile() ? stat.size : 0);
  }, 0);
}
