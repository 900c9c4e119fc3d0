/** Files on their way to a store and back: what of a growing file is new, and the limits. */
import * as fs from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { filesOf, StoredParts, textOf, writePart } from "../../src/app/fleet/stored-parts.ts";
import {
  BLOB_BYTES_MAX,
  type Blob,
  type BlobStore,
  type StoredFile,
} from "../../src/journal/journal.ts";
import { memoryBlobs } from "../../src/journal/memory-files.ts";
import { scratch } from "../workspace/rig.ts";

const PART = "run/attempts/a@1.1/output.log";

let file: string;
let puts: (readonly Blob[])[];
let blobs: BlobStore;
let parts: StoredParts;
beforeEach(() => {
  file = join(scratch(), "output.log");
  puts = [];
  const memory = memoryBlobs({ named: async () => new Set() });
  const put = async (some: readonly Blob[]): Promise<void> => {
    puts.push(some);
    await memory.put(some);
  };
  blobs = { ...memory, put };
  parts = StoredParts.none(blobs);
});

/** Stores the file as it is now; returns what was stored of it, and how many bytes were put. */
async function store(
  how: "grown" | "whole" = "grown",
): Promise<{ file?: StoredFile; bytes: number }> {
  puts.length = 0;
  const upload = await parts.upload([{ path: PART, file }], how);
  parts.note(upload);
  const bytes = puts.flat().reduce((sum, blob) => sum + blob.bytes.length, 0);
  const [stored] = filesOf(upload);
  return { ...(stored === undefined ? {} : { file: stored }), bytes };
}

describe("a file that grows", () => {
  it("is stored blob by blob; only its end is stored again (B7)", async () => {
    fs.writeFileSync(file, "x".repeat(2 * BLOB_BYTES_MAX + 10));
    expect((await store()).file?.blobs).toHaveLength(3);
    fs.appendFileSync(file, "more");
    const second = await store();
    expect(second.bytes).toBe(14);
    expect(await textOf(blobs, second.file as StoredFile)).toBe(fs.readFileSync(file, "utf8"));
    expect(await store()).toEqual({ bytes: 0 });
    fs.appendFileSync(file, "y".repeat(BLOB_BYTES_MAX));
    expect((await store()).bytes).toBe(BLOB_BYTES_MAX + 14);
  });

  it("may be truncated, replaced or changed in its middle", async () => {
    const content = (): string => fs.readFileSync(file, "utf8");
    const last = async (how: "grown" | "whole" = "grown"): Promise<string> =>
      textOf(blobs, (await store(how)).file as StoredFile);
    fs.writeFileSync(file, "a".repeat(BLOB_BYTES_MAX + 100));
    await store();
    fs.truncateSync(file, 50);
    expect(await last()).toBe(content());
    fs.writeFileSync(`${file}.new`, "b".repeat(200));
    fs.renameSync(`${file}.new`, file);
    expect(await last()).toBe(content());
    fs.writeFileSync(file, `other${"c".repeat(BLOB_BYTES_MAX + 300)}`);
    expect(await last()).toBe(content());
    // Its end is as before: only a look at all of it finds the change.
    const handle = fs.openSync(file, "r+");
    fs.writeSync(handle, "X", 0);
    fs.closeSync(handle);
    expect(await last("whole")).toBe(content());
    fs.rmSync(file);
    expect(await store()).toEqual({ bytes: 0 });
  });

  it("of 40 MB is stored with bounded memory (B6)", async () => {
    fs.writeFileSync(file, "");
    for (let part = 0; part < 40; part++) {
      fs.appendFileSync(file, String(part).padEnd(BLOB_BYTES_MAX, "."));
    }
    expect((await store()).file?.bytes).toBe(40 * BLOB_BYTES_MAX);
    const sizes = puts.map((some) => some.reduce((sum, { bytes }) => sum + bytes.length, 0));
    expect(Math.max(...sizes)).toBe(8 * BLOB_BYTES_MAX);
  });

  it("is refused when it is too large, with the name of the setting", async () => {
    fs.writeFileSync(file, "123456");
    process.env.PERDURE_STORED_FILE_MAX = "5 bytes";
    try {
      await expect(store()).rejects.toMatchObject({
        code: "too-large",
        next: [{ first: "allow more with PERDURE_STORED_FILE_MAX=SIZE" }],
      });
      process.env.PERDURE_STORED_RUN_MAX = "7 bytes";
      delete process.env.PERDURE_STORED_FILE_MAX;
      await store();
      fs.appendFileSync(file, "78");
      await expect(store()).rejects.toMatchObject({ code: "too-large" });
    } finally {
      delete process.env.PERDURE_STORED_FILE_MAX;
      delete process.env.PERDURE_STORED_RUN_MAX;
    }
  });
});

it("writePart adds only what is new to an earlier copy", async () => {
  const copy = join(scratch(), "copy");
  fs.writeFileSync(file, "x".repeat(BLOB_BYTES_MAX + 5));
  const first = (await store()).file as StoredFile;
  await writePart(blobs, first, { to: copy });
  fs.appendFileSync(file, "new");
  const second = (await store()).file as StoredFile;
  const asked: string[] = [];
  const get = (hash: string): Promise<Buffer> => {
    asked.push(hash);
    return blobs.get(hash);
  };
  await writePart({ get }, second, { to: copy, earlier: first });
  expect(asked).toEqual([second.blobs?.at(-1)]);
  expect(fs.readFileSync(copy).equals(fs.readFileSync(file))).toBe(true);
  fs.writeFileSync(file, "short");
  await writePart(blobs, (await store()).file as StoredFile, { to: copy, earlier: second });
  expect(fs.readFileSync(copy, "utf8")).toBe("short");
});
