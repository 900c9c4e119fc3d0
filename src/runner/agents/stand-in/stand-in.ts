/**
 * The stand-in: an agent without a model, which is part of Perdure. It lets people try a pipeline
 * before they pay for it: it writes the outputs that its step declares and answers as its step
 * asks.
 *
 * Owns: how it is started, and where it keeps its conversations.
 * Does not: act (stand-in-main.ts is its program), or read its lines: it prints those of our client
 * of the Agent Client Protocol (acp/acp.ts).
 */
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { STAND_IN_AGENT } from "../../../util/agent-access.ts";
import { defined } from "../../../util/defined.ts";
import type { Json } from "../../../util/json.ts";
import { AcpReader } from "../acp/acp.ts";
import type { AgentAdapter, AgentCall } from "../adapter.ts";
import { folderIn, homeIn, isPlainId } from "../agent-home.ts";

const CALL_FILE = "stand-in-call.json";
/** Beside this file, built or not. */
const MAIN = join(import.meta.dirname, `stand-in-main${extname(import.meta.filename)}`);

/** One invocation, as stand-in-main.ts finds it in a file of the attempt's folder. */
export interface StandInCall {
  readonly session: string;
  readonly transcript: string;
  readonly promptFile: string;
  readonly outputSchema?: Json;
}

/** The stand-in. */
export const standIn: AgentAdapter = {
  name: STAND_IN_AGENT,
  continues: true,
  enforces: { maxTurns: true, outputSchema: true },
  newSession: () => randomUUID(),
  transcript: (session, { env }) => {
    const file = transcriptOf(session, env);
    return isPlainId(session) && existsSync(file) ? file : undefined;
  },
  transcriptTarget: (transcript, { env }) => ({
    path: transcriptOf(basename(transcript, ".jsonl"), env),
    beside: {},
  }),
  command: ({ session = randomUUID(), dir, env, promptFile, outputSchema }) => {
    const call: StandInCall = {
      ...{ session, promptFile, transcript: transcriptOf(session, env) },
      ...defined({ outputSchema }),
    };
    return {
      argv: [process.execPath, MAIN, join(dir, CALL_FILE)],
      env: {},
      files: { [CALL_FILE]: JSON.stringify(call) },
    };
  },
  reader: () => new AcpReader(),
  isFree: true,
};

function transcriptOf(session: string, env: AgentCall["env"]): string {
  const state = folderIn(env, "XDG_STATE_HOME") ?? join(homeIn(env), ".local", "state");
  return join(state, "perdure", "stand-in", `${session}.jsonl`);
}
