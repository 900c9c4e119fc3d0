/**
 * Whether the user's own index can be the beginning of ours: it holds the hashes of all tracked files
 * and the times at which they were read, so nothing that did not change has to be read.
 *
 * Owns: reading the format of git's index, as far as that takes.
 * Does not: copy it (index-cache.ts does), or bring the objects that it names (store.ts does).
 *
 * - index-seed/Q1 An index serves only if each of its entries is the file as it is on the disk: no
 *   line ends or filters in between, no entry that git was told not to look at.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Workspace } from "./workspace.ts";

const HEADER_BYTES = 12;
const FACTS_BYTES = 40;
const ASSUME_UNCHANGED = 0x8000;
const EXTENDED = 0x4000;
const STAGE = 0x3000;
const NAME_LENGTH = 0x0fff;
const GITLINK = 0o160000;
const ATTRIBUTES = ".gitattributes";
/** Attributes with which the stored bytes may be others than those on the disk. */
const CONVERTS = /\s(text|crlf|ident|eol=|text=|crlf=|filter|working-tree-encoding)/;

/** True when a copy of this index can be ours. */
export async function indexServes(workspace: Workspace, index: Buffer): Promise<boolean> {
  const { checkout, store, settings } = workspace;
  if (checkout?.objectFormat !== store.format || settings.convertsLineEnds) return false;
  const attributes = plainEntries(index, store.format === "sha256" ? 32 : 20);
  if (attributes === undefined) return false;
  const files = [
    ...settings.attributeFiles,
    join(workspace.root, ATTRIBUTES),
    ...attributes.map((path) => join(workspace.root, path)),
  ];
  const texts = await Promise.all(files.map(textOf));
  return !texts.some((text) => text.split("\n").some(converts));
}

/** How many entries an index has, by its header. */
export function entriesIn(index: Buffer): number {
  return index.length < HEADER_BYTES ? 0 : index.readUInt32BE(8);
}

function converts(line: string): boolean {
  return !line.startsWith("#") && CONVERTS.test(line);
}

/** The files of attributes in an index of plain entries; undefined when some are not plain. */
function plainEntries(index: Buffer, hashBytes: number): readonly string[] | undefined {
  const version = index.length < HEADER_BYTES ? 0 : index.readUInt32BE(4);
  if (index.toString("latin1", 0, 4) !== "DIRC" || version !== 2) return undefined;
  const attributes: string[] = [];
  const flagsAt = FACTS_BYTES + hashBytes;
  let at = HEADER_BYTES;
  for (let left = entriesIn(index); left > 0; left--) {
    if (at + flagsAt + 2 > index.length) return undefined;
    const flags = index.readUInt16BE(at + flagsAt);
    const mode = index.readUInt32BE(at + 24);
    if ((flags & (ASSUME_UNCHANGED | EXTENDED | STAGE)) !== 0 || mode === GITLINK) return undefined;
    const nameAt = at + flagsAt + 2;
    const known = flags & NAME_LENGTH;
    const end = known < NAME_LENGTH ? nameAt + known : index.indexOf(0, nameAt);
    if (index.toString("latin1", end - ATTRIBUTES.length, end) === ATTRIBUTES) {
      attributes.push(index.toString("utf8", nameAt, end));
    }
    // Entries are padded with one to eight zero bytes.
    at += (flagsAt + 2 + (end - nameAt) + 8) & ~7;
  }
  return attributes;
}

async function textOf(file: string): Promise<string> {
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR" || error.code === "EISDIR") return "";
    // What cannot be read may say anything.
    return "* text";
  });
}
