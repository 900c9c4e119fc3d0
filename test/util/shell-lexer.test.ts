import fc from "fast-check";
import { expect, it } from "vitest";
import { HOLE, lexShell } from "../../src/util/shell-lexer.ts";

const PIECES = [
  ...["'", '"', "`", "\\", "\n", " ", "\t", "#", "$", "$(", "$((", "${", "}", "(", ")", "))", "$["],
  ...["<<EOF\n", "<<'E'\n", "<<-", "<<<", "EOF\n", "E\n", ";", ";;", "&", "case x in a", " esac "],
  ...["${v#", "${v:-", "$'", "word", "in", HOLE, HOLE, HOLE],
];

it("has one spot for each hole, in any text (util/H1)", () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...PIECES), { maxLength: 40 }), (pieces) => {
      const text = pieces.join("");
      expect(lexShell(text).length).toBe(text.split(HOLE).length - 1);
    }),
    { numRuns: 20_000 },
  );
});
