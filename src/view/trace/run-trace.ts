/**
 * The spans of a run: a fold over its events. A run, each visit of a step and each attempt is a
 * span; the visits inside a composite step belong to the attempt that opened their scope.
 *
 * A run can continue after its end: a failed run is resumed, a failed step gets more attempts. A
 * span that has ended never changes, so what continues is a new span: it has a number after its key
 * (`fix@1#2`) and a link to the part before. When a run ends, everything that is open ends with it.
 *
 * Owns: which spans there are, their parents, and when they start and end.
 * Does not: follow agents inside an attempt (conversation-trace.ts) or export anything.
 * Invariants:
 * - trace/T1 The same events make the same spans in every process, and each key ends once.
 */
import type { AttemptEnd, AttemptRef, Recorded, RunEvent, VisitRef } from "../../core/event.ts";
import { attemptText, stepPath, visitText } from "../../core/step-path.ts";
import type { Plan } from "../../plan/plan.ts";
import { attemptEnd } from "../attempt-history.ts";
import {
  agentAttributes,
  attemptAttributes,
  attemptError,
  OpenSpan,
  RUN_KEY,
  runError,
  runEventAttributes,
  type Span,
  type SpanAttributes,
  type SpanLink,
  spentAttributes,
  stepEventAttributes,
  type TracedAgent,
  tracedAgent,
  tracedStep,
} from "./span.ts";

/** Finds the plan with a fingerprint. */
type PlanOf = (fingerprint: string) => Plan | undefined;

/** The result of a span that ended only because the span around it ended. */
const UNFINISHED = { "perdure.outcome": "unfinished" } as const;

/** The fold. Feed it all events of a run, from the first. */
export class RunTrace {
  readonly #runId: string;
  readonly #planOf: PlanOf;
  /** The open spans by their path: `run`, a visit or an attempt. */
  readonly #open = new Map<string, OpenSpan>();
  /** How many spans of a path have ended. */
  readonly #ended = new Map<string, number>();
  readonly #questions = new Set<string>();
  #plan: Plan | undefined;
  #pipeline = "";
  #origin: SpanLink | undefined;
  /** The events so far belong to the run that this one was forked from. */
  #isInherited = false;
  #done: Span[] = [];

  constructor(runId: string, planOf: PlanOf) {
    this.#runId = runId;
    this.#planOf = planOf;
  }

  /** How many questions wait for an answer. */
  get questions(): number {
    return this.#questions.size;
  }

  /** The key of the open span of an attempt. */
  attemptKey(at: AttemptRef): string | undefined {
    return this.#open.get(attemptText(at))?.key;
  }

  /** The agent that works or judges in an attempt. */
  agentOf(at: VisitRef, judge?: string): TracedAgent | undefined {
    const plan = this.#plan;
    if (plan === undefined) return undefined;
    return judge === undefined ? tracedStep(plan, at)?.agent : tracedAgent(plan, judge);
  }

  /** Adds the next event; returns the spans that ended with it, inner ones first. */
  add({ event, time }: Recorded): readonly Span[] {
    this.#done = [];
    if ("fingerprint" in event) this.#plan = this.#planOf(event.fingerprint) ?? this.#plan;
    if (event.type === "run.created") {
      this.#pipeline = event.pipeline;
      this.#isInherited = event.from !== undefined;
    }
    if (event.type === "run.forked") {
      this.#isInherited = false;
      this.#origin = { run: event.from.run, key: RUN_KEY, why: "forked" };
    }
    if (this.#isInherited) return [];
    if ("attempt" in event) this.#attemptEvent(event, time);
    else if ("visit" in event && "step" in event && "scope" in event) this.#visitEvent(event, time);
    else this.#runEvent(event, time);
    return this.#done;
  }

  #runEvent(event: RunEvent, time: number): void {
    switch (event.type) {
      case "run.created":
      case "run.forked":
        this.#run(time);
        return;
      case "run.completed":
      case "run.failed":
      case "run.stopped": {
        const run = this.#run(time);
        const outcome = event.type.slice("run.".length);
        run.set({ "perdure.outcome": outcome, ...runEventAttributes(event) });
        this.#close(RUN_KEY, time, runError(event));
        return;
      }
      case "run.opened":
        this.#run(time).event(time, event.type, runEventAttributes(event));
        return;
      default:
        this.#open.get(RUN_KEY)?.event(time, event.type, runEventAttributes(event));
    }
  }

  #visitEvent(event: RunEvent & VisitRef, time: number): void {
    const path = visitText(event);
    if (event.type === "step.skipped") {
      this.#visit(event, time).set({
        "perdure.outcome": "skipped",
        ...(event.by === undefined ? {} : { "perdure.by": event.by }),
      });
      this.#close(path, time);
      return;
    }
    this.#open.get(path)?.event(time, event.type, stepEventAttributes(event));
  }

  #attemptEvent(event: RunEvent & AttemptRef, time: number): void {
    if (event.type === "step.started") {
      this.#started(event, time);
      return;
    }
    if (event.type === "step.asked") this.#questions.add(attemptText(event));
    if (event.type === "step.answered") this.#questions.delete(attemptText(event));
    const end = attemptEnd(event);
    if (end !== undefined) {
      this.#attemptEnded(end, time);
      return;
    }
    this.#open.get(attemptText(event))?.event(time, event.type, stepEventAttributes(event));
  }

  #started(event: Extract<RunEvent, { type: "step.started" }>, time: number): void {
    const visit = this.#visit(event, time);
    // An attempt whose effect was uncertain has no end of its own.
    for (const path of [...visit.children]) {
      this.#open.get(path)?.set(UNFINISHED);
      this.#close(path, time);
    }
    const attempt = this.#attempt(event, time, event.judge);
    attempt.set(attemptAttributes(event));
  }

  #attemptEnded(end: AttemptEnd, time: number): void {
    const outcome = end.type.slice("step.".length);
    this.#questions.delete(attemptText(end));
    const attempt = this.#attempt(end, time);
    const error = attemptError(end);
    const spent = spentAttributes(end.spent);
    attempt.set({ "perdure.outcome": outcome, ...stepEventAttributes(end), ...spent });
    this.#countSpent(end);
    this.#close(attemptText(end), time, error);
    const visit = this.#open.get(visitText(end));
    if (visit === undefined) return;
    const retry = "retry" in end ? end.retry : undefined;
    if (retry !== undefined) {
      visit.event(time, "retry", { "perdure.retry.delay_ms": retry.delayMs, ...reasonOf(error) });
      return;
    }
    if (!["step.completed", "step.failed", "step.lost"].includes(end.type)) return;
    visit.set({ "perdure.outcome": outcome, ...reasonOf(error) });
    this.#close(visitText(end), time, error);
  }

  #countSpent({ spent }: AttemptEnd): void {
    const run = this.#open.get(RUN_KEY);
    for (const [name, value] of Object.entries(spentAttributes(spent))) {
      if (typeof value === "number") run?.count(name, value);
    }
  }

  #run(time: number): OpenSpan {
    return this.#opened(RUN_KEY, time, () => ({
      of: "run",
      name: `run ${this.#pipeline}`,
      attributes: {
        ...this.#common(),
        ...(Object.keys(this.#plan?.agents ?? {}).length > 0
          ? { "gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": this.#pipeline }
          : {}),
      },
    }));
  }

  #visit(at: VisitRef, time: number): OpenSpan {
    const parent = this.#around(at.scope, time);
    return this.#opened(
      visitText(at),
      time,
      () => ({ of: "step", name: `step ${at.step}`, attributes: this.#stepAttributes(at) }),
      parent,
    );
  }

  #attempt(at: AttemptRef, time: number, judge?: string): OpenSpan {
    this.#visit(at, time);
    return this.#opened(
      attemptText(at),
      time,
      () => {
        const agent = this.agentOf(at, judge);
        const attributes = { ...this.#stepAttributes(at), "perdure.attempt": at.attempt };
        if (agent === undefined) return { of: "attempt", name: `attempt ${at.step}`, attributes };
        return {
          of: "attempt",
          name: `invoke_agent ${agent.name}`,
          attributes: {
            ...attributes,
            "gen_ai.operation.name": "invoke_agent",
            ...agentAttributes(agent),
            ...(judge === undefined ? {} : { "perdure.judge": true }),
          },
        };
      },
      visitText(at),
    );
  }

  /** The path of the span around a scope; opens it where the run continues inside it. */
  #around(scope: string, time: number): string {
    const [, outer, step, visit, attempt] =
      /^((?:.*\/)?)([^/]+)@(\d+)\.(\d+)\[\d+\]\/$/.exec(scope) ?? [];
    if (outer === undefined || step === undefined) {
      this.#run(time);
      return RUN_KEY;
    }
    const at = { scope: outer, step, visit: Number(visit), attempt: Number(attempt) };
    this.#attempt(at, time);
    return attemptText(at);
  }

  /** The open span of a path; opens the next part of it where there is none. */
  #opened(
    path: string,
    time: number,
    describe: () => Pick<Span, "of" | "name" | "attributes">,
    around?: string,
  ): OpenSpan {
    const known = this.#open.get(path);
    if (known !== undefined) return known;
    const part = (this.#ended.get(path) ?? 0) + 1;
    const { of, name, attributes } = describe();
    const links: SpanLink[] = [];
    if (part > 1) links.push({ key: keyOf(path, part - 1), why: "continues" });
    else if (path === RUN_KEY && this.#origin !== undefined) links.push(this.#origin);
    // The later parts of a run hang on its first part.
    const parent = around === undefined ? undefined : this.#open.get(around)?.key;
    const root = path === RUN_KEY && part > 1 ? RUN_KEY : parent;
    const span = new OpenSpan(keyOf(path, part), time, around, {
      of,
      name,
      links,
      attributes: part > 1 ? { ...attributes, "perdure.part": part } : attributes,
      ...(root === undefined ? {} : { parent: root }),
    });
    this.#open.set(path, span);
    if (around !== undefined) this.#open.get(around)?.children.add(path);
    return span;
  }

  /** Ends a span, and everything open inside it first. */
  #close(path: string, time: number, error?: Span["error"]): void {
    const span = this.#open.get(path);
    if (span === undefined) return;
    for (const child of [...span.children]) {
      this.#open.get(child)?.set(UNFINISHED);
      this.#close(child, time);
    }
    this.#open.delete(path);
    this.#open.get(span.around ?? "")?.children.delete(path);
    this.#ended.set(path, (this.#ended.get(path) ?? 0) + 1);
    this.#done.push(span.end(time, error));
  }

  #common(): SpanAttributes {
    return { "perdure.run.id": this.#runId, "perdure.pipeline": this.#pipeline };
  }

  #stepAttributes(at: VisitRef): SpanAttributes {
    const kind = this.#plan && tracedStep(this.#plan, at)?.kind;
    return {
      ...this.#common(),
      "perdure.step.id": at.step,
      "perdure.step.path": stepPath(at),
      "perdure.visit": at.visit,
      ...(kind === undefined ? {} : { "perdure.step.kind": kind }),
    };
  }
}

function keyOf(path: string, part: number): string {
  return part === 1 ? path : `${path}#${part}`;
}

function reasonOf(error: Span["error"]): SpanAttributes {
  return error === undefined ? {} : { "perdure.reason": error.type };
}
