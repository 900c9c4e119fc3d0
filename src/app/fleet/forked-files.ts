/**
 * The stored files of a fork: those of the run that it comes from, under its own names. Content is
 * stored once, whoever names it.
 *
 * Does not: store them; the caller does, in the transaction that creates the fork.
 */
import type { BlobStore } from "../../journal/blob-store.ts";
import type { StoredFile, StoredFiles } from "../../journal/stored-files.ts";
import { ABOUT_PART, NAMES_PART, RUN_PART } from "../transfer/run-archive.ts";
import { parseAbout } from "./ship.ts";
import { existingFiles, filesOf, StoredParts, textOf } from "./stored-parts.ts";

/** The files that a fork begins with; the folders of attempts stay with the other run. */
export async function forkedFiles(
  { files, blobs }: { readonly files: StoredFiles; readonly blobs: BlobStore },
  from: string,
  fork: string,
): Promise<readonly StoredFile[]> {
  const stored = existingFiles((await files.changedSince(from, 0)).files).filter(
    ({ path }) => !path.startsWith(RUN_PART),
  );
  const renamed = [];
  for (const file of stored) {
    if (file.path === ABOUT_PART) {
      // The files at the last shipment of the other run; the events of the fork name its own.
      const { commit: _, own: __, ...about } = parseAbout(await textOf(blobs, file));
      renamed.push({ path: ABOUT_PART, text: `${JSON.stringify({ ...about, run: fork })}\n` });
    }
    if (file.path === NAMES_PART) {
      const names = await textOf(blobs, file);
      renamed.push({ path: NAMES_PART, text: names.replaceAll(`/${from}/`, `/${fork}/`) });
    }
  }
  const own = filesOf(await StoredParts.none(blobs).upload(renamed, "whole"));
  const isOwn = new Set(own.map(({ path }) => path));
  return [...stored.filter(({ path }) => !isOwn.has(path)), ...own];
}
