/**
 * The endpoint through which a test controls a fake model that runs as a program: `/__control`.
 *
 * GET: how it stands (`?requests=work` adds those requests). POST `{"do": "release"}`: lets stalls
 * go; `{"do": "await-stall"}`: answers when a request stalls; `{"do": "play", "scripts": [...]}`:
 * others from now on.
 */
import { at, type Json, textAt } from "./json.ts";
import type { Call, Refusal } from "./protocol.ts";
import type { Script } from "./reply.ts";
import type { ModelRequest, RequestKind, Served, Tokens } from "./request-log.ts";
import { readScripts, ScriptError } from "./script-file.ts";

/** What control needs of a fake model. */
interface Controlled {
  readonly requests: (kind?: RequestKind) => readonly ModelRequest[];
  readonly tokens: () => Readonly<Record<string, Tokens>>;
  readonly served: (kind?: RequestKind) => readonly Served[];
  readonly stalls: () => readonly ModelRequest[];
  readonly stalled: () => Promise<ModelRequest>;
  readonly release: () => number;
  readonly play: (...scripts: readonly Script[]) => void;
}

const KINDS: readonly string[] = ["work", "side", "count", "other", "all"];

/** Answers a request to control. */
export async function control(model: Controlled, method: string, call: Call): Promise<Refusal> {
  if (method === "GET") return ok(standing(model, call.query.get("requests")));
  switch (textAt(call.body, "do")) {
    case "release":
      return ok({ released: model.release() });
    case "await-stall":
      return ok({ stalled: summary(await model.stalled()) });
    case "play":
      try {
        model.play(...readScripts(at(call.body, "scripts")));
        return ok({ playing: true });
      } catch (error) {
        if (error instanceof ScriptError) return wrong(error.message);
        throw error;
      }
    default:
      return wrong("do: release, await-stall or play");
  }
}

function standing(model: Controlled, kind: string | null): Json {
  const counted = (name: RequestKind): number => model.requests(name).length;
  const reported =
    kind !== null && KINDS.includes(kind)
      ? model.requests(kind === "all" ? undefined : (kind as RequestKind))
      : undefined;
  return {
    work: counted("work"),
    side: counted("side"),
    other: counted("other") + counted("count"),
    stalled: model.stalls().map(summary),
    tokens: model.tokens() as unknown as Json,
    served: model.served() as unknown as Json,
    ...(reported === undefined ? {} : { requests: reported.map(full) }),
  };
}

function summary(request: ModelRequest): Json {
  const { sequence, kind, path, outcome, ask } = request;
  const place = request.stalledAt ?? null;
  return {
    sequence,
    kind,
    path,
    outcome,
    stalledAt: place,
    conversation: ask?.conversation ?? null,
  };
}

function full(request: ModelRequest): Json {
  return { ...(summary(request) as { readonly [key: string]: Json }), body: request.body };
}

function ok(body: Json): Refusal {
  return { status: 200, headers: {}, body };
}

function wrong(message: string): Refusal {
  return { status: 400, headers: {}, body: { error: message } };
}
