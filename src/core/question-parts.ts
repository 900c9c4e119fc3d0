/**
 * The parts of events about questions to people: the question, what it shows, and its answer.
 *
 * Owns: their fields, and the check of what is read from disk.
 * Does not: decide anything about them (attempt/gate.ts).
 */
import type { Choice, WorkOf } from "../plan/plan.ts";
import {
  type FieldsOf,
  flag,
  integer,
  listOf,
  number,
  oneOf,
  optional,
  record,
  type Shape,
  type TypeOf,
  text,
  time,
} from "./shape.ts";

export const deadline = record({ at: time, delayMs: optional(number) });
/** A moment, and its distance when it was set; a moment that the author gave has no distance. */
export type Deadline = TypeOf<typeof deadline>;

const choice: Shape<Choice> = record({
  key: text,
  label: text,
  fails: optional(flag),
  free: optional(flag),
  next: optional(text),
});
const answerText: Shape<WorkOf<"gate">["text"]> = oneOf("none", "optional", "required");

const material = record({
  name: text,
  text,
  /** How many bytes of it are left out. */
  leftOut: optional(integer),
});
/** Something that a gate shows with its question, as it was when the gate asked. */
export type Material = TypeOf<typeof material>;

export const question = {
  question: text,
  material: optional(listOf(material)),
  choices: listOf(choice),
  text: answerText,
  /** Its deadline; the distance is kept so that a clock that was set back cannot make it longer. */
  deadline: optional(deadline),
  /** The key of the choice that counts after the deadline. */
  default: optional(text),
};
/** A question to people. */
export type Question = FieldsOf<typeof question>;

export const answer = {
  /** The key of the choice; absent when there was no answer and no default. */
  choice: optional(text),
  text: optional(text),
  /** `user@host`. */
  by: text,
  from: oneOf("terminal", "command", "program", "dashboard", "timeout", "auto-approve"),
  /** When it was given, which may be before the owner reads it. */
  given: time,
};
/** The answer to a question, by whom and from where. */
export type Answer = FieldsOf<typeof answer>;
