/**
 * Regular expressions that authors write, matched in time proportional to the text. JavaScript's
 * own engine may need exponential time, so the output of a step could block Perdure.
 *
 * Owns: the accepted syntax (RE2's, and JavaScript's where both have the same meaning).
 * Does not: know the position of a pattern in a file.
 * Invariants:
 * - util/X4 The only user of re2js. No pattern of an author or a schema is matched by `RegExp`.
 *
 * The first pattern loads re2js, as the first expression loads cel-js.
 */
import { createRequire } from "node:module";

/** How many compiled patterns are kept. */
const PATTERN_CACHE_MAX = 1_000;

/** A compiled pattern. */
interface Pattern {
  /** Whether the pattern matches somewhere in the text. */
  test(text: string): boolean;
}

type ParsedPattern =
  | { readonly ok: true; readonly pattern: Pattern }
  | { readonly ok: false; readonly message: string };

/** A pattern that cannot be matched; the message says why. */
export class PatternError extends Error {
  override readonly name = "PatternError";
}

/** How an author can fix a pattern that is refused. */
export const PATTERN_HELP =
  "patterns are matched in linear time (RE2 syntax): there is no lookahead, lookbehind or " +
  "backreference, and at most 1000 repetitions; write it without them, or as several patterns";

const cache = new Map<string, ParsedPattern>();

/** Compiles a pattern; results are cached by source. */
export function parsePattern(source: string): ParsedPattern {
  const known = cache.get(source);
  if (known !== undefined) return known;
  const parsed = parse(source);
  const oldest = cache.size < PATTERN_CACHE_MAX ? undefined : cache.keys().next().value;
  if (oldest !== undefined) cache.delete(oldest);
  cache.set(source, parsed);
  return parsed;
}

/** Compiles a pattern; throws PatternError. */
export function patternOf(source: string): Pattern {
  const parsed = parsePattern(source);
  if (parsed.ok) return parsed.pattern;
  throw new PatternError(parsed.message);
}

/** `\k<name>`, which the translation to RE2 would turn into the letter k. */
const NAMED_REFERENCE = /(?<!\\)(?:\\\\)*\\k</;

function parse(source: string): ParsedPattern {
  const { RE2JS, RE2JSException } = loadEngine();
  const refusal = (why: string): ParsedPattern => ({
    ok: false,
    message: `the pattern \`${source}\` cannot be used: ${why}`,
  });
  if (NAMED_REFERENCE.test(source)) return refusal("it refers back to a group");
  try {
    return { ok: true, pattern: RE2JS.compile(RE2JS.translateRegExp(source)) };
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    return refusal(error.message.replace(/^error parsing regexp: /, ""));
  }
}

let engine: typeof import("re2js") | undefined;

function loadEngine(): typeof import("re2js") {
  engine ??= createRequire(import.meta.url)("re2js") as typeof import("re2js");
  return engine;
}
