/**
/**
 * Writing to stdout and stderr; a reader that went away is no reason to stop a run.
 *
 * Owns: that no secret is shown, whoever prints it: what the environment holds under the name of a
 * secret, what the loaded runs declare as one (`hideSecrets`), and what they only have marks of
 * (`hideMarked`); and that nothing of what a step or a file of its said makes a terminal do something.
 */
import { type Redact, redactJson, redactorOf, secretsIn } from "../util/redact.ts";
import { isMarked, markedRedactor, type SecretMarks } from "../util/secret-mark.ts";
import { terminalText } from "../view/display-text.ts";

let closed = false;
const secrets = new Set<string>();
/** The marks whose values are not known here, by their salts. */
const marked = new Map<string, SecretMarks>();
let redact: Redact | undefined;

/**
 * Call once: without a listener a closed pipe or terminal, or a log on a full disk, would end the
 * process.
 */
export function surviveClosedOutput(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (!closed && error.code !== "EPIPE" && error.code !== "EIO") {
      printError(`warning: what follows cannot be printed: ${error.message}`);
    }
    closed = true;
  });
  process.stderr.on("error", () => undefined);
}

/** True when nobody reads stdout any more; who only shows something may then leave. */
export function isOutputClosed(): boolean {
  return closed;
}

/** From here on this process shows none of these values. */
export function hideSecrets(values: readonly string[]): void {
  const before = secrets.size;
  for (const value of values) secrets.add(value);
  if (secrets.size > before) redact = undefined;
}

/** From here on this process shows nothing that these marks recognise. */
export function hideMarked(sets: readonly SecretMarks[]): void {
  for (const set of sets) {
    if (marked.has(set.salt)) continue;
    const unknown = Object.entries(set.marks).filter(([name, marks]) => {
      const value = process.env[name];
      if (marks.length === 0) return false;
      if (value === undefined || !isMarked(set, name, value)) return true;
      hideSecrets([value]);
      return false;
    });
    marked.set(set.salt, { salt: set.salt, marks: Object.fromEntries(unknown) });
    redact = undefined;
  }
}

/** True when secrets are masked that only their marks are known of. */
export function hidesMarked(): boolean {
  return [...marked.values()].some(({ marks }) => Object.keys(marks).length > 0);
}

/** A text as it may be shown. */
export function masked(text: string): string {
  redact ??= redactor();
  return redact(text);
}

function redactor(): Redact {
  const known = redactorOf([...secretsIn(process.env).values(), ...secrets]);
  const unknown = markedRedactor([...marked.values()]);
  return (text) => unknown(known(text));
}

/** A value as it may be shown. */
export function maskedJson<T>(value: T): T {
  return redactJson(masked, value);
}

/** One line on stdout. */
export function print(line: string): void {
  printText(`${line}\n`);
}

/** A text of whole lines on stdout. */
export function printText(text: string): void {
  const shown = masked(text);
  process.stdout.write(process.stdout.isTTY ? terminalText(shown) : shown);
}

/** A value as JSON on stdout; on one line for a stream of them. */
export function printJson(value: unknown, layout: "lines" | "one-line" = "lines"): void {
  const space = layout === "lines" ? 2 : undefined;
  process.stdout.write(`${JSON.stringify(maskedJson(value), null, space)}\n`);
}

/** One line on stderr. */
export function printError(line: string): void {
  const shown = masked(line);
  process.stderr.write(`${process.stderr.isTTY ? terminalText(shown) : shown}\n`);
}

/** Resolves when all that was said has been written, or cannot be. */
export async function printed(): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise<void>((done) => stream.write("", () => done()));
  }
}
