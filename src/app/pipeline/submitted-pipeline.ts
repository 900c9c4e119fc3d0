/**
 * Pipelines that a program submits as text: each gets a file of its own, as a run needs one.
 *
 * Owns: where these files are. A run keeps its plan, so the file matters only for an update.
 */
import { sha256 } from "../../util/json.ts";
import { userStatePath, writeUserState } from "../project/user-state.ts";

const FOLDER = "submitted";
const NAME_LENGTH = 16;

/** The file of a pipeline in DOT; the same text has the same file. */
export function submittedFile(source: string): string {
  const place = [FOLDER, `${sha256(source).slice(0, NAME_LENGTH)}.dot`];
  writeUserState(place, source);
  return userStatePath(...place);
}
