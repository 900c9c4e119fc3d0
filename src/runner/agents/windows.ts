/**
 * How many tokens fit into one call of a model, by the beginning of its name. This is a table with
 * a date: as of November 2026. Those of Claude are what Claude Code 2.1.325 says of them, the
 * others are as published. Codex tells its own, smaller ones, and what an agent tells goes first.
 *
 * Owns: the windows, and what of a model's name is the model.
 * Does not: guess; a name that begins like none of these has no window.
 */

const MILLION = 1_000_000;
/** The name of a variant of Claude with a longer window ends with this. */
const LONG_VARIANT = "[1m]";

/** The longest beginning that fits is the one that counts. */
const WINDOWS: readonly (readonly [beginning: string, tokens: number])[] = [
  ["claude-mythos-5", MILLION],
  ["claude-fable-5", MILLION],
  ["claude-opus-5", MILLION],
  ["claude-opus-4-8", MILLION],
  ["claude-opus-4-7", MILLION],
  ["claude-sonnet-5", MILLION],
  ["claude-haiku-5", MILLION],
  ["claude-", 200_000],
  ["gpt-5", 400_000],
  ["o4-mini", 200_000],
  ["o3", 200_000],
  ["gemini-3", 1_048_576],
  ["gemini-2.5", 1_048_576],
];

/** The context window of a model, input and output together; undefined where it is not known. */
export function windowOf(model: string | undefined): number | undefined {
  if (model === undefined) return undefined;
  if (model.startsWith("claude-") && model.endsWith(LONG_VARIANT)) return MILLION;
  const name = plainModel(model);
  const fitting = WINDOWS.filter(([beginning]) => name.startsWith(beginning));
  return fitting.toSorted(([one], [other]) => other.length - one.length)[0]?.[1];
}

/**
 * A model's name without its provider, its date and the mark of its variant: what tables go by.
 * Clouds have names of their own: `us.anthropic.claude-x-20250929-v1:0`, `claude-x@20250929`.
 */
export function plainModel(model: string): string {
  return model
    .replace(LONG_VARIANT, "")
    .replace(/^.*\//, "")
    .replace(/^.*\banthropic\./, "")
    .replace(/-v\d+(:\d+)?$/, "")
    .replace(/[-@]\d{8}$/, "");
}
