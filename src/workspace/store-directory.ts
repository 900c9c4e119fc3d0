/**
 * The private git directory as a place that git can be started in without harm.
 *
 * Owns: its settings, attributes and folders.
 * Does not: hold names or objects (store.ts).
 *
 * - store-directory/S2 Git sees no setting, attribute, hook or borrowed object that we did not write:
 *   whatever else stands in the directory is removed, and a directory of somebody else is refused.
 */
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { absent } from "./disk.ts";
import type { ObjectFormat } from "./objects.ts";
import { WorkspaceError } from "./workspace-error.ts";

/** Turns off everything that would change bytes on their way in or out, whatever a project says. */
const ATTRIBUTES = "* -text !eol -crlf -ident -filter !working-tree-encoding\n";
/** Everything that may stand in the git directory. */
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

/** Leaves nothing in a git directory that we did not write. */
export async function makeSafe(gitDir: string, format: ObjectFormat): Promise<void> {
  await needOwnDirectory(gitDir);
  for (const name of await fs.readdir(gitDir)) {
    if (!ENTRIES.has(name) && !name.endsWith(".new"))
      await fs.rm(join(gitDir, name), { recursive: true, force: true });
  }
  await makeFolders(gitDir);
  const version = format === "sha256" ? "1\n[extensions]\n\tobjectformat = sha256" : "0";
  const config = `[core]\n\tbare = true\n\trepositoryformatversion = ${version}\n`;
  await keepText(join(gitDir, "HEAD"), "ref: refs/heads/none\n");
  await keepText(join(gitDir, "config"), config);
  await keepText(join(gitDir, "info", "attributes"), ATTRIBUTES);
  for (const name of await fs.readdir(join(gitDir, "info"))) {
    if (name !== "attributes") await fs.rm(join(gitDir, "info", name), { recursive: true });
  }
  for (const name of ["alternates", "http-alternates"]) {
    await fs.rm(join(gitDir, "objects", "info", name), { recursive: true, force: true });
  }
}

/** Makes the folders that git and we need. */
export async function makeFolders(gitDir: string): Promise<void> {
  for (const name of ["info", "objects", "objects/info", "objects/pack", "refs", "names"]) {
    await fs.mkdir(join(gitDir, name), { mode: 0o700 }).catch(async (error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      await needOwnDirectory(join(gitDir, name));
    });
  }
}

async function needOwnDirectory(path: string): Promise<void> {
  const facts = await fs.lstat(path);
  const uid = process.geteuid?.();
  if (facts.isDirectory() && (uid === undefined || facts.uid === uid)) return;
  throw new WorkspaceError(
    "not-trusted",
    `${path} is ${facts.isDirectory() ? "another user's" : "not a directory"}, so no snapshot is kept in it`,
    `look at it, then remove it with: rm -r '${path}'`,
  );
}

/** A file with exactly this text, which is no link to another. */
async function keepText(file: string, text: string): Promise<void> {
  const facts = await fs.lstat(file).catch(absent);
  if (facts?.isFile() === true && (await fs.readFile(file, "utf8")) === text) return;
  if (facts !== undefined) await fs.rm(file, { recursive: true });
  await replaceFile(file, text);
}

/** Replaces a file as a whole; its content is durable, its name when the directory is flushed. */
export async function replaceFile(file: string, text: string): Promise<void> {
  const made = `${file}.${process.pid}-${replaced++}.new`;
  await fs.writeFile(made, text, { flush: true });
  await fs.rename(made, file);
}
