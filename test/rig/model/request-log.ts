/**
 * What the fake model was asked and what it gave: every request with its body, and the tokens of
 * each conversation. Bounded: the oldest requests are dropped first, the sums stay.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Ask } from "./ask.ts";
import type { Json } from "./json.ts";
import type { StreamPoint, Usage } from "./reply.ts";

const REQUESTS_MAX = 1_000;
const BODY_BYTES_MAX_TOTAL = 128 * 1024 * 1024;

/** `work` uses the script, `side` (titles, classifiers, probes), `count` and `other` do not. */
export type RequestKind = "work" | "side" | "count" | "other";

/**
 * `open`: under way; `complete`: given whole; `refused`: an HTTP error; `cut`: broken by the
 * script; `gone`: the agent hung up.
 */
export type Outcome = "open" | "complete" | "refused" | "cut" | "gone";

export interface ModelRequest {
  readonly sequence: number;
  readonly kind: RequestKind;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Json;
  readonly ask: Ask | undefined;
  outcome: Outcome;
  status: number | undefined;
  usage: Usage | undefined;
  /** The part of its usage that was reported to the agent. */
  reported: "nothing" | "input" | "all";
  stalledAt: StreamPoint | undefined;
}

/** The tokens of a conversation: paid for and received, and lost in interrupted answers. */
export interface Tokens {
  readonly requests: number;
  readonly received: Usage;
  readonly lost: Usage;
}

/** The usage that was reported for one request: its input, or all of it. */
export interface Served {
  readonly sequence: number;
  readonly conversation: string;
  readonly usage: Usage;
  /** Whether all of it was reported: the output counts only then. */
  readonly whole: boolean;
}

const NOTHING: Usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };

export class RequestLog {
  readonly #requests: { readonly request: ModelRequest; readonly bytes: number }[] = [];
  readonly #tokens = new Map<string, Tokens>();
  #bytes = 0;
  #sequence = 0;

  /** Notes a request that has arrived. */
  open(
    seen: Pick<ModelRequest, "kind" | "method" | "path" | "headers" | "body" | "ask">,
    bytes: number,
  ): ModelRequest {
    const request: ModelRequest = {
      ...seen,
      sequence: ++this.#sequence,
      outcome: "open",
      status: undefined,
      usage: undefined,
      reported: "nothing",
      stalledAt: undefined,
    };
    this.#requests.push({ request, bytes });
    this.#bytes += bytes;
    while (this.#requests.length > REQUESTS_MAX || this.#bytes > BODY_BYTES_MAX_TOTAL) {
      this.#bytes -= this.#requests.shift()?.bytes ?? 0;
    }
    return request;
  }

  /** Notes how a request ended, and counts its tokens. */
  close(request: ModelRequest, outcome: Outcome): void {
    if (request.outcome !== "open") return;
    request.outcome = outcome;
    const { ask, usage } = request;
    if (ask === undefined || usage === undefined) return;
    const before = this.#tokens.get(ask.conversation) ?? {
      requests: 0,
      received: NOTHING,
      lost: NOTHING,
    };
    const field = outcome === "complete" ? "received" : "lost";
    this.#tokens.set(ask.conversation, {
      ...before,
      requests: before.requests + 1,
      [field]: sum(before[field], usage),
    });
  }

  requests(kind?: RequestKind): readonly ModelRequest[] {
    const all = this.#requests.map(({ request }) => request);
    return kind === undefined ? all : all.filter((request) => request.kind === kind);
  }

  /** The usage that was reported to agents, by request; without requests that reported nothing. */
  served(kind?: RequestKind): readonly Served[] {
    return this.requests(kind).flatMap(({ sequence, ask, usage, reported }) => {
      if (ask === undefined || usage === undefined || reported === "nothing") return [];
      const whole = reported === "all";
      const counted = whole ? usage : { ...usage, output: 0 };
      return [{ sequence, conversation: ask.conversation, usage: counted, whole }];
    });
  }

  /** By conversation; side calls count too, for they are paid for. */
  tokens(): Readonly<Record<string, Tokens>> {
    return Object.fromEntries(this.#tokens);
  }
}

function sum(a: Usage, b: Usage): Usage {
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    cacheRead: a.cacheRead + b.cacheRead,
    cacheWrite: a.cacheWrite + b.cacheWrite,
  };
}
