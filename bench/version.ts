/** `perdure --version`, from the start of the process to its end. Floor: an empty `node -e 0`. */
import { compare, emptyNodeMs, type Line, PROGRAM, run, timed, timeLine } from "./measure.ts";

const ROUNDS = 30;

export async function bench(): Promise<readonly Line[]> {
  const compared = await compare(ROUNDS, {
    floor: emptyNodeMs,
    subject: () => timed(() => run([PROGRAM, "--version"], import.meta.dirname)),
  });
  return [timeLine("`perdure --version`", "`node -e 0`", compared, 1.5)];
}
