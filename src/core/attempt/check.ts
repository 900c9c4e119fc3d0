/**
 * The findings of a step's checks, as events and facts hold them.
 *
 * Owns: the two fields that hold findings, and which findings count.
 * Does not: run checks (room `engine`).
 */
import type { CheckEvidence } from "../event-parts.ts";

/** The findings of one attempt; both are absent when nothing was checked. */
export interface CheckFindings {
  /** The only finding; of several, the first one that did not pass, otherwise the first. */
  readonly check?: CheckEvidence;
  /** All findings in order, when there are several. */
  readonly checks?: readonly CheckEvidence[];
}

/** All findings in order. */
export function checksFound({ check, checks }: CheckFindings): readonly CheckEvidence[] {
  return checks ?? (check === undefined ? [] : [check]);
}

/** The fields that hold these findings. */
export function findings(all: readonly CheckEvidence[]): CheckFindings {
  const check = all.find(fails) ?? all.find(warns) ?? all[0];
  if (check === undefined) return {};
  return all.length === 1 ? { check } : { check, checks: all };
}

/** The findings among the fields of an event or a fact. */
export function findingsIn({ check, checks }: CheckFindings): CheckFindings {
  return { ...(check === undefined ? {} : { check }), ...(checks === undefined ? {} : { checks }) };
}

/** True when the check did not pass and makes its attempt fail. */
export function fails({ exit, onFail }: CheckEvidence): boolean {
  return exit !== 0 && onFail !== "warn";
}

/** True when the check did not pass and only warns. */
export function warns({ exit, onFail }: CheckEvidence): boolean {
  return exit !== 0 && onFail === "warn";
}

/** True when a check did not pass and its author allows no further attempt. */
export function failsForGood(found: CheckFindings): boolean {
  return checksFound(found).some((check) => fails(check) && check.onFail === "fail");
}
