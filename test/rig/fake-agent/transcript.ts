/**
 * The conversation of the fake agent on disk: `<home>/<session>.jsonl`, only ever appended to.
 *
 * Invariant: what has been appended stays, whatever happens to the process; a last line that was
 * torn by a kill is not read.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { type Json, parseJson, textAt } from "../model/json.ts";

export interface Message {
  readonly role: "user" | "assistant";
  readonly content: readonly Json[];
}

/** What was spent, in all, by processes that ended cleanly one after the other. */
export interface Spent {
  readonly input: number;
  readonly output: number;
  readonly costUsd: number;
}

/** A line: a message, an action of the script that is done, or what a clean end had spent. */
type Line =
  | { readonly type: "user" | "assistant"; readonly message: Message }
  | { readonly type: "action"; readonly index: number }
  | { readonly type: "spent"; readonly spent: Spent };

export const NOTHING_SPENT: Spent = { input: 0, output: 0, costUsd: 0 };
const OUTCOME_UNKNOWN =
  "[Tool call interrupted: the session ended before this call's result was recorded, so its " +
  "outcome is unknown. Check whether it took effect before relying on it or running it again.]";

export class Transcript {
  readonly #file: string;

  constructor(home: string, session: string) {
    this.#file = join(home, `${session}.jsonl`);
  }

  exists(): boolean {
    return fs.existsSync(this.#file);
  }

  append(line: Line): void {
    fs.appendFileSync(this.#file, `${JSON.stringify(line)}\n`);
  }

  /** The messages, repaired as Claude Code does it: a call without a result gets one that says so. */
  resumed(): readonly Message[] {
    const messages = this.#lines().flatMap((line) => ("message" in line ? [line.message] : []));
    const last = messages.at(-1);
    const calls = last?.role === "assistant" ? last.content.filter(isCall) : [];
    const results = calls.map((call) => ({
      type: "tool_result",
      tool_use_id: textAt(call, "id"),
      content: OUTCOME_UNKNOWN,
      is_error: true,
    }));
    const mended: readonly Message[] =
      results.length === 0 ? messages : [...messages, { role: "user", content: results }];
    if (mended.at(-1)?.role !== "user") return mended;
    const silence = { type: "text", text: "No response requested." };
    return [...mended, { role: "assistant", content: [silence] }];
  }

  /** How many actions of the script are done. */
  actionsDone(): number {
    const done = this.#lines().flatMap((line) => (line.type === "action" ? [line.index + 1] : []));
    return Math.max(0, ...done);
  }

  /** What the session has spent, if its last process ended cleanly; a crash forgets it. */
  spent(): Spent {
    const last = this.#lines().at(-1);
    return last?.type === "spent" ? last.spent : NOTHING_SPENT;
  }

  #lines(): readonly Line[] {
    if (!this.exists()) return [];
    const texts = fs.readFileSync(this.#file, "utf8").split("\n");
    return texts.flatMap((text) => {
      const value = parseJson(text);
      return value === undefined ? [] : [value as unknown as Line];
    });
  }
}

function isCall(block: Json): boolean {
  return textAt(block, "type") === "tool_use";
}
