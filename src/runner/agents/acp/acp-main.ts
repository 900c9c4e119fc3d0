/**
 * The client of the Agent Client Protocol that is the process of a step: `node acp-main.js
 * CALL_FILE`. It starts the agent as its child, has the conversation, prints it as lines
 * (acp.ts) to the file that is its standard output, and ends after the prompt. It works without
 * a runner.
 *
 * Owns: the agent's process, signals, the last line and the exit status.
 * Does not: know any one agent.
 * Invariants:
 * - runner/P1 it never waits for an agent that has ended or closed its output.
 * - runner/P2 it prints the result before it ends the agent; later events do not change the result.
 * - runner/P3 on a signal it asks the agent to cancel, and exits before the runner's grace period
 *   ends.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { Readable, Writable } from "node:stream";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import {
  type ClientConnection,
  client,
  methods,
  ndJsonStream,
  RequestError,
} from "@agentclientprotocol/sdk";
import type { Json } from "../../../util/json.ts";
import { at, textAt } from "../stream-json.ts";
import type { AcpCall, AcpLine } from "./acp.ts";
import { AcpError, openSession, troubleBehind } from "./session.ts";
import { AcpUpdates } from "./updates.ts";

/** How long an agent may take to open a conversation; some are fetched by their command first. */
const OPEN_MS_MAX = 300_000;
/** How long it may take to answer that it has cancelled. */
const CANCEL_MS_MAX = 4_000;
/** How long it may take to end when its input has ended, and again after SIGTERM. */
const END_MS_MAX = 2_000;
const NO_CONVERSATION =
  `the agent opened no conversation in ${OPEN_MS_MAX / 1_000} s; ` +
  "does its command speak the Agent Client Protocol?";
const SIGNAL_EXIT = 128;
const STOPS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;

type Agent = ChildProcessByStdio<Writable, Readable, null>;

/** The agent's process and its exit status. */
interface Running {
  readonly process: Agent;
  /** The exit status that a shell would report. */
  readonly exited: Promise<number>;
}

/** The state of a stop; it changes during the conversation. */
interface Stopping {
  signal?: NodeJS.Signals;
  /** The session whose prompt is being answered. */
  prompting?: string;
}

/** Has the conversation of a call; returns the exit status. */
async function converse(call: AcpCall): Promise<number> {
  const running = startAgent(call);
  const updates = new AcpUpdates(print);
  const stopping: Stopping = {};
  const connection = connect(call, running.process, { updates, stopping });
  for (const signal of STOPS) process.on(signal, () => stop(connection, stopping, signal));
  const result = await resultOf(call, connection, { updates, stopping });
  updates.flush();
  if (result !== undefined) print(result);
  const { signal } = stopping;
  if (result === undefined && signal === undefined) return unanswered(running, connection);
  await endAgent(running);
  if (result?.stop === "end_turn") return 0;
  return signal === undefined ? 1 : SIGNAL_EXIT + constants.signals[signal];
}

/** Starts the agent in this process group, so that a stop of the step ends it, too. */
function startAgent({ command, cwd }: AcpCall): Running {
  const agent = spawn("/bin/sh", ["-c", `exec ${command}`], {
    cwd,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = new Promise<number>((done, fail) => {
    agent.on("error", fail);
    agent.on("exit", (code, signal) => {
      done(code ?? SIGNAL_EXIT + (signal === null ? 0 : constants.signals[signal]));
    });
  });
  return { process: agent, exited };
}

interface Conversation {
  readonly updates: AcpUpdates;
  readonly stopping: Stopping;
}

function connect(
  call: AcpCall,
  agent: Agent,
  { updates, stopping }: Conversation,
): ClientConnection {
  const output = Writable.toWeb(agent.stdin) as WritableStream<Uint8Array>;
  const input = Readable.toWeb(agent.stdout) as ReadableStream<Uint8Array>;
  return client()
    .onNotification("*", ({ method, params }) => {
      if (method === methods.client.session.update) updates.update(at(params as Json, "update"));
    })
    .onRequest("*", ({ method, params }) => {
      // This client offers no files and no terminals.
      if (method !== methods.client.session.requestPermission) {
        throw RequestError.methodNotFound(method);
      }
      if (stopping.signal !== undefined) return { outcome: { outcome: "cancelled" } };
      return { outcome: updates.permission(call, params as Json) };
    })
    .connect(ndJsonStream(output, input));
}

/** The last line; undefined when the agent exited or was stopped before there was one. */
async function resultOf(
  call: AcpCall,
  connection: ClientConnection,
  { updates, stopping }: Conversation,
): Promise<Extract<AcpLine, { type: "result" }> | undefined> {
  const late = setTimeout(() => {
    connection.close(new AcpError("other", NO_CONVERSATION));
  }, OPEN_MS_MAX);
  try {
    const session = await openSession(connection.agent, call, (id) => {
      print({ type: "session", id });
    });
    clearTimeout(late);
    if (session.model !== undefined) print({ type: "model", model: session.model });
    if (session.replays) await updates.replayEnd();
    stopping.prompting = session.id;
    updates.begin();
    const answer = await session.prompt();
    // Print the updates that arrived before the answer first.
    await setImmediate();
    updates.flush();
    updates.usage(answer);
    return { type: "result", stop: textAt(answer, "stopReason") ?? "unknown" };
  } catch (error) {
    const trouble = troubleBehind(error);
    if (trouble !== undefined) return { type: "result", stop: "error", trouble };
    if (connection.signal.aborted) return undefined;
    throw error;
  } finally {
    clearTimeout(late);
  }
}

/** runner/P3. Without a prompt to cancel, there is nothing to wait for. */
function stop(connection: ClientConnection, stopping: Stopping, signal: NodeJS.Signals): void {
  if (stopping.signal !== undefined) return;
  stopping.signal = signal;
  const { prompting } = stopping;
  if (prompting === undefined) return connection.close();
  connection.agent
    .notify(methods.agent.session.cancel, { sessionId: prompting })
    .then(() => sleep(CANCEL_MS_MAX, undefined, { ref: false }))
    // An agent that cannot be reached has ended, which is noticed elsewhere.
    .catch(() => undefined)
    .finally(() => connection.close());
}

/** runner/P1. If the agent exits, its exit status is more precise than its closed output. */
async function unanswered(running: Running, connection: ClientConnection): Promise<number> {
  const exit = await Promise.race([running.exited, sleep(END_MS_MAX, undefined, { ref: false })]);
  if (exit !== undefined) return exit;
  const why: unknown = connection.signal.reason;
  const words = why instanceof Error ? why.message : "it closed its output";
  const message = `the agent ended the conversation before it was done: ${words}`;
  print({ type: "result", stop: "error", trouble: new AcpError("other", message).trouble });
  await endAgent(running);
  return 1;
}

/** Ends the agent: closes its input, then SIGTERM, then SIGKILL. */
async function endAgent({ process: agent, exited }: Running): Promise<void> {
  const hasEnded = async (): Promise<boolean> => {
    const timeout = sleep(END_MS_MAX, undefined, { ref: false });
    return (await Promise.race([exited, timeout])) !== undefined;
  };
  agent.stdin.destroy();
  if (await hasEnded()) return;
  agent.kill("SIGTERM");
  if (await hasEnded()) return;
  agent.kill("SIGKILL");
  await exited;
}

/** Writes to the file synchronously, so that a kill after it does not lose the line. */
function print(line: AcpLine): void {
  writeFileSync(process.stdout.fd, `${JSON.stringify(line)}\n`);
}

const file = process.argv[2] ?? "";
// Pipes that the agent's own children hold open must not keep this process alive.
process.exit(await converse(JSON.parse(readFileSync(file, "utf8")) as AcpCall));
