/**
 * The contents of many objects through one git process.
 *
 * Owns: reading the stream of `git cat-file --batch`.
 * Does not: hold a content in memory; it is handed on in pieces.
 */
import { once } from "node:events";
import { gitFailure, startGit } from "./git.ts";
import { inStore, type SnapshotStore } from "./store.ts";
import { WorkspaceError } from "./workspace-error.ts";

const NEWLINE = 10;

/** One object: its size, and its content, which must be read to its end. */
export interface Blob {
  readonly bytes: number;
  readonly pieces: AsyncGenerator<Buffer>;
}

/** Reads objects one after another, each to its end, in the order in which they were asked for. */
export interface BlobReader {
  ask(hashes: readonly string[]): void;
  read(): Promise<Blob>;
  close(): Promise<void>;
}

/** Starts a reader of a store's objects. */
export async function openBlobReader(store: SnapshotStore): Promise<BlobReader> {
  const call = inStore(store);
  const child = await startGit(call, "cat-file", "--batch");
  const { stdin, stdout, stderr } = child;
  if (stdin === null || stdout === null || stderr === null) throw new Error("git has no streams");
  const ended = once(child, "close");
  let words = "";
  stderr.on("data", (chunk) => {
    words += String(chunk);
  });
  const chunks = stdout[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let rest = Buffer.alloc(0);
  const more = async (): Promise<Buffer> => {
    const { value, done } = await chunks.next();
    if (done === true) throw gitFailure(call, ["cat-file"], { exit: 0, stderr: words });
    return value;
  };
  async function header(): Promise<string> {
    for (;;) {
      const end = rest.indexOf(NEWLINE);
      if (end < 0) {
        rest = Buffer.concat([rest, await more()]);
        continue;
      }
      const line = rest.subarray(0, end).toString("latin1");
      rest = rest.subarray(end + 1);
      return line;
    }
  }
  function ask(hashes: readonly string[]): void {
    stdin?.write(hashes.map((hash) => `${hash}\n`).join(""));
  }
  async function* piecesOf(bytes: number): AsyncGenerator<Buffer> {
    // The content is followed by a newline of git's own.
    for (let left = bytes + 1; left > 0; ) {
      if (rest.length === 0) rest = Buffer.from(await more());
      const piece = rest.subarray(0, left);
      rest = rest.subarray(piece.length);
      left -= piece.length;
      yield left === 0 ? piece.subarray(0, -1) : piece;
    }
  }
  async function read(): Promise<Blob> {
    const [hash = "", type, size] = (await header()).split(" ");
    if (type === "missing") throw missing(store, hash);
    return { bytes: Number(size), pieces: piecesOf(Number(size)) };
  }
  async function close(): Promise<void> {
    stdin?.end();
    stdout?.destroy();
    await ended;
  }
  return { ask, read, close };
}

/** The whole content of a blob that is known to be small. */
export async function wholeOf({ pieces }: Blob): Promise<Buffer> {
  const all: Buffer[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

function missing(store: SnapshotStore, hash: string): WorkspaceError {
  return new WorkspaceError(
    "snapshot-missing",
    `an object of the snapshot, ${hash}, is not in ${store.objectDir}`,
    "look at the repository with: git fsck",
  );
}
