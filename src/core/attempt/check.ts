/**
 * What the checks of a step found, as events and facts hold it.
 *
 * Owns: the two fields that hold it, and which of the findings count.
 * Does not: run checks (room `engine`).
 */
import type { CheckEvidence } from "../event-parts.ts";

/** The findings of one attempt; both are absent when nothing was checked. */
export interface CheckFindings {
  /** The only finding; of several, the first that did not pass, else the first. */
  readonly check?: CheckEvidence;
  /** All findings in their order, where there are several. */
  readonly checks?: readonly CheckEvidence[];
}

/** All findings in their order. */
export function checksFound({ check, checks }: CheckFindings): readonly CheckEvidence[] {
  return checks ?? (check === undefined ? [] : [check]);
}

/** The fields that hold these findings. */
export function findings(all: readonly CheckEvidence[]): CheckFindings {
  const check = all.find(fails) ?? all.find(warns) ?? all[0];
  if (check === undefined) return {};
  return all.length === 1 ? { check } : { check, checks: all };
}

/** The findings among the fields of an event or a fact, without what is not there. */
export function findingsIn({ check, checks }: CheckFindings): CheckFindings {
  return { ...(check === undefined ? {} : { check }), ...(checks === undefined ? {} : { checks }) };
}

/** True when the check did not pass, and its attempt has failed by that. */
export function fails({ exit, onFail }: CheckEvidence): boolean {
  return exit !== 0 && onFail !== "warn";
}

/** True when the check did not pass, and its author only wants to know. */
export function warns({ exit, onFail }: CheckEvidence): boolean {
  return exit !== 0 && onFail === "warn";
}

/** True when a check did not pass after which its author wants no other attempt. */
export function failsForGood(found: CheckFindings): boolean {
  return checksFound(found).some((check) => fails(check) && check.onFail === "fail");
}
