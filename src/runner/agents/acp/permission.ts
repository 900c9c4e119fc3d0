/**
 * The answer to an agent that asks for a permission.
 *
 * Owns: which kinds of tools a step's `permissions` allow, and which its `tools`.
 * Does not: make the agent ask; its own configuration does.
 * Invariants: G4. A call is only ever allowed once: what is allowed for good outlives the step.
 */

import { matchesPattern, type PermissionLevel, toolRule } from "../../../util/agent-access.ts";
import type { Json } from "../../../util/json.ts";
import { listAt, textAt } from "../stream-json.ts";

const ALLOWED: Readonly<Record<PermissionLevel, (kind: string) => boolean>> = {
  default: () => false,
  plan: (kind) => ["read", "search", "think"].includes(kind),
  edit: (kind) => ["read", "search", "think", "edit", "move"].includes(kind),
  all: () => true,
};

/** A call for which an agent asks, as far as it says what it is. */
export interface RequestedCall {
  readonly kind: string;
  readonly name: string;
  readonly title: string;
  readonly input: string;
}

/** What the step allows. */
interface Allowance {
  readonly permissions: PermissionLevel;
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
}

/** The answer to a request, and whether it allows what was asked. */
interface PermissionAnswer {
  readonly allowed: boolean;
  readonly outcome:
    | { readonly outcome: "selected"; readonly optionId: string }
    | { readonly outcome: "cancelled" };
}

/** Answers a request for a call. */
export function answerPermission(
  { permissions, allow = [], deny = [] }: Allowance,
  call: RequestedCall,
  request: Json,
): PermissionAnswer {
  const once = optionOf(request, "allow_once");
  const named = (rules: readonly string[]): boolean => rules.some((rule) => isMeant(rule, call));
  const wanted = !named(deny) && (named(allow) || ALLOWED[permissions](call.kind));
  const allowed = once !== undefined && wanted;
  const optionId = allowed ? once : optionOf(request, "reject_once");
  if (optionId === undefined) return { allowed: false, outcome: { outcome: "cancelled" } };
  return { allowed, outcome: { outcome: "selected", optionId } };
}

/** By its name or its kind, and by what it is called with or how the agent puts that. */
function isMeant(rule: string, { kind, name, title, input }: RequestedCall): boolean {
  const { name: wanted, pattern } = toolRule(rule);
  if (wanted !== name && wanted !== kind) return false;
  if (pattern === undefined) return true;
  return [input, title, title.replaceAll("`", "")].some((text) => matchesPattern(pattern, text));
}

function optionOf(request: Json, kind: string): string | undefined {
  const options = listAt(request, "options");
  return textAt(
    options.find((option) => textAt(option, "kind") === kind),
    "optionId",
  );
}
