/**
 * Any agent that speaks the Agent Client Protocol. The protocol needs a client at the other end of
 * its pipes, and a step outlives its runner, so the process of the step is that client
 * (acp-main.ts). It starts the author's command and prints the conversation as lines.
 *
 * Owns: how the client is started.
 * Does not: speak the protocol (session.ts) or read the lines (stream.ts).
 * Invariants: runner/G4. A request of the agent is rejected unless the author permitted it.
 */

import { extname, join } from "node:path";
import { defined } from "../../../util/defined.ts";
import { quote } from "../../../util/shell.ts";
import type { AgentAdapter, AgentCall, AgentCommand } from "../adapter.ts";
import { type AcpCall, AcpReader } from "./stream.ts";

const CALL_FILE = "acp-call.json";
/** Beside this file, built or not. */
const MAIN = join(import.meta.dirname, `acp-main${extname(import.meta.filename)}`);

/** An agent behind the Agent Client Protocol. */
export const acp: AgentAdapter = {
  name: "acp",
  continues: true,
  needsCommand: true,
  takes: { maxTurns: false, outputSchema: false },
  newSession: () => undefined,
  // Only the agent knows where it keeps the conversation, and whether it still has it.
  transcript: (session) => session,
  command,
  reader: () => new AcpReader(),
};

function command(call: AgentCall): AgentCommand {
  const { session, model, system, cwd, promptFile, permissions, allow, deny, mcp } = call;
  const words: AcpCall = {
    command: [call.command ?? "", ...call.args.map(quote)].join(" "),
    cwd,
    promptFile,
    ...(call.kind === "start" || session === undefined ? {} : { session }),
    ...defined({ model, system }),
    permissions,
    ...defined({ allow, deny, mcp }),
  };
  return {
    argv: [process.execPath, MAIN, join(call.dir, CALL_FILE)],
    env: {},
    files: { [CALL_FILE]: JSON.stringify(words) },
  };
}
