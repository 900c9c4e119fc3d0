/**
 * The actions of a script (`FAKE_AGENT_SCRIPT`: a file, or the JSON itself), which the fake agent
 * carries out without a model. A resumed agent continues after the last action that is done.
 */
import * as fs from "node:fs";
import { type Json, parseJson, textAt } from "../model/json.ts";

export type Action =
  | { readonly do: "text"; readonly text: string }
  /** `recorded: false`: run and printed, but not in the transcript, as after a kill of Claude at the wrong moment. */
  | { readonly do: "shell"; readonly command: string; readonly recorded?: boolean }
  /** Waits until a file is there. */
  | { readonly do: "wait-for-file"; readonly path: string }
  /** Reports so often that the model is busy, then continues. */
  | { readonly do: "rate-limit"; readonly times?: number; readonly delayMs?: number }
  /** Gives up as after the last retry. */
  | { readonly do: "api-error"; readonly status: number; readonly message?: string }
  /** A call that is not permitted; the agent continues and reports success. */
  | { readonly do: "denied"; readonly command: string }
  /** What the replies after it cost. */
  | { readonly do: "usage"; readonly input: number; readonly output: number }
  /** A line as it is, on stdout or stderr. */
  | { readonly do: "print"; readonly line: string; readonly to?: "stdout" | "stderr" }
  /** Kills itself with SIGKILL; not again when it is resumed. */
  | { readonly do: "crash" }
  /** Ends without a last event. */
  | { readonly do: "exit"; readonly code: number }
  /** Says and does nothing more, but lives. */
  | { readonly do: "hang" };

const KINDS: readonly string[] = [
  "text",
  "shell",
  "wait-for-file",
  "rate-limit",
  "api-error",
  "denied",
  "usage",
  "print",
  "crash",
  "exit",
  "hang",
] satisfies readonly Action["do"][];

/** The actions of a script. */
export function readActions(source: string): readonly Action[] {
  const text = source.trimStart().startsWith("[") ? source : fs.readFileSync(source, "utf8");
  const value = parseJson(text);
  if (!Array.isArray(value)) throw new Error("FAKE_AGENT_SCRIPT: a list of actions");
  for (const action of value as readonly Json[]) {
    const kind = textAt(action, "do");
    if (!KINDS.includes(kind))
      throw new Error(`FAKE_AGENT_SCRIPT: do is one of ${KINDS.join(", ")}`);
  }
  return value;
}
