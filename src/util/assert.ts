/** Throws when our own code broke a rule; the journal is valid at every instant, so dying is safe. */
export function assert(
  condition: unknown,
  /** A function where the text is made up of parts: it is asked for only when it is needed. */
  message: string | (() => string),
): asserts condition {
  if (!condition) throw new AssertionError(typeof message === "string" ? message : message());
}

/** Marks a place that the types say cannot be reached. */
export function unreachable(value: never): never {
  throw new AssertionError(`unreachable: ${JSON.stringify(value)}`);
}

/** A bug of ours, told apart from everything that can happen to us. */
export class AssertionError extends Error {
  override readonly name = "AssertionError";
}
