/** Takes out of an agent's output what changes from run to run: ids, times, durations, places. */

/** A place of the run and the word that stands for it. */
export type VisitRef = readonly [path: string, word: string];

const MOMENT_MS = 1_767_225_600_000;
const MOMENT = new Date(MOMENT_MS).toISOString();
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const PREFIXED = /\b(msg|toolu|call|ses|prt|resp|req|fc|evt)_[0-9a-zA-Z]{12,}/g;
/** The ids that the fake model gives, where an agent puts a name of its own before them. */
const BARE = /(?<=__)[0-9a-f]{24}\b/g;

/** Normalises the lines of one run; the same id becomes the same word throughout. */
export function normalise(text: string, places: readonly VisitRef[]): string {
  const words = new Map<string, string>();
  const counts = new Map<string, number>();
  const wordFor = (id: string, kind: string, spell: (n: number) => string): string => {
    const known = words.get(id);
    if (known !== undefined) return known;
    const n = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, n);
    words.set(id, spell(n));
    return spell(n);
  };
  let out = text;
  for (const [path, word] of places) out = out.replaceAll(path, word);
  // Claude names a folder after the directory that it works in.
  for (const [path, word] of places) {
    out = out.replaceAll(path.replaceAll(/[^a-zA-Z0-9]/g, "-"), word.replaceAll("/", "-"));
  }
  return out
    .replaceAll(UUID, (id) =>
      wordFor(id, "uuid", (n) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`),
    )
    .replaceAll(PREFIXED, (id, kind: string) =>
      wordFor(id, kind, (n) => `${kind}_${String(n).padStart(24, "0")}`),
    )
    .replaceAll(BARE, (id) => wordFor(id, "bare", (n) => String(n).padStart(24, "0")))
    .replaceAll(/\b\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d[.-]\d+Z/g, MOMENT)
    .replaceAll(/(?<=[:[ ])1[6-9]\d{11}\b/g, String(MOMENT_MS))
    .replaceAll(/("(?:duration\w*|(?!retry_delay)\w+_ms)":)\d+(?:\.\d+)?/g, "$11")
    .replaceAll(/\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/g, new Date(MOMENT_MS).toUTCString())
    .replaceAll(/\d+(?=\.sock\b)/g, "4711")
    .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:8199")
    .replaceAll(/(Process Group PGID: |"pid":)\d+/g, "$14711");
}
