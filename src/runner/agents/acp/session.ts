/**
 * One prompt over the Agent Client Protocol: initialize, open the conversation, choose the model,
 * send the prompt, and wait for the end.
 *
 * Owns: the order of these requests, which of them an agent's capabilities allow, and what the
 * errors of the protocol mean.
 * Does not: hold the process (acp-main.ts), print what arrives meanwhile (updates.ts), or decide
 * whether to retry.
 * Invariants: the conversation's id is reported before the model is asked anything (runner/B3).
 */
import { readFileSync } from "node:fs";
import {
  type ClientContext,
  methods,
  PROTOCOL_VERSION,
  RequestError,
} from "@agentclientprotocol/sdk";
import type { Json } from "../../../util/json.ts";
import type { AgentFailure, AgentFailureKind } from "../adapter.ts";
import { agentFailure, agentFailureOf } from "../agent-failure.ts";
import { at, listAt, numberAt, textAt } from "../stream-json.ts";
import type { AcpCall } from "./acp.ts";

/** No longer in the protocol, but Gemini CLI still has it. */
const SET_MODEL = "session/set_model";

/** Sends a request; the answer may have any shape. */
type Ask = (method: string, params: object) => Promise<Json>;

/** A conversation that is open. */
interface OpenSession {
  readonly id: string;
  /** Whether the agent replays its history, perhaps still after the session was opened. */
  readonly replays: boolean;
  /** The model that will answer, where the agent says so. */
  readonly model: string | undefined;
  /** Sends the prompt in the call's file; returns the whole answer. */
  prompt(): Promise<Json>;
}

/** Opens the conversation of a call with an agent that has just started. */
export async function openSession(
  agent: ClientContext,
  call: AcpCall,
  onSession: (session: string) => void,
): Promise<OpenSession> {
  const ask: Ask = (method, params) => agent.request<Json>(method, params);
  const initialized = await ask(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
  });
  const version = numberAt(initialized, "protocolVersion");
  if (version !== PROTOCOL_VERSION) {
    const message = `the agent speaks version ${version} of the protocol, not ${PROTOCOL_VERSION}`;
    throw new AcpError("other", message);
  }
  const { id, offer, replays } =
    call.session === undefined
      ? await newSession(ask, call)
      : await oldSession(
          ask,
          { ...call, session: call.session },
          at(initialized, "agentCapabilities"),
        );
  onSession(id);
  if (call.model !== undefined) await chooseModel(ask, id, offer, call.model);
  if (call.permissions === "plan") await choosePlanMode(ask, id, offer);
  const model = call.model ?? currentModel(offer);
  return {
    id,
    replays,
    model,
    prompt: () => ask(methods.agent.session.prompt, promptOf(call, id)),
  };
}

/** An open conversation and the options that the agent offers in it. */
interface Opened {
  readonly id: string;
  readonly offer: Json;
  readonly replays: boolean;
}

async function newSession(ask: Ask, { cwd, mcp }: AcpCall): Promise<Opened> {
  const offer = await ask(methods.agent.session.new, { cwd, mcpServers: serversIn(mcp) });
  const id = textAt(offer, "sessionId");
  if (id === undefined) throw new AcpError("other", "the agent opened a session without an id");
  return { id, offer, replays: false };
}

/** Resumes without a replay if the agent can; otherwise the replay is ignored. */
async function oldSession(
  ask: Ask,
  { session: id, cwd, mcp }: AcpCall & { readonly session: string },
  capabilities: Json | undefined,
): Promise<Opened> {
  const { resume, load } = methods.agent.session;
  const resumes = at(capabilities, "sessionCapabilities", "resume") !== undefined;
  const loads = at(capabilities, "loadSession") === true;
  if (!resumes && !loads) {
    throw new AcpError("session-gone", "the agent cannot continue a conversation");
  }
  try {
    const params = { sessionId: id, cwd, mcpServers: serversIn(mcp) };
    return { id, offer: await ask(resumes ? resume : load, params), replays: !resumes };
  } catch (error) {
    const why = troubleBehind(error);
    // Agents word the error for a missing conversation in many ways.
    if (why?.kind === "other") throw new AcpError("session-gone", why.message);
    throw error;
  }
}

/** The model of a session; "default" names none. */
function currentModel(offer: Json): string | undefined {
  const value =
    textAt(modelOption(offer), "currentValue") ?? textAt(offer, "models", "currentModelId");
  return value === "default" ? undefined : value;
}

function modelOption(offer: Json): Json | undefined {
  return listAt(offer, "configOptions").find(
    (one) => textAt(one, "category") === "model" || textAt(one, "id") === "model",
  );
}

/** By an option of the session or, in older agents, by a request of its own. */
async function chooseModel(ask: Ask, id: string, offer: Json, model: string): Promise<void> {
  const option = modelOption(offer);
  const configId = textAt(option, "id");
  const values = listAt(option, "options").flatMap((one) => [one, ...listAt(one, "options")]);
  const choices = values.flatMap((one) => textAt(one, "value") ?? []);
  const older = listAt(offer, "models", "availableModels").flatMap(
    (one) => textAt(one, "modelId") ?? [],
  );
  if (configId !== undefined && choices.includes(model)) {
    await ask(methods.agent.session.setConfigOption, { sessionId: id, configId, value: model });
  } else if (older.includes(model)) {
    await ask(SET_MODEL, { sessionId: id, modelId: model });
  } else {
    const all = [...choices, ...older];
    const has = all.length === 0 ? "it offers no choice of models" : `it has ${all.join(", ")}`;
    throw new AcpError("other", `the agent does not offer the model "${model}": ${has}`);
  }
}

/** Agents call the mode in which they only read and plan differently; most say "plan". */
async function choosePlanMode(ask: Ask, id: string, offer: Json): Promise<void> {
  const modes = listAt(offer, "modes", "availableModes").flatMap((one) => textAt(one, "id") ?? []);
  const plan =
    modes.find((mode) => mode === "plan") ?? modes.find((mode) => /plan|read/i.test(mode));
  // Without such a mode, requests beyond reading are rejected anyway.
  if (plan !== undefined) await ask(methods.agent.session.setMode, { sessionId: id, modeId: plan });
}

/** MCP servers in the words of the protocol. */
function serversIn(mcp: AcpCall["mcp"] = {}): readonly object[] {
  const pairs = (values: Readonly<Record<string, string>>): readonly object[] =>
    Object.entries(values).map(([name, value]) => ({ name, value }));
  return Object.entries(mcp).map(([name, server]) =>
    "url" in server
      ? { type: server.type, name, url: server.url, headers: pairs(server.headers) }
      : { name, command: server.command, args: server.args, env: pairs(server.env) },
  );
}

function promptOf({ system, promptFile }: AcpCall, sessionId: string): object {
  const texts = [...(system === undefined ? [] : [system]), readFileSync(promptFile, "utf8")];
  return { sessionId, prompt: texts.map((text) => ({ type: "text", text })) };
}

const AUTH_REQUIRED = -32_000;

/** A failure that ends the conversation; the last line of the stream contains it. */
export class AcpError extends Error {
  readonly trouble: AgentFailure;

  constructor(kind: AgentFailureKind, message: string) {
    super(message);
    this.trouble = agentFailure(kind, message);
  }
}

/** The failure that an error reports; undefined for any other error. */
export function troubleBehind(error: unknown): AgentFailure | undefined {
  if (error instanceof AcpError) return error.trouble;
  if (!(error instanceof RequestError)) return undefined;
  const { code } = error;
  const message = [error.message, detailsIn(error.data as Json | undefined)]
    .filter((text, index, texts) => text !== "" && texts.indexOf(text) === index)
    .join(": ");
  if (code === AUTH_REQUIRED) return agentFailure("auth", message);
  // Some agents pass the status of the model's service on as the code.
  return agentFailureOf({ message, status: code >= 400 && code < 600 ? code : undefined });
}

/** The details that an agent adds to its error, in one of the fields that agents use. */
function detailsIn(data: Json | undefined): string {
  if (typeof data === "string") return data;
  return textAt(data, "details") ?? textAt(data, "message") ?? textAt(data, "error") ?? "";
}
