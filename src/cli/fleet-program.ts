/**
 * The fleet as a program of its own in `dist`, with PostgreSQL; only commands of a fleet load it.
 *
 * Owns: loading it, and turning its results into values or refusals.
 */
import { loadFleet as load } from "../app/fleet/fleet-program.ts";
import { Refusal } from "../app/refusal.ts";
import type * as fleet from "../fleet/main.ts";

/** Loads the program. */
export function loadFleet(): typeof fleet {
  return load<typeof fleet>();
}

/** The value of a result; throws its refusal. */
export function resultOf<T>(result: fleet.FleetResult<T>): T {
  if (result.ok) return result.value;
  const { code, message, next } = result.refusal;
  throw new Refusal(code, message, next);
}
