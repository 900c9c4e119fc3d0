/**
 * The parts of a run in a store: files that are cut into blobs, and read back from them.
 *
 * Owns: which parts of a run the store has, what of a file is new, and the limits on sizes.
 * Does not: choose the parts (run-parts.ts, ship.ts), or say when they are stored.
 * Invariants:
 * - stored-parts/B6 Memory is bounded by UPLOAD_BYTES_MAX, whatever the size of a file.
 * - stored-parts/B7 Of a file that only grows, the blobs before its last one are neither read nor
 *   stored again. A file that was truncated or replaced is read again from its start.
 */
import { createHash } from "node:crypto";
import * as fs from "node:fs/promises";
import { dirname } from "node:path";
import {
  BLOB_BYTES_MAX,
  type Blob,
  type BlobStore,
  type StoredFile,
  type StoredFiles,
} from "../../journal/journal.ts";
import { formatBytes, parseBytes } from "../../util/bytes.ts";
import { isInside, type PartSource } from "../../workspace/archive.ts";
import { absent } from "../../workspace/disk.ts";
import { advice, Refusal } from "../refusal.ts";

/** How much is read before it is stored. */
const UPLOAD_BYTES_MAX = 8 * 1024 * 1024;
const UPLOAD_BLOBS_MAX = 256;
/** The store is not asked about blobs that are smaller together: storing them costs as much. */
const ASKED_BYTES_MIN = 64 * 1024;
const MODE = 0o600;

/** The settings that limit what one file, and one run, may take up in the store. */
const FILE_LIMIT = { setting: "PERDURE_STORED_FILE_MAX", bytes: 2 * 1024 ** 3 } as const;
const RUN_LIMIT = { setting: "PERDURE_STORED_RUN_MAX", bytes: 20 * 1024 ** 3 } as const;

/** How a file looked when it was stored. */
interface FileLook {
  readonly ino: number;
  readonly size: number;
  readonly mtimeMs: number;
}

/** A stored file, and how it looked on this disk. */
interface KnownPart {
  readonly file: StoredFile;
  readonly look?: FileLook;
}

/** Parts whose blobs are in the store, and which are to be named there. */
export type Upload = ReadonlyMap<string, KnownPart>;

/** The parts of one run that the store has. */
export class StoredParts {
  readonly #blobs: BlobStore;
  readonly #known: Map<string, KnownPart>;
  #bytes = 0;

  private constructor(blobs: BlobStore, files: readonly StoredFile[]) {
    this.#blobs = blobs;
    this.#known = new Map();
    for (const file of files) if (file.blobs !== undefined) this.#remember(file.path, { file });
  }

  /** The parts of a run that the store has now. */
  static async open(files: StoredFiles, blobs: BlobStore, runId: string): Promise<StoredParts> {
    return new StoredParts(blobs, (await files.changedSince(runId, 0)).files);
  }

  /** A run of which the store has nothing yet. */
  static none(blobs: BlobStore): StoredParts {
    return new StoredParts(blobs, []);
  }

  /** The paths of the parts that the store has, below a beginning of their names. */
  paths(prefix: string): readonly string[] {
    return [...this.#known.keys()].filter((path) => path.startsWith(prefix)).toSorted();
  }

  /** The content of a part as text; undefined when the store has no such part. */
  async text(path: string): Promise<string | undefined> {
    const part = this.#known.get(path);
    return part === undefined ? undefined : textOf(this.#blobs, part.file);
  }

  /**
   * Stores the blobs of the parts that are new or have changed, and returns these parts. "grown"
   * trusts that a longer file still has its earlier content.
   */
  async upload(sources: readonly PartSource[], how: "grown" | "whole"): Promise<Upload> {
    const upload = new Map<string, KnownPart>();
    const batch = new BlobBatch(this.#blobs);
    for (const source of sources) {
      const part =
        "text" in source
          ? await cutText(source.path, source.text, batch)
          : await this.#cutFile(source, how, batch);
      if (part === undefined) continue;
      if (isSameContent(part.file, this.#known.get(source.path)?.file)) {
        this.#remember(source.path, part);
      } else upload.set(source.path, part);
    }
    await batch.store();
    this.#refuseTooMuch(upload);
    return upload;
  }

  /** Notes that the store names these parts now, and those without content no longer. */
  note(upload: Upload): void {
    for (const [path, part] of upload) {
      this.#remember(path, part);
      if (part.file.blobs === undefined) this.#known.delete(path);
    }
  }

  /** Parts that the store is to name no longer. */
  removal(paths: readonly string[]): Upload {
    return new Map(paths.map((path) => [path, { file: { path, mode: MODE, bytes: 0 } }]));
  }

  /** The beginning of a part; at most one blob. */
  async start(path: string): Promise<Buffer | undefined> {
    const [hash] = this.#known.get(path)?.file.blobs ?? [];
    return hash === undefined ? undefined : this.#blobs.get(hash);
  }

  #remember(path: string, part: KnownPart): void {
    this.#bytes += part.file.bytes - (this.#known.get(path)?.file.bytes ?? 0);
    this.#known.set(path, part);
  }

  /** The part for a file; undefined when it is gone, or looks as it did when it was stored. */
  async #cutFile(
    { path, file, mode = MODE }: Extract<PartSource, { file: string }>,
    how: "grown" | "whole",
    batch: BlobBatch,
  ): Promise<KnownPart | undefined> {
    const handle = await fs.open(file, "r").catch(absent);
    if (handle === undefined) return undefined;
    try {
      const { ino, size, mtimeMs } = await handle.stat();
      const known = this.#known.get(path);
      const look = { ino, size, mtimeMs };
      const isSame = known?.file.mode === mode && isSameLook(known.look, look);
      if (isSame && how === "grown") return undefined;
      refuseLarge(file, size, FILE_LIMIT);
      const kept = how === "grown" ? await unchangedBlobs(handle, known, look) : [];
      const cut = await cutRest(handle, kept, size, batch);
      return { file: { path, mode, ...cut }, look: { ...look, size: cut.bytes } };
    } finally {
      await handle.close();
    }
  }

  #refuseTooMuch(upload: Upload): void {
    let bytes = this.#bytes;
    for (const [path, { file }] of upload) {
      bytes += file.bytes - (this.#known.get(path)?.file.bytes ?? 0);
    }
    refuseLarge("the run", bytes, RUN_LIMIT);
  }
}

/** The stored files of parts. */
export function filesOf(upload: Upload): readonly StoredFile[] {
  return [...upload.values()].map(({ file }) => file);
}

/** Blobs on their way to the store, few at a time (stored-parts/B6). */
class BlobBatch {
  readonly #store: BlobStore;
  #blobs = new Map<string, Blob>();
  #bytes = 0;

  constructor(store: BlobStore) {
    this.#store = store;
  }

  async add(blob: Blob): Promise<void> {
    if (this.#blobs.has(blob.hash)) return;
    this.#blobs.set(blob.hash, blob);
    this.#bytes += blob.bytes.length;
    const isFull = this.#bytes >= UPLOAD_BYTES_MAX || this.#blobs.size >= UPLOAD_BLOBS_MAX;
    if (isFull) await this.store();
  }

  async store(): Promise<void> {
    const blobs = [...this.#blobs.values()];
    const bytes = this.#bytes;
    this.#blobs = new Map();
    this.#bytes = 0;
    if (blobs.length === 0) return;
    if (bytes < ASKED_BYTES_MIN) return this.#store.put(blobs);
    const missing = await this.#store.missing(blobs.map(({ hash }) => hash));
    await this.#store.put(blobs.filter(({ hash }) => missing.has(hash)));
  }
}

async function cutText(path: string, text: string, batch: BlobBatch): Promise<KnownPart> {
  const all = Buffer.from(text);
  const blobs: string[] = [];
  for (let at = 0; at < all.length; at += BLOB_BYTES_MAX) {
    blobs.push(await addBlob(all.subarray(at, at + BLOB_BYTES_MAX), batch));
  }
  return { file: { path, mode: MODE, bytes: all.length, blobs } };
}

/** Cuts a file into blobs, after those that are unchanged; of a growing file, up to `size`. */
async function cutRest(
  handle: fs.FileHandle,
  kept: readonly string[],
  size: number,
  batch: BlobBatch,
): Promise<{ readonly bytes: number; readonly blobs: readonly string[] }> {
  const blobs = [...kept];
  let at = blobs.length * BLOB_BYTES_MAX;
  while (at < size) {
    const bytes = await readAt(handle, at, Math.min(BLOB_BYTES_MAX, size - at));
    // It was truncated meanwhile.
    if (bytes.length === 0) break;
    blobs.push(await addBlob(bytes, batch));
    at += bytes.length;
    if (bytes.length < BLOB_BYTES_MAX) break;
  }
  return { bytes: at, blobs };
}

/** The whole blobs of a file that has only grown: the end of its earlier content is still there. */
async function unchangedBlobs(
  handle: fs.FileHandle,
  known: KnownPart | undefined,
  { ino, size }: FileLook,
): Promise<readonly string[]> {
  const { file, look } = known ?? {};
  if (file?.blobs === undefined || look?.ino !== ino || size < file.bytes) return [];
  const last = file.blobs.at(-1);
  if (last === undefined) return [];
  const from = (file.blobs.length - 1) * BLOB_BYTES_MAX;
  const there = await readAt(handle, from, file.bytes - from);
  if (hashOf(there) !== last) return [];
  return file.bytes % BLOB_BYTES_MAX === 0 ? file.blobs : file.blobs.slice(0, -1);
}

async function readAt(handle: fs.FileHandle, at: number, bytes: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(bytes);
  let filled = 0;
  while (filled < bytes) {
    const { bytesRead } = await handle.read(buffer, filled, bytes - filled, at + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}

async function addBlob(bytes: Buffer, batch: BlobBatch): Promise<string> {
  const hash = hashOf(bytes);
  await batch.add({ hash, bytes });
  return hash;
}

function hashOf(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function isSameLook(one: FileLook | undefined, other: FileLook): boolean {
  if (one === undefined) return false;
  return one.ino === other.ino && one.size === other.size && one.mtimeMs === other.mtimeMs;
}

function isSameContent(one: StoredFile, other: StoredFile | undefined): boolean {
  if (other === undefined || one.mode !== other.mode || one.bytes !== other.bytes) return false;
  return one.blobs?.join() === other.blobs?.join();
}

function refuseLarge(
  what: string,
  bytes: number,
  { setting, bytes: usual }: { readonly setting: string; readonly bytes: number },
): void {
  const wanted = process.env[setting];
  const limit = wanted === undefined ? usual : parseBytes(wanted);
  if (limit === undefined) {
    throw new Refusal("bad-option", `${setting} takes a size such as 4GB, not "${wanted}"`);
  }
  if (bytes <= limit) return;
  const size = `${what} has ${formatBytes(bytes)}, and the store takes at most ${formatBytes(limit)}`;
  throw new Refusal("too-large", size, advice(`allow more with ${setting}=SIZE`));
}

/** The stored files that exist; refuses paths that lead out of the run's directories. */
export function existingFiles(stored: readonly StoredFile[]): readonly StoredFile[] {
  const bad = stored.find(({ path }) => !isInside(path));
  if (bad === undefined) return stored.filter(({ blobs }) => blobs !== undefined);
  const message = `the store names a file outside of the run: ${bad.path}`;
  throw new Refusal("bad-archive", message, advice("find out who has put it there"));
}

/** The content of a stored file as text. */
export async function textOf(blobs: Pick<BlobStore, "get">, file: StoredFile): Promise<string> {
  const pieces: Buffer[] = [];
  for (const hash of file.blobs ?? []) pieces.push(await blobs.get(hash));
  return Buffer.concat(pieces).toString("utf8");
}

/** Makes a file equal to a stored one. Of an earlier copy, only what differs is written again. */
export async function writePart(
  blobs: Pick<BlobStore, "get">,
  file: StoredFile,
  { to, earlier }: { readonly to: string; readonly earlier?: StoredFile | undefined },
): Promise<void> {
  const wanted = file.blobs ?? [];
  const there = earlier === undefined ? undefined : await fs.stat(to).catch(absent);
  const isWhole = there !== undefined && there.size === earlier?.bytes;
  const same = isWhole ? sameBlobs(wanted, earlier?.blobs ?? []) : 0;
  await fs.mkdir(dirname(to), { recursive: true, mode: 0o700 });
  const handle = await fs.open(to, isWhole ? "r+" : "w", MODE);
  try {
    let at = same * BLOB_BYTES_MAX;
    for (const hash of wanted.slice(same)) {
      const bytes = await blobs.get(hash);
      await handle.write(bytes, 0, bytes.length, at);
      at += bytes.length;
    }
    await handle.truncate(file.bytes);
  } finally {
    await handle.close();
  }
}

function sameBlobs(one: readonly string[], other: readonly string[]): number {
  const different = one.findIndex((hash, index) => hash !== other[index]);
  return different === -1 ? one.length : different;
}
