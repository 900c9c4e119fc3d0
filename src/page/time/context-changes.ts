/** What changed from one context of a run to another. */
import type { Doc } from "../api.ts";

type Context = Doc<"moment">["context"];

/** One key of the context that changed. */
export interface ContextChange {
  readonly key: string;
  readonly kind: "added" | "changed" | "removed";
  readonly before: Context[string] | undefined;
  readonly after: Context[string] | undefined;
}

/** What changed from one context to another, by key. */
export function contextChanges(before: Context, after: Context): readonly ContextChange[] {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted();
  return keys.flatMap((key): readonly ContextChange[] => {
    const [hadIt, hasIt] = [Object.hasOwn(before, key), Object.hasOwn(after, key)];
    if (hadIt && hasIt && JSON.stringify(before[key]) === JSON.stringify(after[key])) return [];
    const kind = hadIt ? (hasIt ? "changed" : "removed") : "added";
    return [{ key, kind, before: before[key], after: after[key] }];
  });
}
