/**
 * Just enough of the tar format (POSIX ustar) to put files into one and take them out again, as
 * streams: a member may be larger than the memory.
 *
 * Owns: headers, padding and the end mark.
 * Does not: keep names beyond 100 bytes, owners, times or anything but regular files.
 */
import { assert } from "../util/assert.ts";

const BLOCK = 512;
const NAME_MAX = 100;
const CHECKSUM_AT = 148;
const CHECKSUM_LENGTH = 8;
const SIZE_AT = 124;
const SIZE_LENGTH = 12;
/** Larger sizes do not fit into eleven octal digits; they are written as a binary number. */
const OCTAL_SIZE_MAX = 8 ** 11 - 1;
const BINARY = 0x80;

export interface Member {
  readonly name: string;
  readonly bytes: number;
}

/** What cannot be read as a tar file. */
export class TarError extends Error {
  override readonly name = "TarError";
}

/** The header of a member; its content and `paddingOf` it follow. */
export function tarHeader({ name, bytes }: Member): Buffer {
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

/** The bytes behind a member's content. */
export function paddingOf(bytes: number): Buffer {
  return Buffer.alloc((BLOCK - (bytes % BLOCK)) % BLOCK);
}

/** What stands behind the last member. */
export const TAR_END = Buffer.alloc(2 * BLOCK);

/** Reads a tar file from a stream: one member after the other, each to its end. */
export class TarReader {
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

  /** To the very end: what compressed it has a checksum there. */
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

/** The sum of all bytes, its own place counted as spaces. */
function checksumOf(header: Buffer): number {
  let sum = 0;
  for (let at = 0; at < BLOCK; at++) {
    const own = at >= CHECKSUM_AT && at < CHECKSUM_AT + CHECKSUM_LENGTH;
    sum += own ? 0x20 : (header[at] ?? 0);
  }
  return sum;
}
