/**
 * The description of a run in an exported file, and the names of the parts of the file.
 *
 * Owns: the shape of the description; it comes from outside, so it is checked.
 * Does not: read or write archives (workspace/archive.ts).
 */
import type { Answer, VisitRef } from "../core/event.ts";
import { isAnswer } from "../journal/request-codec.ts";
import { isObject, type JsonObject } from "../util/json.ts";
import { advice, Refusal } from "./refusal.ts";

/** The names of parts; those below RUN_PART are files of the run's folder. */
export const EVENTS_PART = "events.jsonl";
export const PLAN_PART = "plan.json";
export const BUNDLE_PART = "snapshots.bundle";
export const RUN_PART = "run/";
export const ARTIFACT_PART = "artifacts/";
export const TRANSCRIPT_PART = "transcripts/";

/** A conversation whose transcript is a part of the archive. */
export interface ArchivedConversation {
  readonly place: VisitRef;
  readonly session: string;
  /** Its path on the other machine. */
  readonly file: string;
  readonly part: string;
}

/** The description of the run in an archive. */
export interface ArchivedRun {
  readonly perdure: string;
  readonly run: string;
  readonly pipeline: string;
  /** The project's directory on the other machine. */
  readonly project: string;
  readonly exportedAt: string;
  /** The snapshot of the files at the export. */
  readonly commit?: string;
  /** Commits that the importing repository must have, because the archive lacks them. */
  readonly base: readonly string[];
  readonly conversations: readonly ArchivedConversation[];
  /** Answers that are not in its events yet, by attempt. */
  readonly answers?: Readonly<Record<string, Answer>>;
}

/** Parses the description of a run. Throws when the archive does not hold a run. */
export function parseArchivedRun(about: JsonObject, file: string): ArchivedRun {
  const { perdure, run, pipeline, project, exportedAt, commit, base } = about;
  const { conversations, answers } = about;
  const texts = [perdure, run, pipeline, project, exportedAt];
  const good =
    texts.every((value) => typeof value === "string") &&
    (commit === undefined || typeof commit === "string") &&
    Array.isArray(base) &&
    base.every((one) => /^[0-9a-f]{40,64}$/.test(String(one))) &&
    Array.isArray(conversations) &&
    conversations.every(isConversation) &&
    (answers === undefined || (isObject(answers) && Object.values(answers).every(isAnswer)));
  if (good && /^[\w-]{8,64}$/.test(String(run))) return about as unknown as ArchivedRun;
  const message = `${file} cannot be imported: what it says about its run is damaged`;
  throw new Refusal("bad-archive", message, advice("export the run again"));
}

function isConversation(value: unknown): boolean {
  if (!isObject(value) || !isObject(value.place)) return false;
  const { place, session, file, part } = value;
  const { scope, step, visit } = place;
  const texts = [session, file, part, scope, step];
  return texts.every((one) => typeof one === "string") && Number.isSafeInteger(visit);
}
