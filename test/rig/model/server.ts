/**
 * A model endpoint on loopback that says what a script says, in the protocols of four agents.
 *
 * Owns: the listening socket, which request is work and which is done on the side, stalls and
 * their release, the log of requests.
 * Does not: know a wire format (the protocols do) or choose a reply (playbook.ts).
 *
 * Invariants:
 * - server/M1 only a request for work uses the script up; side calls get an answer and an entry in
 *   the log.
 * - server/M2 the script's mistakes (none left, a tool that is not on offer) are answers 400 that
 *   say so, which no agent retries.
 */
import * as http from "node:http";
import type { AddressInfo } from "node:net";
import { send, single, streamed } from "./answer.ts";
import { anthropic, countedTokens } from "./anthropic.ts";
import { type Ask, isSideCall } from "./ask.ts";
import { chat } from "./chat.ts";
import { control } from "./control.ts";
import { gemini } from "./gemini.ts";
import { type Json, parseJson } from "./json.ts";
import { type Chosen, Playbook } from "./playbook.ts";
import { type Call, type Protocol, type Refusal, sampleOf } from "./protocol.ts";
import { numbered, type Script, type StreamPoint, text, USAGE_DEFAULT } from "./reply.ts";
import {
  type ModelRequest,
  type RequestKind,
  RequestLog,
  type Served,
  type Tokens,
} from "./request-log.ts";
import { responses } from "./responses.ts";
import { NoSuchTool, sayWith } from "./tool-call.ts";

export interface ModelOptions {
  readonly scripts?: readonly Script[];
  /** 0, the default: any free port. */
  readonly port?: number;
  /** Which requests are side calls, where the default rule (no tools on offer) is wrong. */
  readonly isSideCall?: (ask: Ask) => boolean;
}

const BODY_BYTES_MAX = 32 * 1024 * 1024;
const HTTP_NOT_FOUND = 404;

/** A request that waits at a point until it is released or its agent hangs up. */
interface Stall {
  readonly request: ModelRequest;
  readonly release: () => void;
}

/** Starts a fake model. */
export async function startModel(options: ModelOptions = {}): Promise<FakeModel> {
  const model = new FakeModel(options);
  await model.listen(options.port ?? 0);
  return model;
}

/** A fake model while it listens. */
export class FakeModel {
  readonly #server = http.createServer((request, response) => {
    this.#serve(request, response).catch((error: unknown) => {
      response.destroy(error instanceof Error ? error : new Error(String(error)));
    });
  });
  readonly #log = new RequestLog();
  readonly #isSideCall: (ask: Ask) => boolean;
  #playbook: Playbook;
  #stalls: readonly Stall[] = [];
  #watchers: readonly (() => void)[] = [];

  constructor({ scripts = [], isSideCall: isSide = isSideCall }: ModelOptions) {
    this.#playbook = new Playbook(scripts);
    this.#isSideCall = isSide;
  }

  /** The address without a path, such as `http://127.0.0.1:4711`. */
  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  }

  async listen(port: number): Promise<void> {
    await new Promise<void>((done, fail) => {
      this.#server.once("error", fail);
      this.#server.listen(port, "127.0.0.1", done);
    });
  }

  /** Other scripts from now on; what the old ones had left is gone. */
  play(...scripts: readonly Script[]): void {
    this.#playbook = new Playbook(scripts);
  }

  /** The requests so far, oldest first. */
  requests(kind?: RequestKind): readonly ModelRequest[] {
    return this.#log.requests(kind);
  }

  /** The tokens that were served, by conversation. */
  tokens(): Readonly<Record<string, Tokens>> {
    return this.#log.tokens();
  }

  /** The usage that was reported to agents, by request, oldest first. */
  served(kind?: RequestKind): readonly Served[] {
    return this.#log.served(kind);
  }

  /** The requests that wait for their release now. */
  stalls(): readonly ModelRequest[] {
    return this.#stalls.map(({ request }) => request);
  }

  /** Resolves when a request waits at its point; at once if one does. */
  async stalled(): Promise<ModelRequest> {
    for (;;) {
      const [first] = this.#stalls;
      if (first !== undefined) return first.request;
      await new Promise<void>((done) => {
        this.#watchers = [...this.#watchers, done];
      });
    }
  }

  /** Releases all stalls; gives their number. */
  release(): number {
    const stalls = this.#stalls;
    for (const stall of stalls) stall.release();
    return stalls.length;
  }

  /** Hangs up on everybody and stops listening. */
  async close(): Promise<void> {
    const closed = new Promise((done) => this.#server.close(done));
    this.#server.closeAllConnections();
    await closed;
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://127.0.0.1");
    const raw = await bodyOf(request);
    const body = parseJson(raw) ?? null;
    const call: Call = { path: pathname, query: searchParams, headers: request.headers, body };
    if (pathname === "/__control") {
      answer(response, await control(this, request.method ?? "GET", call));
      return;
    }
    const protocol = request.method === "POST" ? protocolOf(pathname) : undefined;
    const seen = { method: request.method ?? "", path: pathname, headers: call.headers, body };
    if (protocol !== undefined) {
      const ask = protocol.read(call);
      const kind = this.#isSideCall(ask) ? "side" : "work";
      const entry = this.#log.open({ ...seen, kind, ask }, raw.length);
      response.once("close", () => this.#log.close(entry, "gone"));
      await this.#answer(protocol, ask, entry, response);
      return;
    }
    const counts = /\/v1\/messages\/count_tokens$/.test(pathname);
    const kind = counts ? "count" : "other";
    const entry = this.#log.open({ ...seen, kind, ask: undefined }, raw.length);
    const found = counts ? countedTokens(body) : otherBody(pathname);
    entry.status = found === undefined ? HTTP_NOT_FOUND : 200;
    this.#log.close(entry, found === undefined ? "refused" : "complete");
    answer(response, { status: entry.status, headers: {}, body: found ?? { error: "not here" } });
  }

  async #answer(
    protocol: Protocol,
    ask: Ask,
    entry: ModelRequest,
    response: http.ServerResponse,
  ): Promise<void> {
    const chosen = entry.kind === "side" ? sideReply(ask) : this.#playbook.next(ask);
    const refusal = refusalOf(protocol, ask, chosen);
    if (chosen === undefined || refusal !== undefined) {
      const given = refusal ?? protocol.complaint("the fake model's script has no reply left");
      entry.status = given.status;
      this.#log.close(entry, "refused");
      answer(response, given);
      return;
    }
    const said = sayWith(ask.tools, numbered(chosen.reply.moves, entry.sequence));
    const segments = ask.stream
      ? streamed(protocol.frames(ask, said, chosen.usage))
      : single(protocol.whole(ask, said, chosen.usage));
    entry.usage = chosen.usage;
    entry.status = 200;
    const outcome = await send(response, segments, {
      fault: chosen.fault,
      hold: (point) => this.#hold(entry, point, response),
      wrote: (piece) => {
        if (piece === segments.inputTold) entry.reported = "input";
        if (piece === segments.allTold) entry.reported = "all";
      },
    });
    this.#log.close(entry, outcome);
  }

  async #hold(
    request: ModelRequest,
    point: StreamPoint,
    response: http.ServerResponse,
  ): Promise<void> {
    request.stalledAt = point;
    await new Promise<void>((done) => {
      const stall: Stall = { request, release: done };
      this.#stalls = [...this.#stalls, stall];
      response.once("close", done);
      for (const watcher of this.#watchers) watcher();
      this.#watchers = [];
    });
    this.#stalls = this.#stalls.filter((stall) => stall.request !== request);
  }
}

function protocolOf(path: string): Protocol | undefined {
  if (path.endsWith("/v1/messages")) return anthropic;
  if (path.endsWith("/responses")) return responses;
  if (path.endsWith("/chat/completions")) return chat;
  return /\/models\/[^/]+:(generateContent|streamGenerateContent)$/.test(path) ? gemini : undefined;
}

/** What agents ask for beside the model: lists of models, the count of tokens, a sign of life. */
function otherBody(path: string): Json | undefined {
  if (path === "/") return {};
  if (path.endsWith(":countTokens")) return { totalTokens: USAGE_DEFAULT.input };
  return path.endsWith("/models") ? { object: "list", data: [], models: [] } : undefined;
}

function sideReply(ask: Ask): Chosen {
  const said = ask.answerSchema === undefined ? "side call" : sampleOf(ask.answerSchema);
  const words = typeof said === "string" ? said : JSON.stringify(said);
  return { reply: text(words), usage: USAGE_DEFAULT, fault: undefined };
}

/**
 * The HTTP error that answers an ask, if one does: the script's fault, or its mistake (server/M2).
 */
function refusalOf(protocol: Protocol, ask: Ask, chosen: Chosen | undefined): Refusal | undefined {
  if (chosen === undefined) return undefined;
  const { fault, reply } = chosen;
  if (fault !== undefined && fault.type !== "stall" && fault.type !== "cut") {
    return protocol.refusal(fault);
  }
  try {
    sayWith(ask.tools, reply.moves);
    return undefined;
  } catch (error) {
    if (error instanceof NoSuchTool) return protocol.complaint(error.message);
    throw error;
  }
}

function answer(response: http.ServerResponse, { status, headers, body }: Refusal): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

async function bodyOf(request: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += (chunk as Buffer).length;
    if (bytes > BODY_BYTES_MAX) throw new Error(`a request of more than ${BODY_BYTES_MAX} bytes`);
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString("utf8");
}
