/** Texts that a command prints or writes into a file: which format, and where to. */
import { writeFileSync } from "node:fs";
import { extname } from "node:path";
import { advice, Refusal } from "../app/refusal.ts";
import { masked } from "../app/secret-mask.ts";
import { print } from "./print.ts";

export interface DocumentOptions {
  readonly format?: string;
  /** The file to write; without it the text is printed. */
  readonly output?: string;
}

/** The endings of files, without the dot, by format; the first format is the default. */
export type Formats<F extends string> = Readonly<Record<F, readonly string[]>>;

/** The format that was asked for, by name or by the ending of the file. */
export function formatOf<F extends string>(formats: Formats<F>, options: DocumentOptions): F {
  const names = Object.keys(formats) as F[];
  const { format, output } = options;
  if (format !== undefined) {
    const named = names.find((name) => name === format);
    if (named !== undefined) return named;
    throw new Refusal("bad-option", `--format takes one of ${names.join(", ")}, not "${format}"`);
  }
  if (output === undefined) return names[0] as F;
  const ending = extname(output).slice(1).toLowerCase();
  const meant = names.find((name) => formats[name].includes(ending));
  if (meant !== undefined) return meant;
  const message = `${output}: its extension names no format`;
  throw new Refusal("bad-option", message, advice(`add --format ${names.join("|")}`));
}

/** Prints a text, or writes it into a file and says so. */
export function deliver(text: string, { output }: DocumentOptions): void {
  if (output === undefined) {
    print(text.trimEnd());
    return;
  }
  try {
    writeFileSync(output, masked(text));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Refusal("cannot-write", `${output} cannot be written (${code ?? String(error)})`);
  }
  print(`Wrote ${output}`);
}
