/** The names of snapshots: each says which attempt it was taken for, and when. */
import type { AttemptRef } from "../core/event.ts";
import type { Served } from "../core/fact.ts";
import { attemptText } from "../core/step-path.ts";
import { sha256 } from "../util/json.ts";
import { REFS } from "../workspace/snapshot/store.ts";

const HASH_LENGTH = 8;

/** The name of a snapshot, after the first attempt that uses it. */
export function snapshotName({
  after = [],
  before = [],
  during = [],
  scopes = [],
  aside,
}: Served): string {
  const served: readonly (readonly [string | undefined, string])[] = [
    [after[0] && attemptText(after[0]), "after"],
    [aside && attemptText(aside), "aside"],
    [before[0] && attemptText(before[0]), "before"],
    [during[0] && attemptText(during[0]), "during"],
    [scopes[0], "base"],
  ];
  const [name, when] = served.find(([one]) => one !== undefined) ?? ["nobody", "taken"];
  return `${refWord(name ?? "nobody")}/${when}`;
}

/** The name of an attempt's snapshot. */
export function snapshotRef(runId: string, at: AttemptRef, when: string): string {
  return `${REFS}${runId}/${refWord(attemptText(at))}/${when}`;
}

/** A name as a part of a ref; a name that git does not allow becomes a hash. */
export function refWord(text: string): string {
  const plain = text.replace(/[^A-Za-z0-9_@.-]/g, "_");
  return plain === text ? text : `${plain}.${sha256(text).slice(0, HASH_LENGTH)}`;
}
