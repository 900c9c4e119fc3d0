/**
 * The files of the store: the private git directory, in which git can run safely, and the objects
 * that Perdure writes itself. A commit is one small file, so it needs no process, and objects of
 * the user's repository are linked instead of written again.
 *
 * Owns: settings, attributes and folders of the git directory; loose objects; links to the packs
 * and loose objects of the user's repository.
 * Does not: store names (store.ts), or write to the user's repository.
 *
 * - store-directory/S2 Git sees only settings, attributes and objects that Perdure wrote: other
 *   entries of the directory are removed, and a directory of another user is refused.
 * - objects/O1 An object is complete and on the disk before it has its name.
 * - objects/O2 Linked objects stay when the user's repository collects garbage: a link is as good
 *   as a copy, because git never changes an object or a pack in place.
 */

import { createHash, randomBytes } from "node:crypto";
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import { entriesIn, flush } from "../disk.ts";
import type { Repository } from "../repository.ts";
import { WorkspaceError } from "../workspace-error.ts";

/** Turns off all conversions of content, whatever the attributes of a project. */
const ATTRIBUTES = "* -text !eol -crlf -ident -filter !working-tree-encoding\n";
/** The entries that the git directory may have. */
const ENTRIES: ReadonlySet<string> = new Set([
  "perdure.json",
  "HEAD",
  "config",
  "info",
  "objects",
  "refs",
  "packed-refs",
  "names",
  "indexes",
]);
let replaced = 0;

/**
 * Removes foreign entries from a git directory, and writes its own (store-directory/S2). The calls
 * are synchronous, because a run waits for them: most have nothing to do, and a promise takes
 * longer.
 */
export async function makeSafe(gitDir: string, format: Repository["objectFormat"]): Promise<void> {
  needOwnDirectory(gitDir);
  for (const name of readdirSync(gitDir)) {
    if (!ENTRIES.has(name) && !name.endsWith(".new"))
      rmSync(join(gitDir, name), { recursive: true, force: true });
  }
  makeFolders(gitDir);
  const version = format === "sha256" ? "1\n[extensions]\n\tobjectformat = sha256" : "0";
  const config = `[core]\n\tbare = true\n\trepositoryformatversion = ${version}\n`;
  await keepText(join(gitDir, "HEAD"), "ref: refs/heads/none\n");
  await keepText(join(gitDir, "config"), config);
  await keepText(join(gitDir, "info", "attributes"), ATTRIBUTES);
  for (const name of readdirSync(join(gitDir, "info"))) {
    if (name !== "attributes") rmSync(join(gitDir, "info", name), { recursive: true });
  }
  for (const name of ["alternates", "http-alternates"]) {
    rmSync(join(gitDir, "objects", "info", name), { recursive: true, force: true });
  }
}

/** Makes the folders of the git directory. */
export function makeFolders(gitDir: string): void {
  for (const name of ["info", "objects", "objects/info", "objects/pack", "refs", "names"]) {
    const folder = join(gitDir, name);
    if (lstatSync(folder, { throwIfNoEntry: false }) === undefined) makeFolder(folder);
    needOwnDirectory(folder);
  }
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process was faster.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

function needOwnDirectory(path: string): void {
  const facts = lstatSync(path);
  const uid = process.geteuid?.();
  if (facts.isDirectory() && (uid === undefined || facts.uid === uid)) return;
  throw new WorkspaceError(
    "not-trusted",
    `${path} is ${facts.isDirectory() ? "another user's" : "not a directory"}, so no snapshot is kept in it`,
    `look at it, then remove it with: rm -r '${path}'`,
  );
}

/** Ensures that a file has exactly this text and is not a link. */
async function keepText(file: string, text: string): Promise<void> {
  const facts = lstatSync(file, { throwIfNoEntry: false });
  if (facts?.isFile() === true && readFileSync(file, "utf8") === text) return;
  if (facts !== undefined) rmSync(file, { recursive: true });
  await replaceFile(file, text);
}

/** Replaces a file by a durable one; the rename is durable when the directory is flushed. */
export async function replaceFile(file: string, text: string): Promise<void> {
  const made = `${file}.${process.pid}-${replaced++}.new`;
  await fs.writeFile(made, text, { flush: true });
  await fs.rename(made, file);
}

const FANOUT = /^[0-9a-f]{2}$/;
const LOOSE = /^([0-9a-f]{38}|[0-9a-f]{62})$/;
const PACK = /^pack-[0-9a-f]+\.(pack|idx|rev)$/;
/** The user's git may pack objects meanwhile; then the list is read again. */
const LISTINGS_MAX = 3;
/** Errors of refused links: another file system or owner, too many links, no support. */
const NO_LINKS: ReadonlySet<string> = new Set([
  "EXDEV",
  "EPERM",
  "EACCES",
  "EMLINK",
  "ENOTSUP",
  "ENOSYS",
]);

/** Writes an object and returns its name; durable when it returns. */
export async function writeObject(
  {
    objectDir,
    format,
  }: { readonly objectDir: string; readonly format: Repository["objectFormat"] },
  type: "blob" | "tree" | "commit",
  content: Buffer,
): Promise<string> {
  const whole = Buffer.concat([Buffer.from(`${type} ${content.length}\0`), content]);
  const name = createHash(format).update(whole).digest("hex");
  const directory = join(objectDir, name.slice(0, 2));
  const file = join(directory, name.slice(2));
  if (existsSync(file)) return name;
  mkdirSync(directory, { recursive: true });
  // Git's own name of a temporary file, so that git prunes it after a kill.
  const made = join(directory, `tmp_obj_${randomBytes(6).toString("hex")}`);
  writeFileSync(made, deflateSync(whole), { mode: 0o444, flush: true });
  renameSync(made, file);
  await flush(directory);
  return name;
}

/**
 * Links every object of another object directory. False when that is impossible: on another file
 * system, or if the other directory uses objects of further repositories.
 */
export async function linkObjects(from: string, to: string): Promise<boolean> {
  if (borrows(from)) return false;
  for (let listing = 0; listing < LISTINGS_MAX; listing++) {
    const outcome = await linkListed(from, to);
    if (outcome !== "moved") return outcome === "linked";
  }
  return false;
}

/** True when some objects are in another repository or on a server. */
function borrows(objectDir: string): boolean {
  if (existsSync(join(objectDir, "info", "alternates"))) return true;
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
      // A pack counts as complete when its index exists, so the index comes last.
      .sort((a, b) => Number(a.endsWith(".idx")) - Number(b.endsWith(".idx")));
    if (missing.length === 0) continue;
    mkdirSync(join(to, folder), { recursive: true });
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
    linkSync(from, to);
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
  return entriesIn(directory).map(({ name }) => name);
}
