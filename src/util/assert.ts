/** Throws when Perdure has a bug; the journal is valid at every instant, so ending here is safe. */
export function assert(
  condition: unknown,
  /** A function builds the text only if the condition fails. */
  message: string | (() => string),
): asserts condition {
  if (!condition) throw new AssertionError(typeof message === "string" ? message : message());
}

/** Marks code that is unreachable according to the types. */
export function unreachable(value: never): never {
  throw new AssertionError(`unreachable: ${JSON.stringify(value)}`);
}

/** A bug in Perdure, not a failure of its environment. */
export class AssertionError extends Error {
  override readonly name = "AssertionError";
}
