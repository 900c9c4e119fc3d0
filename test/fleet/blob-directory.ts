/**
 * Blobs in a directory that all machines share: `<root>/<first two digits>/<hash>`.
 *
 * Owns: these files, complete and durable (journal/P1), and the removal of unused ones.
 * Does not: create the directory itself. One that is not mounted would be created on the disk of one
 *   machine, and no other machine would find what is in it.
 */
import { createHash, randomUUID } from "node:crypto";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import {
  BLOB_BYTES_MAX,
  type Blob,
  type BlobStore,
  type StoredFiles,
  UNUSED_BLOB_KEPT_MS,
} from "../../src/journal/journal.ts";
import { fileCodeOf, JournalError, storageError } from "../../src/journal/journal-error.ts";
import { assert } from "../../src/util/assert.ts";
import { failpoint } from "../../src/util/failpoint.ts";

const FOLDER_LENGTH = 2;
const SHA256 = /^[0-9a-f]{64}$/;
const DRAFT = "draft-";
/** After this time a blob that is seen again is marked as seen. */
const SEEN_AGAIN_MS = 3_600_000;
/** More files at once would only wait for the disk. */
const AT_ONCE_MAX = 16;
/** How many names are looked up at once. */
const NAMED_AT_ONCE_MAX = 1_000;

/** Opens a shared directory as a store of blobs. Throws when it does not exist. */
export async function openBlobDirectory(
  root: string,
  files: Pick<StoredFiles, "named">,
): Promise<BlobStore> {
  const facts = await fs.stat(root).catch((error: unknown) => {
    if (fileCodeOf(error) === "ENOENT") return undefined;
    throw storageError(error, root);
  });
  if (facts?.isDirectory() !== true) {
    const message = `There is no directory ${root} for the files of runs. Mount or create it.`;
    throw new JournalError("io", message);
  }
  const pathOf = (hash: string): string => {
    assert(SHA256.test(hash), "a blob is named by its hash");
    return join(root, hash.slice(0, FOLDER_LENGTH), hash);
  };
  const guard = <T>(work: Promise<T>): Promise<T> =>
    work.catch((error: unknown) => {
      throw storageError(error, root);
    });
  return {
    missing: (hashes) => guard(missingIn(hashes, pathOf)),
    put: (blobs) => guard(putInto(root, blobs, pathOf)),
    get: (hash) => guard(readBlob(pathOf(hash), hash)),
    removeUnused: () => guard(removeUnusedIn(root, files)),
    close: async () => undefined,
  };
}

async function missingIn(
  hashes: readonly string[],
  pathOf: (hash: string) => string,
): Promise<ReadonlySet<string>> {
  const missing = new Set<string>();
  await eachOf(hashes, async (hash) => {
    if (!(await keepsBlob(pathOf(hash)))) missing.add(hash);
  });
  return missing;
}

/** True when the blob is there; it is then younger than a day (journal/P3). */
async function keepsBlob(path: string): Promise<boolean> {
  const facts = await fs.stat(path).catch(ifAbsent);
  if (facts === undefined) return false;
  const now = Date.now();
  if (now - facts.mtimeMs < SEEN_AGAIN_MS) return true;
  const marked = await fs.utimes(path, now / 1000, now / 1000).then(() => true, ifAbsent);
  return marked === true;
}

async function putInto(
  root: string,
  blobs: readonly Blob[],
  pathOf: (hash: string) => string,
): Promise<void> {
  const folders = new Set<string>();
  await eachOf(blobs, async ({ hash, bytes }) => {
    assert(bytes.length <= BLOB_BYTES_MAX, "a blob is no larger than BLOB_BYTES_MAX");
    const path = pathOf(hash);
    if (await keepsBlob(path)) return;
    const folder = join(root, hash.slice(0, FOLDER_LENGTH));
    const made = await fs.mkdir(folder, { recursive: true, mode: 0o700 });
    if (made !== undefined) folders.add(root);
    const draft = join(folder, `${DRAFT}${randomUUID()}`);
    try {
      await fs.writeFile(draft, bytes, { mode: 0o600, flush: true, flag: "wx" });
      failpoint("blobs.written");
      await fs.rename(draft, path);
    } finally {
      await fs.rm(draft, { force: true });
    }
    folders.add(folder);
  });
  for (const folder of folders) await flushFolder(folder);
  failpoint("blobs.put");
}

async function flushFolder(folder: string): Promise<void> {
  const handle = await fs.open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function readBlob(path: string, hash: string): Promise<Buffer> {
  const bytes = await fs.readFile(path).catch(ifAbsent);
  if (bytes === undefined) {
    throw new JournalError("unknown-blob", `The store lacks the piece ${hash}: ${path}.`);
  }
  if (createHash("sha256").update(bytes).digest("hex") === hash) return bytes;
  throw new JournalError("broken", `A piece of a file is damaged: ${path}.`);
}

async function removeUnusedIn(root: string, files: Pick<StoredFiles, "named">): Promise<number> {
  let removed = 0;
  for (const folder of await fs.readdir(root)) {
    if (folder.length !== FOLDER_LENGTH) continue;
    const old: string[] = [];
    for (const name of await fs.readdir(join(root, folder))) {
      if (await isOld(join(root, folder, name))) old.push(name);
    }
    for (let from = 0; from < old.length; from += NAMED_AT_ONCE_MAX) {
      const some = old.slice(from, from + NAMED_AT_ONCE_MAX);
      const named = await files.named(some.filter((name) => SHA256.test(name)));
      for (const name of some) {
        const path = join(root, folder, name);
        // Again, because a writer may have met it meanwhile.
        if (named.has(name) || !(await isOld(path))) continue;
        await fs.rm(path, { force: true });
        if (SHA256.test(name)) removed++;
      }
    }
  }
  return removed;
}

async function isOld(path: string): Promise<boolean> {
  const facts = await fs.stat(path).catch(ifAbsent);
  return facts !== undefined && Date.now() - facts.mtimeMs > UNUSED_BLOB_KEPT_MS;
}

function ifAbsent(error: unknown): undefined {
  if (fileCodeOf(error) === "ENOENT") return undefined;
  throw error;
}

/** Does the same for each item, several at a time. */
async function eachOf<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const lane = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  const lanes = Array.from({ length: Math.min(AT_ONCE_MAX, items.length) }, lane);
  await Promise.all(lanes);
}
