/** Commands that a person can copy into a shell as they stand. */

/** `perdure resume a1b2c3d4`, with every word quoted as needed. */
export function perdure(...words: readonly string[]): string {
  return ["perdure", ...words].map(shellWord).join(" ");
}

/** A word as a POSIX shell reads it: quoted only when it must be. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
