/**
 * A fake agent that speaks the Agent Client Protocol: `node fake-acp.ts` on a pair of pipes. It does
 * what $FAKE_ACP_SCRIPT says (a JSON list of actions), and writes each action that it has done into
 * a transcript, so that a continued conversation starts after them.
 *
 * Owns: the agent's side of the protocol, its transcripts in $FAKE_ACP_HOME. $FAKE_ACP_CONTINUES
 * says how it continues: `resume`, `load` (which replays, and continues that after its answer, as
 * Gemini CLI does), or `never`. With $FAKE_ACP_SIGTERM=dies it dies of the signal.
 * Does not: ask a model.
 */
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type AgentContext,
  agent,
  methods,
  ndJsonStream,
  RequestError,
  type SessionUpdate,
  type StopReason,
  type ToolCallUpdate,
  type ToolKind,
} from "@agentclientprotocol/sdk";

/** What it does, one after the other. */
export type AcpAction =
  | { readonly do: "text" | "thought"; readonly text: string }
  | {
      readonly do: "shell";
      readonly command: string;
      readonly kind?: ToolKind;
      /** Whether it asks for permission first. */
      readonly asks?: boolean;
    }
  | { readonly do: "wait-for-file"; readonly path: string }
  | { readonly do: "cost"; readonly usd: number }
  | { readonly do: "error"; readonly code: number; readonly message: string }
  | { readonly do: "exit"; readonly status: number; readonly stderr: string }
  | { readonly do: "close-output" }
  /** Ignores everything from now on. */
  | { readonly do: "hang" }
  | { readonly do: "stop"; readonly reason: StopReason };

const LOOK_MS = 5;
const MODELS = ["small", "large"];
const home = process.env.FAKE_ACP_HOME ?? ".";
const continues = process.env.FAKE_ACP_CONTINUES ?? "resume";
const actions = JSON.parse(process.env.FAKE_ACP_SCRIPT ?? "[]") as readonly AcpAction[];

let model = "small";
let cancelled = false;
let answers = 0;

const transcriptOf = (session: string): string => join(home, `${session}.jsonl`);

function record(session: string, what: object): void {
  fs.appendFileSync(transcriptOf(session), `${JSON.stringify(what)}\n`);
}

/** How many actions of a conversation are done. */
function doneIn(session: string): number {
  return fs.readFileSync(transcriptOf(session), "utf8").split('{"done":').length - 1;
}

function tell(client: AgentContext, sessionId: string, update: SessionUpdate): Promise<void> {
  return client.notify(methods.client.session.update, { sessionId, update });
}

function options(): object {
  const choices = MODELS.map((value) => ({ value, name: value }));
  const option = { id: "model", name: "Model", category: "model", type: "select" };
  return { configOptions: [{ ...option, currentValue: model, options: choices }] };
}

/** Does one action; a reason to stop ends the prompt. */
async function act(
  client: AgentContext,
  session: string,
  action: AcpAction,
): Promise<StopReason | undefined> {
  switch (action.do) {
    case "text":
    case "thought": {
      answers++;
      const kind = action.do === "text" ? "agent_message_chunk" : "agent_thought_chunk";
      for (const text of action.text.match(/.{1,4}/gs) ?? []) {
        const content = { type: "text" as const, text };
        await tell(client, session, { sessionUpdate: kind, content });
      }
      return undefined;
    }
    case "shell":
      answers++;
      await shell(client, session, action);
      return undefined;
    case "wait-for-file":
      while (!fs.existsSync(action.path) && !cancelled) await sleep(LOOK_MS);
      return undefined;
    case "cost": {
      const cost = { amount: action.usd, currency: "USD" };
      await tell(client, session, { sessionUpdate: "usage_update", used: 1, size: 2, cost });
      return undefined;
    }
    case "error":
      throw new RequestError(action.code, action.message);
    case "exit":
      process.stderr.write(`${action.stderr}\n`);
      process.exit(action.status);
      return undefined;
    case "close-output":
      fs.closeSync(1);
      await sleep(3_600_000);
      return undefined;
    case "hang":
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      return undefined;
    case "stop":
      return action.reason;
  }
}

async function shell(
  client: AgentContext,
  session: string,
  { command, kind = "execute", asks = false }: Extract<AcpAction, { do: "shell" }>,
): Promise<void> {
  const call = { toolCallId: randomUUID(), title: "bash", kind };
  await tell(client, session, { sessionUpdate: "tool_call", ...call, status: "pending" });
  const known = { ...call, title: command, rawInput: { command } };
  if (asks && !(await permitted(client, session, known))) {
    const failed = { ...known, status: "failed" as const };
    return tell(client, session, { sessionUpdate: "tool_call_update", ...failed });
  }
  const begun = { ...known, status: "in_progress" as const };
  await tell(client, session, { sessionUpdate: "tool_call_update", ...begun });
  const { status } = spawnSync("/bin/sh", ["-c", command]);
  const ended = { ...known, status: status === 0 ? ("completed" as const) : ("failed" as const) };
  await tell(client, session, { sessionUpdate: "tool_call_update", ...ended });
}

async function permitted(
  client: AgentContext,
  sessionId: string,
  toolCall: ToolCallUpdate,
): Promise<boolean> {
  const { outcome } = await client.request(methods.client.session.requestPermission, {
    sessionId,
    toolCall,
    options: [
      { optionId: "always", name: "Always", kind: "allow_always" },
      { optionId: "yes", name: "Yes", kind: "allow_once" },
      { optionId: "no", name: "No", kind: "reject_once" },
    ],
  });
  return outcome.outcome === "selected" && outcome.optionId === "yes";
}

/** Replays the history; the last of it after the session was opened. */
function replay(client: AgentContext, session: string): void {
  const reported = actions.slice(0, doneIn(session));
  setTimeout(() => {
    for (const action of reported) {
      const content = { type: "text" as const, text: `replayed ${action.do}\n` };
      void tell(client, session, { sessionUpdate: "agent_message_chunk", content });
    }
  }, LOOK_MS);
}

function found(session: string): void {
  if (fs.existsSync(transcriptOf(session))) return;
  throw new RequestError(-32_603, "Internal error", { details: "there is no such thing" });
}

const { initialize, session: sessions } = methods.agent;
agent()
  .onRequest(initialize, () => ({
    protocolVersion: 1,
    agentCapabilities: {
      loadSession: continues !== "never",
      sessionCapabilities: continues === "resume" ? { resume: {} } : {},
    },
  }))
  .onRequest(sessions.new, () => {
    const sessionId = randomUUID();
    fs.mkdirSync(home, { recursive: true });
    record(sessionId, { began: true });
    return { sessionId, ...options() };
  })
  .onRequest(sessions.resume, ({ params }) => {
    found(params.sessionId);
    return options();
  })
  .onRequest(sessions.load, ({ params, client }) => {
    found(params.sessionId);
    replay(client, params.sessionId);
    return options();
  })
  .onRequest(sessions.setConfigOption, ({ params }) => {
    model = String(params.value);
    return { configOptions: [] };
  })
  .onRequest(sessions.prompt, async ({ params: { sessionId, prompt }, client }) => {
    record(sessionId, { prompt, model });
    for (const [index, action] of actions.entries()) {
      if (index < doneIn(sessionId)) continue;
      const reason = await act(client, sessionId, action);
      if (cancelled) return { stopReason: "cancelled" };
      if (reason !== undefined) return { stopReason: reason };
      record(sessionId, { done: index });
    }
    const usage = {
      ...{ totalTokens: 120 * answers, inputTokens: 60 * answers, cachedReadTokens: 40 * answers },
      outputTokens: 20 * answers,
    };
    return { stopReason: "end_turn", usage };
  })
  .onNotification(sessions.cancel, () => {
    cancelled = true;
  })
  .connect(
    ndJsonStream(
      Writable.toWeb(process.stdout) as WritableStream<Uint8Array>,
      Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>,
    ),
  );
// A runner signals the whole group; some agents leave the reaction to the client.
if (process.env.FAKE_ACP_SIGTERM !== "dies") process.on("SIGTERM", () => undefined);
process.stdin.on("close", () => process.exit(0));
