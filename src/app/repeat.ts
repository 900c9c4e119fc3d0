/**
 * The yes that a repetition needs: a person names a step that must not happen twice and has happened.
 *
 * Owns: the question, and the refusal where nobody can be asked.
 * Does not: concern the steps behind it: what of them must not happen twice is asked about when the
 * run comes to it.
 */

import { type BackRequest, repeatsOf } from "./going-back.ts";
import type { KnownRun } from "./known-run.ts";
import { command, Refusal } from "./refusal.ts";
import type { Confirm } from "./screen.ts";

export interface RepeatOptions {
  readonly dryRun?: boolean;
  /** The person has agreed already. */
  readonly yes?: boolean;
}

/** The request with the person's yes, where it needs one; undefined when they do not agree. */
export async function agreedRequest(
  known: KnownRun,
  request: BackRequest,
  { dryRun, yes }: RepeatOptions,
  confirm: Confirm | undefined,
): Promise<BackRequest | undefined> {
  const repeats = repeatsOf(known, request);
  const [first] = repeats;
  if (first === undefined) return request;
  if (yes === true) return { ...request, repeat: true };
  if (dryRun === true) return request;
  const more = repeats.length === 1 ? "" : ` and ${repeats.length - 1} more`;
  const message = `${first.place}${more} happened and must not happen twice`;
  if (confirm === undefined) {
    const refusal = `${message}; nothing was changed`;
    throw new Refusal("not-confirmed", refusal, command(...commandOf(known, request), "--yes"));
  }
  const agreed = await confirm(`${message}. Let it happen again?`);
  return agreed ? { ...request, repeat: true } : undefined;
}

function commandOf({ shortId }: KnownRun, { verb, step }: BackRequest): readonly string[] {
  return verb === "from-step" ? ["resume", shortId, "--from-step", step] : [verb, shortId, step];
}
