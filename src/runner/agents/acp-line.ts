/**
 * What our client of the Agent Client Protocol prints, one JSON object per line: the vocabulary
 * between acp-main.ts, which may outlive the runner that started it, and acp-reader.ts.
 *
 * Owns: these words. A released word never changes its meaning.
 * Does not: write or read them.
 *
 * - `session`: the conversation's id; the first line, printed before anything is asked.
 * - `model`: the model that will answer, where the agent says so.
 * - `text`, `thought`: whole lines of what the agent says and thinks, where it speaks in lines.
 * - `tool-started`, `tool-ended`: a call of a tool; with its result, bounded, where there is text.
 * - `denied`: a tool's call that it asked for and that was rejected.
 * - `usage`: what the prompt used; `cost`: what the whole conversation has cost so far.
 * - `result`: the last line, why the prompt ended: the protocol's stop reason, or `error`.
 */
import type { McpServer, PermissionLevel } from "../../util/agent-access.ts";
import type { Trouble, Usage } from "./adapter.ts";

/** One line of the stream. */
export type AcpLine =
  | { readonly type: "session"; readonly id: string }
  | { readonly type: "model"; readonly model: string }
  | { readonly type: "text" | "thought"; readonly text: string }
  | {
      readonly type: "tool-started";
      readonly id: string;
      readonly name: string;
      readonly input: string;
    }
  | {
      readonly type: "tool-ended";
      readonly id: string;
      readonly ok: boolean;
      readonly result?: string;
    }
  | {
      readonly type: "denied";
      readonly tool: string;
      /** What would have allowed it, in the words of a pipeline; older clients did not say it. */
      readonly rule?: string;
    }
  | ({ readonly type: "usage" } & Usage)
  | { readonly type: "cost"; readonly totalUsd: number }
  | { readonly type: "result"; readonly stop: string; readonly trouble?: Trouble };

/** One invocation, as acp-main.ts finds it in a file of the attempt's folder. */
export interface AcpCall {
  /** Shell text: the agent's command with its arguments. */
  readonly command: string;
  readonly cwd: string;
  readonly promptFile: string;
  /** The conversation to continue; a new one if absent. */
  readonly session?: string;
  readonly model?: string;
  readonly system?: string;
  readonly permissions: PermissionLevel;
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  readonly mcp?: Readonly<Record<string, McpServer>>;
}
