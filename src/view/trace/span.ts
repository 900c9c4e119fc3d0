/**
 * A span: a part of a run with its start, its end and its result, as OpenTelemetry draws it. Its
 * attributes are what the events of a run say, in the names of OpenTelemetry's conventions for generative
 * AI, and in names that begin with `perdure.` where the conventions have none; and what a trace says about
 * a step of the plan, with the agent that works in it.
 *
 * Owns: the value of a span, the limits of what it holds, and the names of the attributes.
 * docs/OPENTELEMETRY.md lists them.
 * Does not: know ids or exporters (room `telemetry`); a key identifies a span within its run. Does not
 * hold prompts, answers or outputs; they are content, which a person must ask for.
 */
import type { AttemptEnd, EventOf, RunEvent, Spent } from "../../core/event.ts";
import { graphsIn, indexOf } from "../../plan/graph-index.ts";
import type { Graph, Plan, Step } from "../../plan/plan.ts";
import { defined } from "../../util/defined.ts";

/** The value of an attribute. */
type SpanValue = string | number | boolean | readonly string[];

/** Named values of a span, an event or a measurement. */
export type SpanAttributes = Readonly<Record<string, SpanValue>>;

/** Something that happened at one moment of a span. */
interface SpanEvent {
  readonly time: number;
  readonly name: string;
  readonly attributes: SpanAttributes;
}

/** A reference to another span: of this run, or of the run that this one was forked from. */
export interface SpanLink {
  readonly run?: string;
  readonly key: string;
  readonly why: "continues" | "forked";
}

/** A span that has ended; its content never changes again. */
export interface Span {
  readonly of: "run" | "step" | "attempt" | "turn" | "tool";
  /** Identifies it in its run: `run`, `fix@2`, `fix@2.3`, `fix@2.3/turn 1`. */
  readonly key: string;
  /** The key of the span around it; absent for the first span of a run. */
  readonly parent?: string;
  readonly name: string;
  readonly startedAt: number;
  readonly endedAt: number;
  /** Why it failed; absent for a success, and for what neither failed nor succeeded. */
  readonly error?: { readonly type: string; readonly message: string };
  readonly attributes: SpanAttributes;
  readonly events: readonly SpanEvent[];
  /** How many events are left out. */
  readonly eventsDropped: number;
  readonly links: readonly SpanLink[];
}

/** How many events a span holds. */
const EVENTS_MAX = 128;

/** The key of the first span of a run. */
export const RUN_KEY = "run";

/** A span that has not ended. */
export class OpenSpan {
  readonly key: string;
  readonly startedAt: number;
  /** The path of the span around it. */
  readonly around: string | undefined;
  /** The paths of the open spans inside it. */
  readonly children = new Set<string>();
  readonly #span: Pick<Span, "of" | "name" | "links"> & { readonly parent?: string };
  readonly #attributes: Record<string, SpanValue>;
  readonly #events: SpanEvent[] = [];
  #eventsDropped = 0;

  constructor(
    key: string,
    startedAt: number,
    around: string | undefined,
    span: Pick<Span, "of" | "name" | "links" | "attributes"> & { readonly parent?: string },
  ) {
    const { attributes, ...rest } = span;
    this.key = key;
    this.startedAt = startedAt;
    this.around = around;
    this.#span = rest;
    this.#attributes = { ...attributes };
  }

  set(attributes: SpanAttributes): void {
    Object.assign(this.#attributes, attributes);
  }

  /** Adds to an attribute that is a number. */
  count(name: string, value: number): void {
    const before = this.#attributes[name];
    this.#attributes[name] = (typeof before === "number" ? before : 0) + value;
  }

  event(time: number, name: string, attributes: SpanAttributes = {}): void {
    if (this.#events.length < EVENTS_MAX) this.#events.push({ time, name, attributes });
    else this.#eventsDropped += 1;
  }

  /** The span, ended. A clock that was set back does not make it end before its start. */
  end(time: number, error?: Span["error"]): Span {
    return {
      ...this.#span,
      key: this.key,
      startedAt: this.startedAt,
      endedAt: Math.max(time, this.startedAt),
      ...(error === undefined ? {} : { error }),
      attributes: this.#attributes,
      events: this.#events,
      eventsDropped: this.#eventsDropped,
    };
  }
}

/** The attributes of an attempt that its start says. */
export function attemptAttributes(event: EventOf<"step.started">): SpanAttributes {
  const { conversation, items } = event;
  return {
    ...(conversation === undefined ? {} : { "perdure.conversation": conversation.kind }),
    ...defined({
      "gen_ai.conversation.id": conversation?.session,
      "perdure.items": items?.length,
    }),
  };
}

/** What an attempt used of a model. */
export function spentAttributes(spent: Spent | undefined): SpanAttributes {
  if (spent === undefined) return {};
  const { inputTokens, cachedTokens, outputTokens, turns } = spent;
  return {
    "gen_ai.usage.input_tokens": inputTokens,
    "gen_ai.usage.cache_read.input_tokens": cachedTokens,
    "gen_ai.usage.output_tokens": outputTokens,
    "perdure.turns": turns,
    ...defined({
      "perdure.cost_usd": spent.costUsd,
      "perdure.cost_estimated": spent.estimated,
      "perdure.unmeasured": spent.unmeasured,
      "gen_ai.response.model": spent.model,
      "gen_ai.conversation.id": spent.session,
    }),
  };
}

/** Why an attempt did not succeed. An attempt that was stopped, or that continues, did not fail. */
export function attemptError(end: AttemptEnd): Span["error"] {
  switch (end.type) {
    case "step.failed":
    case "step.paused":
      return { type: end.reason, message: end.message };
    case "step.lost":
      return { type: "lost", message: end.message };
    case "step.conflicted":
      return { type: "conflict", message: end.message };
    default:
      return undefined;
  }
}

/** Why a run failed. A person who stops a run does not make it fail; a limit or a conflict does. */
export function runError(
  event: EventOf<"run.completed" | "run.failed" | "run.stopped">,
): Span["error"] {
  if (event.type === "run.failed") return { type: "failed", message: event.message };
  if (event.type !== "run.stopped") return undefined;
  const { reason } = event;
  if (reason.code === "budget") {
    return { type: "budget", message: `the limit ${reason.limit.kind} is reached` };
  }
  if (reason.code === "conflict") {
    return { type: "conflict", message: `the work conflicts in ${reason.paths.join(", ")}` };
  }
  return undefined;
}

/** The attributes of an event of a step. */
export function stepEventAttributes(event: RunEvent): SpanAttributes {
  switch (event.type) {
    case "step.completed":
      return {
        "perdure.exit_code": event.exit,
        ...defined({ "perdure.by": event.settledBy, "perdure.label": event.reported?.label }),
      };
    case "step.failed":
      return {
        "perdure.reason": event.reason,
        ...defined({ "perdure.exit_code": event.exit, "perdure.effect": event.effect }),
      };
    case "step.paused":
      return { "perdure.reason": event.reason };
    case "step.continued":
      return { "perdure.reason": event.ask.kind };
    case "step.conflicted":
      return { "perdure.paths": event.paths };
    case "step.asked":
      return { "perdure.question": event.question };
    case "step.answered":
      return defined({
        "perdure.answer": event.choice,
        "perdure.by": event.by,
        "perdure.label": event.label,
      });
    case "step.adopted":
      return { "perdure.found": event.found };
    case "step.session":
      return { "gen_ai.conversation.id": event.session };
    case "step.iterated":
      return { "perdure.iteration": event.iteration };
    case "step.uncertain":
      return { "perdure.reason": event.cause, "perdure.asks": event.asks };
    case "step.probed":
      return { "perdure.answer": event.answer };
    case "step.settled":
      return { "perdure.answer": event.as, "perdure.by": event.by };
    case "step.granted":
      return { "perdure.attempts": event.attempts };
    default:
      return {};
  }
}

/** The attributes of an event of a run. */
export function runEventAttributes(event: RunEvent): SpanAttributes {
  switch (event.type) {
    case "run.opened":
      return {
        "perdure.owner.pid": event.owner.pid,
        "perdure.owner.host": event.owner.host,
        "perdure.owner.user": event.owner.user,
        ...defined({ "perdure.recover": event.recover }),
      };
    case "run.stopping":
    case "run.stopped":
      return {
        "perdure.reason": event.reason.code,
        ...(event.reason.code === "requested" ? { "perdure.by": event.reason.by } : {}),
        ...(event.reason.code === "budget" ? { "perdure.limit": event.reason.limit.kind } : {}),
      };
    case "run.finishing":
      return { "perdure.outcome": event.end.status };
    case "run.rewound":
      return { "perdure.step.path": event.step, "perdure.steps": event.reopened };
    case "run.updated":
      return { "perdure.steps": event.rerun.map(({ step }) => step) };
    case "run.returned":
      return { "perdure.step.path": event.scope + event.step, "perdure.goal": event.goal };
    case "run.restarted":
      return { "perdure.step.path": event.scope + event.step, "perdure.restarts": event.number };
    case "run.funded":
      return defined({
        "perdure.added_usd": event.added.usd,
        "perdure.added_tokens": event.added.tokens,
      });
    case "run.messaged":
      return { "perdure.step.path": event.scope + event.step, "perdure.by": event.message.by };
    case "request.handled":
      return {
        "perdure.request": event.asks,
        "perdure.by": event.by,
        ...defined({ "perdure.step.path": event.step, "perdure.refused": event.refused?.code }),
      };
    case "run.skipping":
      return { "perdure.step.path": event.scope + event.step, "perdure.by": event.by };
    case "run.committed":
      return { "perdure.steps": event.steps, ...defined({ "perdure.commit": event.commit }) };
    default:
      return {};
  }
}

/** The agent of a step, or of the judge of its work. */
export interface TracedAgent {
  readonly name: string;
  readonly adapter?: string;
  readonly model?: string;
}

/** A step of the plan, as a trace shows it. */
interface TracedStep {
  readonly kind: Step["work"]["kind"];
  readonly agent?: TracedAgent;
}

/** The step at a step path; undefined when the plan no longer has it. */
export function tracedStep(
  plan: Plan,
  at: { readonly scope: string; readonly step: string },
): TracedStep | undefined {
  const outer = at.scope.split("/").slice(0, -1);
  const [first = ""] = outer;
  const isFinal = plan.finally !== undefined && /^finally@\d+$/.test(first);
  let graphs: readonly Graph[] = isFinal && plan.finally ? [plan.finally] : [plan.graph];
  for (const part of isFinal ? outer.slice(1) : outer) {
    const composite = stepIn(graphs, part.replace(/@\d+\.\d+\[\d+\]$/, ""));
    if (composite === undefined) return undefined;
    graphs = graphsIn(composite.work);
  }
  const work = stepIn(graphs, at.step)?.work;
  if (work === undefined) return undefined;
  if (work.kind !== "agent") return { kind: work.kind };
  const { model } = work.settings;
  const own = model === undefined ? {} : { model };
  return { kind: work.kind, agent: { ...tracedAgent(plan, work.agent), ...own } };
}

/** An agent of the plan. */
export function tracedAgent({ agents }: Plan, name: string): TracedAgent {
  const { adapter, settings } = agents[name] ?? {};
  const model = settings?.model;
  return {
    name,
    ...(adapter === undefined ? {} : { adapter }),
    ...(model === undefined ? {} : { model }),
  };
}

function stepIn(graphs: readonly Graph[], id: string): Step | undefined {
  for (const graph of graphs) {
    const position = indexOf(graph).byId.get(id);
    if (position !== undefined) return graph.steps[position];
  }
  return undefined;
}

const PROVIDERS: Readonly<Record<string, string>> = {
  claude: "anthropic",
  codex: "openai",
  gemini: "gcp.gen_ai",
};

/** Who serves the model of an agent, in the words of the conventions where they have one. */
function providerOf({ name, adapter, model = "" }: TracedAgent): string {
  const known = PROVIDERS[adapter ?? ""];
  if (known !== undefined) return known;
  // opencode names the provider before the model: `anthropic/claude-sonnet-4-5`.
  return model.includes("/") ? model.slice(0, model.indexOf("/")) : (adapter ?? name);
}

/** The attributes that every span of an agent has. */
export function agentAttributes(agent: TracedAgent): SpanAttributes {
  return {
    "gen_ai.agent.name": agent.name,
    "gen_ai.provider.name": providerOf(agent),
    ...(agent.model === undefined ? {} : { "gen_ai.request.model": agent.model }),
  };
}
