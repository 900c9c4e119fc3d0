/** Reads scripts that were written as JSON, and says where they are wrong. */
import { at, type Json, listAt, textAt } from "./json.ts";
import type { Script } from "./reply.ts";

/** Thrown for JSON that is no script. */
export class ScriptError extends Error {}

const MOVES: Readonly<Record<string, readonly string[]>> = {
  text: ["text"],
  shell: ["command"],
  write: ["path", "content"],
  tool: ["name"],
};
const FAULTS = ["stall", "cut", "refuse", "quota", "overflow"];
const PLACES = ["accept", "start", "middle", "end"];

/** The scripts in a value: one script, or a list of them. */
export function readScripts(value: Json | undefined): readonly Script[] {
  const scripts = Array.isArray(value) ? (value as readonly Json[]) : [value ?? null];
  scripts.forEach((script, index) => {
    const where = `script ${index + 1}`;
    const mode = textAt(script, "mode");
    check(mode === "queue" || mode === "stateless", `${where}: mode is queue or stateless`);
    const replies = listAt(script, "replies");
    check(replies.length > 0, `${where}: replies is a list of at least one`);
    replies.forEach((reply, at) => {
      checkReply(reply, `${where}, reply ${at + 1}`);
    });
  });
  return scripts as unknown as readonly Script[];
}

function checkReply(reply: Json, where: string): void {
  check(Array.isArray(at(reply, "moves")), `${where}: moves is a list`);
  for (const move of listAt(reply, "moves")) {
    const fields = MOVES[textAt(move, "type")];
    const types = Object.keys(MOVES).join(", ");
    check(fields !== undefined, `${where}: the type of a move is one of ${types}`);
    for (const field of fields ?? []) {
      check(typeof at(move, field) === "string", `${where}: ${field} is a text`);
    }
  }
  const fault = at(reply, "fault");
  if (fault === undefined) return;
  const type = textAt(fault, "type");
  check(FAULTS.includes(type), `${where}: the type of a fault is one of ${FAULTS.join(", ")}`);
  if (type === "refuse") check(typeof at(fault, "status") === "number", `${where}: status`);
  if (type !== "stall" && type !== "cut") return;
  check(PLACES.includes(textAt(fault, "at")), `${where}: at is one of ${PLACES.join(", ")}`);
}

function check(holds: boolean, message: string): void {
  if (!holds) throw new ScriptError(message);
}
