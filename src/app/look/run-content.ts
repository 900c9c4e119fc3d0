/**
 * The content that a run keeps, for a page that shows it: the files of its snapshots, and the files
 * that its steps passed on.
 *
 * Owns: which content belongs to a run, and how much of it is read.
 * Does not: join a name from outside into a path. A snapshot and a hash must stand in the events of
 * the run, and a path is looked up in the tree of its snapshot.
 */
import { isUtf8 } from "node:buffer";
import * as fs from "node:fs/promises";
import { basename, extname } from "node:path";
import type { Output, Recorded, RunEvent } from "../../core/event.ts";
import { plainLines } from "../../view/text.ts";
import { checkpointNamed } from "../../view/work-history.ts";
import { artifactPath } from "../../workspace/artifact.ts";
import type { ListedFile } from "../../workspace/snapshot/difference.ts";
import { openRunWorkspace } from "../drive/run-workspace.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { masked } from "../output/secret-mask.ts";
import type { Project } from "../project/project.ts";
import { pointNamed } from "../project/step-name.ts";
import { command, naming, Refusal } from "../refusal.ts";

const FILES_MAX = 20_000;
const TEXT_BYTES_MAX = 512 * 1024;

/** The commit of a snapshot that the events of a run name: itself, or that of a checkpoint. */
function snapshotNamed(known: LoadedRun, name: string): string {
  const commits = known.events.flatMap(({ event }) => commitsIn(event));
  const exact = commits.find((commit) => commit === name);
  if (exact !== undefined) return exact;
  const point = naming(known.shortId, () => checkpointNamed(known.events, pointNamed(known, name)));
  if (point.commit !== undefined) return point.commit;
  const message = `${name} of run ${known.shortId} is no snapshot`;
  throw new Refusal("no-snapshots", message, command("timeline", known.shortId));
}

/** The snapshots that an event names. */
function commitsIn(event: RunEvent): readonly string[] {
  const found = [
    "base" in event ? event.base : undefined,
    "aside" in event ? event.aside : undefined,
    "snapshot" in event ? event.snapshot?.commit : undefined,
    event.type === "run.restored" ? event.commit : undefined,
  ];
  return found.filter((commit) => commit !== undefined);
}

/** The files in a snapshot of a run. */
export async function filesIn(
  project: Project,
  known: LoadedRun,
  name: string,
): Promise<{
  readonly snapshot: string;
  readonly files: readonly ListedFile[];
  readonly leftOut: number;
}> {
  const snapshot = snapshotNamed(known, name);
  const { store } = await openRunWorkspace(project, known);
  const { listSnapshot } = await import("../../workspace/snapshot/difference.ts");
  return { snapshot, ...(await listSnapshot(store, snapshot, FILES_MAX)) };
}

/** One file of a snapshot as text. */
interface ShownFile {
  readonly snapshot: string;
  readonly path: string;
  readonly bytes: number;
  readonly binary: boolean;
  readonly text: string;
  /** The text is only its beginning. */
  readonly cut: boolean;
}

/** The text of a file in a snapshot of a run; a binary file has none. */
export async function fileIn(
  project: Project,
  known: LoadedRun,
  name: string,
  path: string,
): Promise<ShownFile> {
  const snapshot = snapshotNamed(known, name);
  const { store } = await openRunWorkspace(project, known);
  const { readListed } = await import("../../workspace/snapshot/difference.ts");
  const found = await readListed(store, snapshot, path, TEXT_BYTES_MAX);
  if (found === undefined) {
    const message = `the snapshot ${snapshot.slice(0, 10)} has no file ${path}`;
    throw new Refusal("missing-file", message, command("timeline", known.shortId));
  }
  const { bytes, content } = found;
  const cut = content.length < bytes;
  const binary = isBinary(content, cut);
  const text = binary ? "" : plainLines(masked(content.toString("utf8")));
  return { snapshot, path, bytes, binary, text, cut };
}

/** The longest end of a text that may be a part of a letter. */
const LETTER_BYTES_MAX = 4;

function isBinary(content: Buffer, cut: boolean): boolean {
  if (content.includes(0)) return true;
  const ends = cut ? LETTER_BYTES_MAX : 1;
  return !Array.from({ length: ends }, (_, less) => less).some((less) =>
    isUtf8(content.subarray(0, content.length - less)),
  );
}

/** A file that a step passed on. */
interface Artifact extends Output {
  readonly name: string;
  /** Its media type. */
  readonly media: string;
}

/** The media types that a browser may show; everything else is a download. */
const MEDIA: Readonly<Record<string, string>> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
};
const BYTES = "application/octet-stream";
const TEXT = "text/plain; charset=utf-8";
/** Names of files that are text; their content is looked at, too, before it is shown as text. */
const BINARY = /\.(zip|gz|tgz|xz|bz2|zst|7z|tar|jar|exe|bin|so|o|a|wasm|pdf|mp[34]|mov|woff2?)$/i;

function mediaOf(path: string): string {
  const known = MEDIA[extname(path).toLowerCase()];
  return known ?? (BINARY.test(path) ? BYTES : TEXT);
}

/** The files that the events pass on, each hash and path once; the newest last. */
export function artifactsIn(events: Iterable<Recorded>): readonly Artifact[] {
  const found = new Map<string, Artifact>();
  const add = (name: string, output: Output): void => {
    const artifact = { ...output, name, media: mediaOf(output.path) };
    found.set(`${output.sha256} ${output.path}`, artifact);
  };
  for (const { event } of events) {
    if (event.type === "step.relayed") add("notes", event.checkpoint);
    const outputs =
      event.type === "step.completed"
        ? event.outputs
        : "held" in event
          ? event.held.outputs
          : "exited" in event
            ? (event.exited?.outputs ?? {})
            : {};
    for (const [name, output] of Object.entries(outputs)) add(name, output);
  }
  return [...found.values()];
}

/** The content of an artifact, and how a browser may treat it. */
interface ArtifactContent {
  /** The file that holds it. */
  readonly file: string;
  readonly name: string;
  readonly media: string;
  readonly bytes: number;
}

/** The content with a hash, if an event of the run names that hash. */
export async function artifactIn(known: LoadedRun, sha256: string): Promise<ArtifactContent> {
  const artifact = artifactsIn(known.events).findLast((one) => one.sha256 === sha256);
  const file = artifactPath(known.dir.artifacts, artifact?.sha256 ?? "");
  const bytes = artifact && (await fs.stat(file).catch(() => undefined))?.size;
  if (artifact === undefined || bytes === undefined) {
    const message = `run ${known.shortId} keeps no file with the hash ${sha256.slice(0, 12)}`;
    throw new Refusal("missing-file", message, command("show", known.shortId));
  }
  const isText = artifact.media === TEXT && !(await isBinaryFile(file, bytes));
  const media = artifact.media === TEXT && !isText ? BYTES : artifact.media;
  return { file, name: basename(artifact.path), media, bytes };
}

const LOOK_BYTES = 8 * 1024;

async function isBinaryFile(path: string, bytes: number): Promise<boolean> {
  const file = await fs.open(path, "r");
  try {
    const start = Buffer.alloc(LOOK_BYTES);
    const { bytesRead } = await file.read(start, 0, LOOK_BYTES, 0);
    return isBinary(start.subarray(0, bytesRead), bytesRead < bytes);
  } finally {
    await file.close();
  }
}
