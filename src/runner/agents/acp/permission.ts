/**
 * The answer to an agent that asks for a permission.
 *
 * Owns: which kinds of tools a step's `permissions` allow, and which its `tools`.
 * Does not: decide when the agent asks; its own configuration does.
 * Invariants: runner/G4. A call is allowed only once, because a lasting permission would outlive
 * the step.
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

/** A call for which an agent asks a permission, as the agent describes it. */
export interface RequestedCall {
  readonly kind: string;
  readonly name: string;
  readonly title: string;
  readonly input: string;
}

/** The permissions of the step. */
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
  const named = (rules: readonly string[]): boolean =>
    rules.some((rule) => ruleMatches(rule, call));
  const wanted = !named(deny) && (named(allow) || ALLOWED[permissions](call.kind));
  const allowed = once !== undefined && wanted;
  const optionId = allowed ? once : optionOf(request, "reject_once");
  if (optionId === undefined) return { allowed: false, outcome: { outcome: "cancelled" } };
  return { allowed, outcome: { outcome: "selected", optionId } };
}

/** Whether a rule matches a call: by name or kind, and by its input or title. */
function ruleMatches(rule: string, { kind, name, title, input }: RequestedCall): boolean {
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
