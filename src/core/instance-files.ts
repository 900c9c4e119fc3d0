/**
 * Instances of composite steps that work in a workspace of their own (`workspace: own` on a fan-out, a
 * loop, a group or a sub-pipeline): the workspace is made before the first step starts in it, and what
 * was done there is merged when the instance has ended well.
 *
 * Owns: the events about such an instance, and their meaning.
 * Does not: make a workspace or merge one (room `engine`).
 * Invariants:
 * - files/W2 Instances of one visit are merged in their order; one that failed is not merged, and its
 *   workspace stays for its next attempt.
 */
import { assert, unreachable } from "../util/assert.ts";
import { conflictText } from "./activity.ts";
import { draft } from "./draft.ts";
import type { RunEvent, ScopeEvent } from "./event.ts";
import type { Fact } from "./fact.ts";
import { endScope } from "./flow.ts";
import type { Run } from "./run.ts";
import {
  filesIn,
  noteFiles,
  noteMerge,
  ownsWorkspace,
  workspaceAround,
} from "./workspace-files.ts";

/** What follows when the workspace of an instance was made, or its work merged. */
export function instanceEvents(
  run: Run,
  fact: Extract<Fact, { type: "scope-based" | "scope-merged" }>,
): readonly RunEvent[] {
  const scope = run.scopes.get(fact.scope);
  if (scope === undefined) return [];
  if (fact.type === "scope-based") {
    const news = ownsWorkspace(scope) && filesIn(run, scope.id).base === undefined;
    return news ? [{ type: "scope.based", scope: scope.id, base: fact.base }] : [];
  }
  if (!run.merging.has(scope)) return [];
  const { result } = fact;
  if (result.ok) {
    const { snapshot, theirs } = result;
    return [{ type: "scope.merged", scope: scope.id, snapshot, base: theirs }];
  }
  const { paths, base } = result;
  const message = conflictText(paths);
  return [{ type: "scope.conflicted", scope: scope.id, paths, message, base }];
}

/** Takes what happened to an instance's own workspace into the run. */
export function applyToScope(run: Run, event: ScopeEvent): void {
  const scope = run.scopes.get(event.scope);
  assert(scope !== undefined, () => `illegal event: there is no instance ${event.scope}`);
  switch (event.type) {
    case "scope.based":
      draft(run).unmade.delete(scope);
      noteFiles(run, scope.id, { base: event.base, snapshot: event.base, clean: true });
      return;
    case "scope.conflicted":
      assert(run.merging.has(scope), () => `illegal event: ${scope.id} is not being merged`);
      noteFiles(run, scope.id, { base: event.base, conflicts: event.paths });
      return;
    case "scope.merged":
      assert(run.merging.has(scope), () => `illegal event: ${scope.id} is not being merged`);
      noteFiles(run, scope.id, { base: event.base, conflicts: [] });
      noteMerge(run, workspaceAround(scope), event.snapshot);
      return endScope(run, scope);
    default:
      return unreachable(event);
  }
}
