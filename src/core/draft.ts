/**
 * How a run is opened for change: `evolve` takes it over, so that no other code holds it (C2).
 */

/** A value of the run with its readonly marks taken off. */
export type Draft<T> = {
  -readonly [K in keyof T]: T[K] extends ReadonlyMap<infer A, infer B> | undefined
    ? Map<A, B> | Extract<T[K], undefined>
    : T[K] extends ReadonlySet<infer A>
      ? Set<A>
      : T[K] extends readonly (infer A)[]
        ? A[]
        : T[K];
};

/** Opens a value for change. Only evolve.ts and the files that it calls may. */
export function draft<T extends object>(value: T): Draft<T> {
  return value as Draft<T>;
}
