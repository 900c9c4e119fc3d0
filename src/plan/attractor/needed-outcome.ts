/**
 * The outcome that a stage must report for an edge of a DOT file to be followed. Simulated stages
 * report it where success alone leads nowhere.
 *
 * Owns: finding an outcome, label or context that makes a condition true.
 * Does not: choose among edges, or promise that the outcome suffices; the core tries where it leads.
 */
import {
  type ConditionClause,
  comparedWith,
  type DotCondition,
  writtenKey,
} from "../../pipeline/dot/condition.ts";
import type { NeededOutcome } from "../plan.ts";

/** The reports that make a condition true: one for each of its alternatives. */
export function outcomesFor({ anyOf }: DotCondition): readonly NeededOutcome[] {
  return anyOf.map((clauses) => clauses.reduce(withClause, {}));
}

/** The reports that choose an edge without a condition to a step. */
export function outcomesToward(next: string): readonly NeededOutcome[] {
  // Where an edge asks for success, another word is needed to be left by this one.
  return [{ next }, { outcome: "partial_success", next }];
}

function withClause(saying: NeededOutcome, clause: ConditionClause): NeededOutcome {
  const { key } = clause;
  if (key === "outcome" || key === "context.outcome") {
    const outcome = valueFor(clause, "success", "fail");
    return outcome === undefined ? saying : { ...saying, outcome };
  }
  const value = valueFor(clause, "", "other");
  if (value === undefined) return saying;
  if (key === "preferred_label" || key === "context.preferred_label") {
    return { ...saying, label: value };
  }
  return { ...saying, context: { ...saying.context, [writtenKey(key)]: value } };
}

/** A value for which a clause is true; `usual` where that will do. Undefined when none is known. */
function valueFor(clause: ConditionClause, usual: string, other: string): string | undefined {
  const literal = comparedWith(clause);
  const unlike = literal === usual ? other : usual;
  switch (clause.operator) {
    case undefined:
      return clause.negated ? "false" : "true";
    case "!=":
      return clause.negated ? literal : unlike;
    case "=":
      return clause.negated ? unlike : literal;
    case "contains":
    case "startswith":
    case "endswith":
      return clause.negated ? usual : literal;
    case "matches":
      return clause.negated ? usual : undefined;
    default:
      return String(Number(literal) + stepPast(clause));
  }
}

/** How far beside its number the value of a comparison lies. */
function stepPast({ operator, negated }: ConditionClause): number {
  const above = operator === ">" || operator === ">=";
  return above === negated ? -1 : 1;
}
