/**
 * What an agent is answered when it asks whether it may.
 *
 * Owns: which kinds of tools a step's `permissions` allow.
 * Does not: see to it that the agent asks; that is a matter of its own configuration.
 * Invariants: G4. Only ever once: what is allowed always outlives the step that allowed it.
 */
import type { Json } from "../../util/json.ts";
import type { Permissions } from "./adapter.ts";
import { listAt, textAt } from "./stream-json.ts";

const ALLOWED: Readonly<Record<Permissions, (kind: string) => boolean>> = {
  default: () => false,
  edit: (kind) => ["read", "search", "think", "edit", "move"].includes(kind),
  all: () => true,
};

/** The answer to a request, and whether it allows what was asked. */
export interface PermissionAnswer {
  readonly allowed: boolean;
  readonly outcome:
    | { readonly outcome: "selected"; readonly optionId: string }
    | { readonly outcome: "cancelled" };
}

/** Answers a request of a tool of this kind. */
export function answerPermission(
  permissions: Permissions,
  kind: string,
  request: Json,
): PermissionAnswer {
  const once = optionOf(request, "allow_once");
  const allowed = once !== undefined && ALLOWED[permissions](kind);
  const optionId = allowed ? once : optionOf(request, "reject_once");
  if (optionId === undefined) return { allowed: false, outcome: { outcome: "cancelled" } };
  return { allowed, outcome: { outcome: "selected", optionId } };
}

function optionOf(request: Json, kind: string): string | undefined {
  const options = listAt(request, "options");
  return textAt(
    options.find((option) => textAt(option, "kind") === kind),
    "optionId",
  );
}
