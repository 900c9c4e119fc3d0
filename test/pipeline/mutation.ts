/** Texts that somebody has damaged: for fuzzing what reads them. */
import fc from "fast-check";

/** Good texts after some changes: a part is replaced by a piece, a random text, or another part. */
export function damaged(
  texts: readonly string[],
  pieces: readonly string[],
  changesMax: number,
): fc.Arbitrary<string> {
  const change = fc.record({
    at: fc.nat(),
    length: fc.oneof(fc.constant(0), fc.nat(3), fc.nat(200)),
    put: fc.oneof(
      fc.constantFrom("", ...pieces),
      fc.string({ unit: "binary", maxLength: 8 }),
      fc.record({ from: fc.nat(), size: fc.nat(120) }),
    ),
  });
  return fc
    .tuple(fc.constantFrom(...texts), fc.array(change, { minLength: 1, maxLength: changesMax }))
    .map(([text, changes]) =>
      changes.reduce((current, { at, length, put }) => {
        const start = at % (current.length + 1);
        const from = typeof put === "string" ? 0 : put.from % (current.length + 1);
        const piece = typeof put === "string" ? put : current.slice(from, from + put.size);
        return current.slice(0, start) + piece + current.slice(start + length);
      }, text),
    );
}
