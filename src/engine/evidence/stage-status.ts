/**
 * The status.json of a stage of a DOT pipeline. The stage may write it to its folder in the run
 * directory, or to the directory in which it works. The file becomes the status file of the attempt, as
 * if the stage had written it there.
 *
 * Owns: the paths of these files, and which file counts.
 * Does not: parse a report (status-file.ts).
 * Invariants:
 * - stage-status/S1 A file counts only if this attempt wrote it: its inode, size or times differ
 *   from those before the process started. They are stored in the attempt's folder, so the next
 *   owner knows them too.
 * - stage-status/S2 A report in the directory of the work is copied to the attempt's folder and
 *   flushed before it is removed. A file that was there before gets its old content back.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import type { AttemptRef } from "../../core/event.ts";
import { stepOf, type Visit } from "../../core/run.ts";
import { bytesOf, errorCode, textOf } from "../../runner/file-text.ts";
import { failpoint } from "../../util/failpoint.ts";
import { isObject, parseJson } from "../../util/json.ts";
import { logsRoot, stageDir } from "../attractor-stage.ts";
import { LaunchError, type LaunchInput, workDirOf } from "../launch.ts";
import { attemptDirOf } from "../state-dir.ts";
import { isReport, STATUS_BYTES_MAX, STATUS_FILE } from "./status-file.ts";

/** The identities of the files before the process started, by path. */
const BEFORE_FILE = "status-before.json";
/** The content of the file in the directory of the work before the process started. */
const OLD_FILE = "status-before.old";

/** Makes the folder of a stage, and notes which files were there before its process. */
export function prepareStage(site: LaunchInput, visit: Visit, at: AttemptRef): void {
  if (site.plan.keys !== "attractor") return;
  const dir = attemptDirOf(site.dir, at);
  for (const folder of stageFolders(site, visit)) makeFolder(folder);
  keepEarlierReport(site, visit, at);
  const own = join(dir, STATUS_FILE);
  const paths = [own, ...reportPaths(site, visit), workPath(site, visit)];
  const before = paths.map((path) => [path, identityOf(path)] as const);
  const old = oldText(workPath(site, visit));
  if (old !== undefined) fs.writeFileSync(join(dir, OLD_FILE), old, { mode: 0o600 });
  const text = JSON.stringify(Object.fromEntries(before));
  fs.writeFileSync(join(dir, BEFORE_FILE), text, { mode: 0o600 });
}

function makeFolder(folder: string): void {
  try {
    fs.mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw new LaunchError(`its folder ${folder} cannot be made: ${errorCode(error)}`);
  }
}

/** In these cases an agent does not repeat a report that it has given in the conversation. */
const CONTINUED: ReadonlySet<string> = new Set(["interrupted", "permitted", "correct"]);

/** Keeps the report of the last attempt, which counts unless the agent replaces it. */
function keepEarlierReport(site: LaunchInput, visit: Visit, at: AttemptRef): void {
  const { kind, says = "" } = visit.conversation?.conversation ?? {};
  if (kind !== "continue" || !CONTINUED.has(says)) return;
  const before = attemptDirOf(site.dir, { ...at, attempt: at.attempt - 1 });
  keep(join(before, STATUS_FILE), join(attemptDirOf(site.dir, at), STATUS_FILE));
}

/** Makes the report of a stage that has ended the status file of its attempt. */
export function takeStageStatus(site: LaunchInput, visit: Visit, dir: string): void {
  const noted = textOf(join(dir, BEFORE_FILE));
  const parsed = noted === undefined ? undefined : parseJson(noted);
  if (parsed?.ok !== true || !isObject(parsed.json)) return;
  const before = parsed.json;
  const isNew = (path: string): boolean => {
    const identity = identityOf(path);
    return identity !== undefined && identity !== before[path];
  };
  const own = join(dir, STATUS_FILE);
  const lacksOwn = (): boolean => !isNew(own);
  const reported = reportPaths(site, visit).find(isNew);
  if (reported !== undefined && lacksOwn()) keep(reported, own);
  const path = workPath(site, visit);
  if (!isNew(path) || !looksLikeReport(path)) return;
  if (lacksOwn()) keep(path, own);
  failpoint("stage-status.kept");
  putBack(path, join(dir, OLD_FILE));
}

/** The folders of a stage in the run directory: in a branch, that of its node too. */
function stageFolders(site: LaunchInput, visit: Visit): readonly string[] {
  return [...new Set([stageDir(site, visit), join(logsRoot(site), stepOf(visit).id)])];
}

function reportPaths(site: LaunchInput, visit: Visit): readonly string[] {
  return stageFolders(site, visit).map((folder) => join(folder, STATUS_FILE));
}

/** The status.json in the directory in which a stage works. */
function workPath(site: LaunchInput, visit: Visit): string {
  return join(workDirOf(site, visit), STATUS_FILE);
}

/** What changes when a file is written; undefined if there is no file. */
function identityOf(path: string): string | undefined {
  const stat = fs.lstatSync(path, { bigint: true, throwIfNoEntry: false });
  if (stat === undefined || !stat.isFile()) return undefined;
  return [stat.dev, stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join(" ");
}

/** True for a report, and for a text that is not JSON: a damaged report must not count as success. */
function looksLikeReport(path: string): boolean {
  if ((fs.statSync(path, { throwIfNoEntry: false })?.size ?? 0) > STATUS_BYTES_MAX) return false;
  const text = textOf(path);
  if (text === undefined) return false;
  const parsed = parseJson(text);
  return !parsed.ok || isReport(parsed.json);
}

/** Copies a report to the folder of its attempt, where it appears whole. */
function keep(path: string, own: string): void {
  const draft = `${own}.new`;
  const bytes = bytesOf(path);
  if (bytes === undefined) return;
  fs.writeFileSync(draft, bytes, { mode: 0o600, flush: true });
  fs.renameSync(draft, own);
}

function oldText(path: string): Buffer | undefined {
  const size = fs.statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  return size > STATUS_BYTES_MAX ? undefined : bytesOf(path);
}

/** Removes a report from the directory of the work, or replaces it by what was there before. */
function putBack(path: string, old: string): void {
  const before = bytesOf(old);
  if (before === undefined) fs.rmSync(path, { force: true });
  else fs.writeFileSync(path, before);
}
