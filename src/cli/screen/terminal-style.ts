/** The terminal: its width, which escapes a tone becomes, and whether a stream gets any. */
import { plainStyle, type Style, type Tone } from "../../view/text.ts";

const CODES: Readonly<Record<Tone, string>> = {
  good: "32",
  bad: "31",
  busy: "36",
  wait: "33",
  dim: "2",
  strong: "1",
};

const ansiStyle: Style = (tone, text) =>
  text === "" ? "" : `\u001b[${CODES[tone]}m${text}\u001b[0m`;

type Environment = Readonly<Record<string, string | undefined>>;

/** The style for a stream. FORCE_COLOR outweighs NO_COLOR, as in Node itself. */
export function terminalStyle(env: Environment, stream: { readonly isTTY?: boolean }): Style {
  return wantsColour(env, stream.isTTY === true) ? ansiStyle : plainStyle;
}

/** The style for stdout. */
export function stdoutStyle(): Style {
  return terminalStyle(process.env, process.stdout);
}

/** The width of the terminal on stdout; undefined where stdout is none. */
export function stdoutWidth(): number | undefined {
  const { isTTY, columns } = process.stdout;
  return isTTY && columns > 0 ? columns : undefined;
}

function wantsColour(env: Environment, isTerminal: boolean): boolean {
  const { FORCE_COLOR: force, NO_COLOR: no } = env;
  if (force !== undefined) return force !== "0" && force !== "false";
  if (no !== undefined && no !== "") return false;
  return isTerminal && env.TERM !== "dumb";
}
