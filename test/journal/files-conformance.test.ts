/** The conformance suite of the ports for files (`BlobStore`, `StoredFiles`). */
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  BLOB_BYTES_MAX,
  type Blob,
  type BlobStore,
  type Journal,
  type StoredFile,
  type StoredFiles,
  UNUSED_BLOB_KEPT_MS,
} from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/journal-error.ts";
import { takeLease } from "../../src/journal/leases.ts";
import { memoryJournal } from "../../src/journal/memory.ts";
import { memoryBlobs, memoryStoredFiles } from "../../src/journal/memory-files.ts";
import { openPostgresJournal } from "../../src/journal/postgres/postgres.ts";
import { sha256 } from "../../src/util/json.ts";
import { openBlobDirectory } from "../fleet/blob-directory.ts";
import { emptyStore, runSql } from "../rig/postgres.ts";
import { newRun, OWNER, runIdOf } from "./sample-run.ts";

/** The parts of a store under test. */
interface TestedStore {
  readonly journal: Journal;
  readonly files: StoredFiles;
  readonly blobs: BlobStore;
  /** Makes all blobs that are there now older than they may be without a name. */
  age(): Promise<void>;
  /** Damages the stored content of a blob; undefined where only memory has it. */
  damage?(hash: string): Promise<void>;
}

const RUN = runIdOf(1);
const OLD_MS = UNUSED_BLOB_KEPT_MS + 60_000;

async function codeOf(operation: () => Promise<unknown>): Promise<string> {
  try {
    await operation();
  } catch (error) {
    if (error instanceof JournalError) return error.code;
    throw error;
  }
  return "none";
}

function blobOf(text: string): Blob {
  return { hash: sha256(text), bytes: Buffer.from(text) };
}

function fileOf(path: string, ...texts: readonly string[]): StoredFile {
  const bytes = Buffer.byteLength(texts.join(""));
  return { path, mode: 0o600, bytes, blobs: texts.map((text) => sha256(text)) };
}

let directory: string;
let store: TestedStore;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "perdure-files-"));
});
afterEach(async () => {
  await store.blobs.close();
  await store.journal.close();
  rmSync(directory, { recursive: true });
});

const implementations: Record<string, () => Promise<TestedStore>> = {
  memory: async () => {
    const journal = memoryJournal();
    const files = memoryStoredFiles(journal.leases);
    let late = 0;
    const blobs = memoryBlobs(files, () => Date.now() + late);
    const age = async (): Promise<void> => {
      late += OLD_MS;
    };
    return { journal, files, blobs, age };
  },
  directory: async () => {
    const journal = memoryJournal();
    const files = memoryStoredFiles(journal.leases);
    const blobs = await openBlobDirectory(directory, files);
    const all = (): readonly string[] =>
      readdirSync(directory, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name));
    const then = (Date.now() - OLD_MS) / 1000;
    return {
      ...{ journal, files, blobs },
      age: async () => {
        for (const path of all()) utimesSync(path, then, then);
      },
      damage: async (hash) => writeFileSync(join(directory, hash.slice(0, 2), hash), "other"),
    };
  },
  postgres: async () => {
    const url = await emptyStore((at) => openPostgresJournal(at, { mode: "create" }));
    const journal = await openPostgresJournal(url);
    const change = (set: string): Promise<unknown> =>
      runSql(url, `UPDATE perdure.blobs SET ${set}`);
    return {
      ...{ journal, files: journal.files, blobs: journal.blobs },
      age: async () => void (await change(`seen_at = seen_at - interval '${OLD_MS} ms'`)),
      damage: async (hash) => void (await change(`bytes = 'other' WHERE hash = '${hash}'`)),
    };
  },
};

describe.each(Object.entries(implementations))("%s", (_name, make) => {
  beforeEach(async () => {
    store = await make();
    await store.journal.log.create(newRun(1));
  });

  test("B1: a blob of any size is stored once", async () => {
    const { blobs } = store;
    const large = { hash: "", bytes: Buffer.alloc(BLOB_BYTES_MAX, "x") };
    const every = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const binary = { hash: createHash("sha256").update(every).digest("hex"), bytes: every };
    const all = [
      blobOf("a"),
      blobOf(""),
      binary,
      { ...large, hash: sha256(large.bytes.toString()) },
    ];
    const hashes = all.map(({ hash }) => hash);
    expect(await blobs.missing(hashes)).toEqual(new Set(hashes));
    await blobs.put(all);
    await blobs.put([...all, blobOf("b")]);
    expect(await blobs.missing([...hashes, sha256("c")])).toEqual(new Set([sha256("c")]));
    for (const { hash, bytes } of all) expect((await blobs.get(hash)).equals(bytes)).toBe(true);
    expect(await blobs.missing([])).toEqual(new Set());
    await blobs.put([]);
  });

  test("B1: two writers may put the same blob at the same time", async () => {
    const same = Array.from({ length: 20 }, () => [blobOf("same"), blobOf("also")]);
    await Promise.all(same.map((blobs) => store.blobs.put(blobs)));
    expect((await store.blobs.get(sha256("also"))).toString()).toBe("also");
  });

  test("B2: a missing or damaged blob is an error", async () => {
    const { blobs } = store;
    expect(await codeOf(() => blobs.get(sha256("a")))).toBe("unknown-blob");
    await blobs.put([blobOf("a")]);
    if (store.damage === undefined) return;
    await store.damage(sha256("a"));
    expect(await codeOf(() => blobs.get(sha256("a")))).toBe("broken");
  });

  test("B3: an unused blob is removed after a day, unless it was seen since", async () => {
    const { blobs, files } = store;
    await blobs.put(["named", "unnamed", "seen", "put"].map(blobOf));
    await files.put(RUN, 0, [fileOf("run/a", "named")]);
    expect(await blobs.removeUnused()).toBe(0);
    await store.age();
    expect(await blobs.missing([sha256("seen")])).toEqual(new Set());
    await blobs.put(["put", "new"].map(blobOf));
    expect(await blobs.removeUnused()).toBe(1);
    const all = ["named", "unnamed", "seen", "put", "new"].map(sha256);
    expect(await blobs.missing(all)).toEqual(new Set([sha256("unnamed")]));
    // A replaced file names its earlier content no longer.
    await files.put(RUN, 0, [{ path: "run/a", mode: 0o600, bytes: 0 }]);
    await store.age();
    expect(await blobs.removeUnused()).toBe(4);
    expect(await blobs.missing(all)).toEqual(new Set(all));
  });

  test("B5: changedSince returns the files of a run by revision, and names removed ones", async () => {
    const { files } = store;
    expect(await files.changedSince(RUN, 0)).toEqual({ revision: 0, files: [] });
    const [a, b, c] = [fileOf("run/a", "1", "2"), fileOf("run/b"), fileOf("artifacts/c", "3")];
    await files.put(RUN, 0, [a, b]);
    const first = await files.changedSince(RUN, 0);
    expect(sorted(first.files)).toEqual([a, b]);
    const longer = { ...fileOf("run/a", "1", "2", "4"), mode: 0o700 };
    const gone = { path: "run/b", mode: 0o600, bytes: 0 };
    await files.put(RUN, 0, [longer, c, gone]);
    const second = await files.changedSince(RUN, first.revision);
    expect(second.revision).toBeGreaterThan(first.revision);
    expect(sorted(second.files)).toEqual([c, longer, gone]);
    expect(sorted((await files.changedSince(RUN, 0)).files)).toEqual([c, longer, gone]);
    expect((await files.changedSince(RUN, second.revision)).files).toEqual([]);
    expect(await files.named([sha256("1"), sha256("4"), sha256("x")])).toEqual(
      new Set([sha256("1"), sha256("4")]),
    );
  });

  test("B4: only the owner of the lease puts files", async () => {
    const { files, journal } = store;
    const take = async (): Promise<number> => {
      const claim = { owner: OWNER, isAlive: () => false };
      const taken = await takeLease(journal.leases, RUN, claim);
      return taken.ok ? taken.epoch : 0;
    };
    const earlier = await take();
    await files.put(RUN, earlier, [fileOf("run/a", "1")]);
    const later = await take();
    expect(await codeOf(() => files.put(RUN, earlier, [fileOf("run/a", "2")]))).toBe(
      "stale-writer",
    );
    await files.put(RUN, later, [fileOf("run/b", "3")]);
    const { files: kept } = await files.changedSince(RUN, 0);
    expect(sorted(kept)).toEqual([fileOf("run/a", "1"), fileOf("run/b", "3")]);
  });
});

test("a shared directory that does not exist is refused, not created", async () => {
  store = await (implementations.memory as () => Promise<TestedStore>)();
  const path = join(directory, "not-mounted");
  await expect(openBlobDirectory(path, store.files)).rejects.toThrow(path);
  expect(readdirSync(directory)).toEqual([]);
});

function sorted(files: readonly StoredFile[]): readonly StoredFile[] {
  return files.toSorted((a, b) => (a.path < b.path ? -1 : 1));
}
