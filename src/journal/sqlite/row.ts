/** Reads the columns of rows that SQLite returns; a column of the wrong type is damage. */
import type { SQLOutputValue } from "node:sqlite";
import { JournalError } from "../journal-error.ts";

/** One row, by the names of its columns. */
export type Row = Readonly<Record<string, SQLOutputValue>>;

/** The text in a column. Throws "broken". */
export function textIn(row: Row, column: string): string {
  const value = row[column];
  if (typeof value === "string") return value;
  throw wrongKind(column, "text");
}

/** The integer in a column. Throws "broken". */
export function integerIn(row: Row, column: string): number {
  const value = row[column];
  if (Number.isSafeInteger(value)) return value as number;
  throw wrongKind(column, "integer");
}

/** The text in a column, or undefined when it is empty. Throws "broken". */
export function optionalTextIn(row: Row, column: string): string | undefined {
  return row[column] === null ? undefined : textIn(row, column);
}

/** The text in a column, which must be one of these words. Throws "broken". */
export function wordIn<W extends string>(row: Row, column: string, words: readonly W[]): W {
  const value = textIn(row, column);
  const word = words.find((candidate) => candidate === value);
  if (word !== undefined) return word;
  throw new JournalError("broken", `The journal is damaged: ${column} holds "${value}".`);
}

/** The milliseconds of an ISO-8601 text in a column. Throws "broken". */
export function timeIn(row: Row, column: string): number {
  const time = Date.parse(textIn(row, column));
  if (Number.isFinite(time)) return time;
  throw wrongKind(column, "time");
}

/** The milliseconds of an ISO-8601 text in a column that may be empty. Throws "broken". */
export function optionalTimeIn(row: Row, column: string): number | undefined {
  return row[column] === null ? undefined : timeIn(row, column);
}

function wrongKind(column: string, kind: string): JournalError {
  return new JournalError("broken", `The journal is damaged: ${column} holds no ${kind}.`);
}
