/** Throws when our own code broke a rule; the journal is valid at every instant, so dying is safe. */
export function assert(
  condition: unknown,
  /** A function where the text has to be built: it is called only if the condition fails. */
  message: string | (() => string),
): asserts condition {
  if (!condition) throw new AssertionError(typeof message === "string" ? message : message());
}

/** Marks code that the types say cannot be reached. */
export function unreachable(value: never): never {
  throw new AssertionError(`unreachable: ${JSON.stringify(value)}`);
}

/** A bug in Perdure, as opposed to anything that can happen to it. */
export class AssertionError extends Error {
  override readonly name = "AssertionError";
}
