/**
 * Git's objects, as far as we write them ourselves: a commit is one small file, for which no process
 * is worth starting, and what the user's repository holds already is linked instead of written again.
 *
 * Owns: loose objects of ours; links to the packs and loose objects of the user's repository.
 * Does not: write anything into the user's repository.
 *
 * - objects/O1 An object is complete and on the disk before it has its name.
 * - objects/O2 What was linked stays when the user's repository collects its garbage: a link is as
 *   good as a copy, because git never changes an object or a pack in place.
 */
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import { flush } from "./disk.ts";

export type ObjectFormat = "sha1" | "sha256";

const FANOUT = /^[0-9a-f]{2}$/;
const LOOSE = /^([0-9a-f]{38}|[0-9a-f]{62})$/;
const PACK = /^pack-[0-9a-f]+\.(pack|idx|rev)$/;
/** The user's git may pack its objects while we link them; then the list is read again. */
const LISTINGS_MAX = 3;
/** Linking was refused: another disk, another owner, too many links, a disk without links. */
const NO_LINKS: ReadonlySet<string> = new Set([
  "EXDEV",
  "EPERM",
  "EACCES",
  "EMLINK",
  "ENOTSUP",
  "ENOSYS",
]);

/** Writes an object and gives its name; durable when it returns. */
export async function writeObject(
  { objectDir, format }: { readonly objectDir: string; readonly format: ObjectFormat },
  type: "blob" | "tree" | "commit",
  content: Buffer,
): Promise<string> {
  const whole = Buffer.concat([Buffer.from(`${type} ${content.length}\0`), content]);
  const name = createHash(format).update(whole).digest("hex");
  const directory = join(objectDir, name.slice(0, 2));
  const file = join(directory, name.slice(2));
  if (fs.existsSync(file)) return name;
  fs.mkdirSync(directory, { recursive: true });
  // Git's own name for a file on its way, so git's own pruning finds it after a kill.
  const made = join(directory, `tmp_obj_${randomBytes(6).toString("hex")}`);
  fs.writeFileSync(made, deflateSync(whole), { mode: 0o444, flush: true });
  fs.renameSync(made, file);
  await flush(directory);
  return name;
}

/**
 * Links every object of another object directory into ours. False when that cannot give all of them:
 * on another disk, or when the other directory borrows objects from elsewhere.
 */
export async function linkObjects(from: string, to: string): Promise<boolean> {
  if (borrows(from)) return false;
  for (let listing = 0; listing < LISTINGS_MAX; listing++) {
    const outcome = await linkListed(from, to);
    if (outcome !== "moved") return outcome === "linked";
  }
  return false;
}

/** True when some objects are elsewhere: in a repository beside it, or on a server. */
function borrows(objectDir: string): boolean {
  if (fs.existsSync(join(objectDir, "info", "alternates"))) return true;
  return namesIn(join(objectDir, "pack")).some((name) => name.endsWith(".promisor"));
}

async function linkListed(from: string, to: string): Promise<"linked" | "refused" | "moved"> {
  const folders = ["pack", ...namesIn(from).filter((name) => FANOUT.test(name))];
  const touched: string[] = [];
  for (const folder of folders) {
    const pattern = folder === "pack" ? PACK : LOOSE;
    const there = new Set(namesIn(join(to, folder)));
    const missing = namesIn(join(from, folder))
      .filter((name) => pattern.test(name) && !there.has(name))
      // Git takes a pack for complete as soon as it sees its index, so that comes last.
      .sort((a, b) => Number(a.endsWith(".idx")) - Number(b.endsWith(".idx")));
    if (missing.length === 0) continue;
    fs.mkdirSync(join(to, folder), { recursive: true });
    touched.push(folder);
    for (const name of missing) {
      const outcome = linkOne(join(from, folder, name), join(to, folder, name));
      if (outcome !== "linked") return outcome;
    }
  }
  await Promise.all(touched.map((folder) => flush(join(to, folder))));
  if (touched.length > 0) await flush(to);
  return "linked";
}

function linkOne(from: string, to: string): "linked" | "refused" | "moved" {
  try {
    fs.linkSync(from, to);
    return "linked";
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return "linked";
    if (code === "ENOENT") return "moved";
    if (NO_LINKS.has(code)) return "refused";
    throw error;
  }
}

function namesIn(directory: string): readonly string[] {
  try {
    return fs.readdirSync(directory);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return [];
    throw error;
  }
}
