/**
 * Many files as one: a compressed tar file (POSIX ustar). Its first member, the manifest, lists the
 * others with the hash of each. The names of the others are their hashes, so that the same content
 * is in it once.
 *
 * Owns: writing it completely; verifying each part by its hash; the necessary part of the tar
 * format: regular files with short names, as streams, because a member may be larger than the
 * memory (docs/adr/0002-dependencies.md says why no library does it).
 * Does not: know what the parts are for, or keep owners, times and links.
 * Invariants:
 * - archive/R1 An archive appears under its name complete or not at all.
 * - archive/R2 `readArchive` returns only if every part exists with the size and the hash of the
 *   manifest, and the checksum of the compression is correct.
 * - archive/R3 No path in it leads out of the directory in which it is unpacked.
 */

import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import * as fs from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import { assert } from "../util/assert.ts";
import { failpoint } from "../util/failpoint.ts";
import { isObject, type JsonObject, parseJson } from "../util/json.ts";
import { absent, flush } from "./disk.ts";
import { WorkspaceError } from "./workspace-error.ts";

const FORMAT = 1;
const MANIFEST = "manifest.json";
const PARTS = "parts/";
const MANIFEST_BYTES_MAX = 256 * 1024 * 1024;
const SHA256 = /^[0-9a-f]{64}$/;

/** A file to put into an archive: one of this disk, or a text. */
export type PartSource = { readonly path: string; readonly mode?: number } & (
  | { readonly file: string }
  | { readonly text: string }
);

/** A file in an archive. */
export interface Part {
  readonly path: string;
  readonly sha256: string;
  readonly bytes: number;
  readonly mode: number;
}

interface Archive {
  /** The description by its writer. */
  readonly about: JsonObject;
  readonly parts: readonly Part[];
  /** The content of the parts that were asked for as texts, by path. */
  readonly texts: ReadonlyMap<string, string>;
}

/** Writes an archive; of a file that grows meanwhile, it has the content at the start. */
export async function writeArchive(
  file: string,
  about: JsonObject,
  sources: readonly PartSource[],
): Promise<readonly Part[]> {
  const parts: Part[] = [];
  const byHash = new Map<string, PartSource>();
  for (const source of sources) {
    const part = await describe(source);
    if (part === undefined) continue;
    parts.push(part);
    byHash.set(part.sha256, source);
  }
  const manifest = Buffer.from(JSON.stringify({ format: FORMAT, ...about, parts }, null, 1));
  const target = resolve(file);
  const draft = `${target}.${process.pid}.new`;
  try {
    const out = await fs.open(draft, "w", 0o600);
    const stream = Readable.from(members(manifest, parts, byHash));
    await pipeline(stream, createGzip(), out.createWriteStream());
    await flush(draft);
    failpoint("export.written");
    await fs.rename(draft, target);
    await flush(dirname(target));
    return parts;
  } finally {
    await fs.rm(draft, { force: true });
  }
}

/** Reads and verifies an archive; with `into`, it writes the parts there, named by their hashes. */
export async function readArchive(
  file: string,
  options: { readonly texts: readonly string[]; readonly into?: string },
): Promise<Archive> {
  try {
    return await read(file, options);
  } catch (error) {
    if (error instanceof WorkspaceError) throw error;
    const { code = "" } = error as NodeJS.ErrnoException;
    const damaged = error instanceof TarError || code.startsWith("Z_");
    if (!damaged) throw error;
    throw broken(file, error instanceof TarError ? error.message : "it is cut off or damaged");
  }
}

async function* members(
  manifest: Buffer,
  parts: readonly Part[],
  sources: ReadonlyMap<string, PartSource>,
): AsyncGenerator<Buffer> {
  yield tarHeader({ name: MANIFEST, bytes: manifest.length });
  yield manifest;
  yield paddingOf(manifest.length);
  const written = new Set<string>();
  for (const part of parts) {
    const source = sources.get(part.sha256);
    if (source === undefined || written.has(part.sha256)) continue;
    written.add(part.sha256);
    yield tarHeader({ name: PARTS + part.sha256, bytes: part.bytes });
    yield* contentOf(source, part);
    yield paddingOf(part.bytes);
  }
  yield TAR_END;
}

async function* contentOf(source: PartSource, part: Part): AsyncGenerator<Buffer> {
  if ("text" in source) {
    yield Buffer.from(source.text);
    return;
  }
  const hash = createHash("sha256");
  for await (const chunk of startOf(source.file, part.bytes)) {
    hash.update(chunk);
    yield chunk;
  }
  if (hash.digest("hex") === part.sha256) return;
  throw new WorkspaceError(
    "bundle-broken",
    `${source.file} was changed while it was read`,
    "try again when nobody works on it",
  );
}

/** The part for a source; undefined when its file does not exist any more. */
async function describe(source: PartSource): Promise<Part | undefined> {
  const { path, mode = 0o600 } = source;
  const hash = createHash("sha256");
  if ("text" in source) {
    const bytes = Buffer.byteLength(source.text);
    return { path, sha256: hash.update(source.text).digest("hex"), bytes, mode };
  }
  const facts = await fs.stat(source.file).catch(absent);
  if (facts === undefined) return undefined;
  for await (const chunk of startOf(source.file, facts.size)) hash.update(chunk);
  return { path, sha256: hash.digest("hex"), bytes: facts.size, mode };
}

function startOf(file: string, bytes: number): AsyncIterable<Buffer> {
  if (bytes === 0) return Readable.from([]);
  return createReadStream(file, { end: bytes - 1 });
}

async function read(
  file: string,
  { texts, into }: { readonly texts: readonly string[]; readonly into?: string },
): Promise<Archive> {
  const source = createReadStream(file);
  const unzipped = createGunzip();
  source.on("error", (error) => unzipped.destroy(error));
  source.pipe(unzipped);
  try {
    const tar = new TarReader(unzipped);
    const first = await tar.next();
    if (first?.name !== MANIFEST || first.bytes > MANIFEST_BYTES_MAX) {
      throw broken(file, "it is not an exported run");
    }
    const { about, parts } = parseManifest(file, await textOf(tar.content(first)));
    const wanted = new Set(texts.map((path) => parts.find((part) => part.path === path)?.sha256));
    const left = new Map(parts.map((part) => [PARTS + part.sha256, part]));
    const read = new Map<string, string>();
    for (let member = await tar.next(); member !== undefined; member = await tar.next()) {
      const part = left.get(member.name);
      if (part?.bytes !== member.bytes) throw broken(file, `it has an unknown part ${member.name}`);
      left.delete(member.name);
      const hash = createHash("sha256");
      const content = hashed(tar.content(member), hash);
      if (wanted.has(part.sha256)) read.set(part.sha256, await textOf(content));
      else await pipeline(Readable.from(content), await sinkFor(part, into));
      if (hash.digest("hex") !== part.sha256)
        throw broken(file, `its part ${part.path} is damaged`);
    }
    const [missing] = left.values();
    if (missing !== undefined) throw broken(file, `its part ${missing.path} is missing`);
    const byPath = parts.flatMap(({ path, sha256 }) => {
      const text = texts.includes(path) ? read.get(sha256) : undefined;
      return text === undefined ? [] : [[path, text] as const];
    });
    return { about, parts, texts: new Map(byPath) };
  } finally {
    source.destroy();
  }
}

/** The target of the content of a part: its own file, or nothing when it is only verified. */
async function sinkFor({ sha256 }: Part, into: string | undefined): Promise<Writable> {
  if (into === undefined) return new Writable({ write: (_chunk, _encoding, done) => done() });
  return (await fs.open(join(into, sha256), "wx", 0o600)).createWriteStream({ flush: true });
}

async function textOf(chunks: AsyncIterable<Buffer>): Promise<string> {
  return Buffer.concat(await Array.fromAsync(chunks)).toString("utf8");
}

async function* hashed(chunks: AsyncIterable<Buffer>, hash: Hash): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    hash.update(chunk);
    yield chunk;
  }
}

function parseManifest(file: string, text: string): Omit<Archive, "texts"> {
  const parsed = parseJson(text);
  if (!parsed.ok || !isObject(parsed.json)) throw broken(file, "its manifest is damaged");
  const { format, parts, ...about } = parsed.json;
  if (typeof format === "number" && format > FORMAT) {
    throw new WorkspaceError(
      "bundle-broken",
      `${file} has format ${format}, and this perdure knows ${FORMAT}: a newer perdure wrote it`,
      "use the newer perdure here as well",
    );
  }
  if (format !== FORMAT || !Array.isArray(parts) || !parts.every(isPart)) {
    throw broken(file, "its manifest is damaged");
  }
  return { about: about as JsonObject, parts };
}

function isPart(value: unknown): value is Part {
  if (!isObject(value)) return false;
  const { path, sha256, bytes, mode } = value;
  if (typeof path !== "string" || typeof sha256 !== "string" || !SHA256.test(sha256)) return false;
  return Number.isSafeInteger(bytes) && Number.isSafeInteger(mode) && isInside(path);
}

/** True for a path that stays in the directory that it is relative to (archive/R3). */
export function isInside(path: string): boolean {
  return !path.includes("\0") && path.split("/").every((name) => !["", ".", ".."].includes(name));
}

function broken(file: string, why: string): WorkspaceError {
  const remedy = "export the run again, and compare the sizes of both files after copying";
  return new WorkspaceError("bundle-broken", `${file} cannot be imported: ${why}`, remedy);
}

const BLOCK = 512;
const NAME_MAX = 100;
const CHECKSUM_AT = 148;
const CHECKSUM_LENGTH = 8;
const SIZE_AT = 124;
const SIZE_LENGTH = 12;
/** Larger sizes do not fit into eleven octal digits; they are written as a binary number. */
const OCTAL_SIZE_MAX = 8 ** 11 - 1;
const BINARY = 0x80;

interface Member {
  readonly name: string;
  readonly bytes: number;
}

/** A file that is not a valid tar file. */
class TarError extends Error {
  override readonly name = "TarError";
}

/** The header of a member; its content and `paddingOf` it follow. */
function tarHeader({ name, bytes }: Member): Buffer {
  assert(Buffer.byteLength(name) <= NAME_MAX, `the name ${name} is too long for a tar file`);
  const header = Buffer.alloc(BLOCK);
  header.write(name, 0, "utf8");
  header.write("0000600\0", 100, "latin1");
  header.write("0000000\0", 108, "latin1");
  header.write("0000000\0", 116, "latin1");
  writeSize(header, bytes);
  header.write("00000000000\0", 136, "latin1");
  header.write("0", 156, "latin1");
  header.write("ustar\u000000", 257, "latin1");
  header.write(`${checksumOf(header).toString(8).padStart(6, "0")}\0 `, CHECKSUM_AT, "latin1");
  return header;
}

/** The padding after the content of a member. */
function paddingOf(bytes: number): Buffer {
  return Buffer.alloc((BLOCK - (bytes % BLOCK)) % BLOCK);
}

/** The end of a tar file. */
const TAR_END = Buffer.alloc(2 * BLOCK);

/** Reads a tar file from a stream: one member after the other, each to its end. */
class TarReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /** The next member, or undefined at the end. Its content must have been read before. */
  async next(): Promise<Member | undefined> {
    const header = Buffer.concat(await Array.fromAsync(this.#take(BLOCK)));
    if (header.every((byte) => byte === 0)) {
      await this.#drain();
      return undefined;
    }
    const sum = Number.parseInt(header.toString("latin1", CHECKSUM_AT, CHECKSUM_AT + 6), 8);
    if (sum !== checksumOf(header)) throw new TarError("the header of a part is damaged");
    const end = header.indexOf(0);
    return { name: header.toString("utf8", 0, Math.min(end, NAME_MAX)), bytes: sizeIn(header) };
  }

  /** The content of the member that `next` gave. */
  async *content({ bytes }: Member): AsyncGenerator<Buffer> {
    yield* this.#take(bytes);
    for await (const _ of this.#take(paddingOf(bytes).length));
  }

  async *#take(bytes: number): AsyncGenerator<Buffer> {
    for (let left = bytes; left > 0; ) {
      if (this.#rest.length === 0) {
        const { value, done } = await this.#chunks.next();
        if (done === true) throw new TarError("it ends in the middle of a part");
        this.#rest = value;
      }
      const piece = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(piece.length);
      left -= piece.length;
      yield piece;
    }
  }

  /** Reads to the end, where the compression has its checksum. */
  async #drain(): Promise<void> {
    for (;;) if ((await this.#chunks.next()).done === true) return;
  }
}

function writeSize(header: Buffer, bytes: number): void {
  if (bytes <= OCTAL_SIZE_MAX) {
    header.write(`${bytes.toString(8).padStart(SIZE_LENGTH - 1, "0")}\0`, SIZE_AT, "latin1");
    return;
  }
  header[SIZE_AT] = BINARY;
  header.writeBigUInt64BE(BigInt(bytes), SIZE_AT + SIZE_LENGTH - 8);
}

function sizeIn(header: Buffer): number {
  const size =
    header[SIZE_AT] === BINARY
      ? Number(header.readBigUInt64BE(SIZE_AT + SIZE_LENGTH - 8))
      : Number.parseInt(header.toString("latin1", SIZE_AT, SIZE_AT + SIZE_LENGTH - 1), 8);
  if (Number.isSafeInteger(size)) return size;
  throw new TarError("the header of a part is damaged");
}

/** The sum of all bytes of the header; its own field counts as spaces. */
function checksumOf(header: Buffer): number {
  let sum = 0;
  for (let at = 0; at < BLOCK; at++) {
    const own = at >= CHECKSUM_AT && at < CHECKSUM_AT + CHECKSUM_LENGTH;
    sum += own ? 0x20 : (header[at] ?? 0);
  }
  return sum;
}
