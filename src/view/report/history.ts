/**
 * How a run went: its visits, its decisions, the changes of its context, and its owners. Each is a
 * fold over the events.
 */

import { contextOwner } from "../../core/context.ts";
import type { Owner, Recorded, RunEvent } from "../../core/event.ts";
import { findVisit, type Run, stepOf } from "../../core/run.ts";
import { attemptText, stepPath, visitText } from "../../core/step-path.ts";
import { indexOf } from "../../plan/graph-index.ts";
import type { Json } from "../../util/json.ts";
import { attemptEnd, briefingText, stepReportText } from "../attempt-history.ts";
import { fundsText } from "../cost-text.ts";
import { requestText } from "../event-line.ts";
import { messageText, stopText } from "../failure-text.ts";
import { messageLine } from "../message-text.ts";
import { answerText } from "../question-text.ts";
import { rejectedText, reusedText } from "../reuse-text.ts";
import { type Liveness, STEP_STYLES, visitStatus } from "../step-status.ts";
import { countText } from "../text.ts";

interface VisitEntry {
  /** As in `fix@2`. */
  readonly path: string;
  readonly startedAt: number;
  /** When its last attempt ended, or when it was skipped. */
  readonly endedAt?: number;
  readonly attempts: number;
  /** Its state now. */
  readonly outcome: string;
  /** The steps that its edges led to, in words. */
  readonly next: readonly string[];
  /** Their paths. */
  readonly ledTo: readonly string[];
}

interface Draft {
  readonly path: string;
  readonly startedAt: number;
  endedAt?: number;
  attempts: number;
  outcome: string;
  next: readonly string[];
  ledTo: readonly string[];
}

/** All visits that started. */
export function visitHistory(run: Run, events: Iterable<Recorded>): readonly VisitEntry[] {
  const entries = new Map<string, Draft>();
  for (const { event, time } of events) {
    if (event.type !== "step.started" && event.type !== "step.skipped" && !attemptEnd(event))
      continue;
    if (!("scope" in event && "visit" in event)) continue;
    const path = visitText(event);
    const known = entries.get(path) ?? {
      path,
      startedAt: time,
      attempts: 0,
      outcome: outcomeOf(run, event),
      next: [],
      ledTo: [],
    };
    entries.set(path, known);
    if (event.type === "step.started") known.attempts++;
    else known.endedAt = time;
    if ("edges" in event) {
      known.next = edgeTargets(run, event);
      known.ledTo = targetsOf(run, event).map(({ path: to }) => to);
    }
  }
  return [...entries.values()];
}

function outcomeOf(run: Run, at: Extract<RunEvent, { visit: number }>): string {
  const visit = findVisit(run, at);
  if (visit === undefined) return "";
  return visit.state.status === "abandoned" ? "abandoned" : STEP_STYLES[visitStatus(visit)].word;
}

interface FollowedEdges {
  readonly scope: string;
  readonly edges: readonly number[];
}

interface EdgeTarget {
  readonly path: string;
  readonly back: boolean;
}

function targetsOf(run: Run, event: FollowedEdges): readonly EdgeTarget[] {
  const graph = run.scopes.get(event.scope)?.graph;
  return event.edges.flatMap((index) => {
    const edge = graph?.edges[index];
    const step = edge && graph?.steps[edge.to];
    if (step === undefined) return [];
    const path = stepPath({ scope: event.scope, step: step.id });
    return [{ path, back: edge?.back === true }];
  });
}

/** The targets of the edges that an event followed, in words. */
export function edgeTargets(run: Run, event: FollowedEdges): readonly string[] {
  return targetsOf(run, event).map(({ path, back }) => (back ? `${path} (back)` : path));
}

interface Decision {
  readonly seq: number;
  readonly time: number;
  readonly what: string;
}

/** All decisions in their order. */
export function decisionHistory(run: Run, events: Iterable<Recorded>): readonly Decision[] {
  const decisions: Decision[] = [];
  for (const { event, seq, time } of events) {
    const what = decisionText(run, event);
    if (what !== undefined) decisions.push({ seq, time, what });
  }
  return decisions;
}

function decisionText(run: Run, event: RunEvent): string | undefined {
  switch (event.type) {
    case "step.skipped": {
      if (event.by !== undefined) return `${visitText(event)} was skipped by ${event.by}`;
      const visit = findVisit(run, event);
      const when = visit === undefined ? "" : `: \`${stepOf(visit).when ?? ""}\` is false`;
      return `${visitText(event)} was skipped${when}`;
    }
    case "step.started": {
      const { conversation, fidelity } = event;
      const briefing = fidelity === undefined ? undefined : briefingText(fidelity);
      if (conversation === undefined) return briefing && `${attemptText(event)}: ${briefing}`;
      const verb =
        conversation.kind === "start" ? "started a conversation" : "continued a conversation";
      const { says, why } = conversation;
      const note = briefing === undefined ? "" : `; ${briefing}`;
      return `${attemptText(event)} ${verb} (${says}): ${why}${note}`;
    }
    case "step.recalled": {
      const { found } = event;
      const said = found === undefined ? rejectedText(event) : `was ${reusedText(found.from)}`;
      return said && `${attemptText(event)} ${said}`;
    }
    case "step.answered":
      return `${attemptText(event)}: ${answerText(event)}`;
    case "step.completed":
    case "step.failed":
      return edgesText(run, event);
    case "step.continued":
      return `${attemptText(event)} was asked again (${event.ask.kind}): ${messageText(event.ask.why)}`;
    case "step.submitted":
      return `${attemptText(event)} was handed to its judge`;
    case "step.relayed":
      return `${attemptText(event)} handed over to a new conversation`;
    case "step.granted":
      return `${visitText(event)} was granted ${countText(event.attempts, "more attempt")}`;
    default:
      return runText(event);
  }
}

function runText(event: RunEvent): string | undefined {
  switch (event.type) {
    case "run.restarted":
      return `the run restarted at ${stepPath(event)} (restart ${event.number})`;
    case "run.stopping":
      return `a stop was requested (${event.mode}): ${messageText(stopText(event.reason))}`;
    case "run.messaged":
      return `${stepPath(event)} got a message: ${messageLine(event.message)}`;
    case "request.handled":
      return requestText(event);
    case "run.funded":
      return fundsText(event);
    case "run.rewound": {
      const assumed =
        event.assumed.length === 0 ? "" : `, treating ${event.assumed.join(", ")} as completed`;
      return event.items === undefined
        ? `the run was rewound to ${event.step}${assumed}`
        : `the failed items of ${event.step} ran again: ${event.items.join(", ")}`;
    }
    default:
      return undefined;
  }
}

/** Only where there was a choice: a condition, or one edge of several. */
function edgesText(
  run: Run,
  event: Extract<RunEvent, { type: "step.completed" | "step.failed" }>,
): string | undefined {
  const visit = findVisit(run, event);
  if (visit === undefined || (event.type === "step.failed" && event.retry !== undefined)) {
    return undefined;
  }
  const { scope, position } = visit.record;
  const on = event.type === "step.failed" ? "failed" : "completed";
  const candidates = (indexOf(scope.graph).outgoing[position] ?? [])
    .map((index) => scope.graph.edges[index])
    .filter((edge) => edge?.on === on);
  const free = candidates.some((edge) => edge?.condition !== undefined);
  if (!free && (stepOf(visit).split === "all" || candidates.length < 2)) return undefined;
  const targets = edgeTargets(run, event);
  const chosen = targets.length === 0 ? "none" : targets.join(", ");
  const said = stepReportText(event.reported);
  const because = said === "" ? "" : `; it reported ${said}`;
  return `${visitText(event)} chose ${chosen} of ${countText(candidates.length, "edge")}${because}`;
}

interface ContextWrite {
  readonly seq: number;
  readonly time: number;
  /** The attempt that wrote it, as in `fix@2.3`. */
  readonly by: string;
  readonly key: string;
  /** Absent when the key is new. */
  readonly before?: Json;
  readonly after: Json;
}

/** All changes in their order, without values that were written again unchanged. */
export function contextHistory(run: Run, events: Iterable<Recorded>): readonly ContextWrite[] {
  const known = new Map<string, Map<string, Json>>();
  const changes: ContextWrite[] = [];
  for (const { event, seq, time } of events) {
    if (event.type === "run.restarted") forget(known, event);
    if (event.type !== "step.completed" && event.type !== "step.failed") continue;
    // A branch has values of its own.
    const owner = contextOwner(run, event.scope);
    const values = known.get(owner) ?? new Map<string, Json>();
    known.set(owner, values);
    for (const [key, after] of Object.entries(event.context ?? {})) {
      const before = values.get(key);
      values.set(key, after);
      if (before !== undefined && JSON.stringify(before) === JSON.stringify(after)) continue;
      const change = { seq, time, by: attemptText(event), key, after };
      changes.push(before === undefined ? change : { ...change, before });
    }
  }
  return changes;
}

function forget(
  known: ReadonlyMap<string, Map<string, Json>>,
  { scope, keep }: Extract<RunEvent, { type: "run.restarted" }>,
): void {
  const values = known.get(scope);
  for (const key of [...(values?.keys() ?? [])]) if (!keep.includes(key)) values?.delete(key);
}

interface Ownership {
  readonly epoch: number;
  readonly owner: Owner;
  readonly from: number;
  /** Its last event. */
  readonly until: number;
  /** How it ended, in words. */
  readonly left: string;
}

/** The owners of a run in their order; `liveness` says whether the last one lives. */
export function ownerHistory(events: Iterable<Recorded>, liveness: Liveness): readonly Ownership[] {
  const ownerships: Ownership[] = [];
  let current: Omit<Ownership, "left"> | undefined;
  let left: string | undefined;
  const close = (how: string): void => {
    if (current !== undefined) ownerships.push({ ...current, left: left ?? how });
  };
  const open = new OpenAttempts();
  for (const { event, time } of events) {
    // An update and the resume after it open the run under one lease.
    if (event.type === "run.opened" && event.epoch !== current?.epoch) {
      close(open.onlyAsk() ? ASKING : "ended without releasing the lease");
      current = { epoch: event.epoch, owner: event.owner, from: time, until: time };
      left = undefined;
      continue;
    }
    if (current !== undefined) current = { ...current, until: time };
    left = leavingText(event) ?? left;
    open.take(event);
  }
  close(liveness !== "owned" && open.onlyAsk() ? ASKING : LEAVINGS[liveness]);
  return ownerships;
}

/** A run that only waits for an answer needs no owner. */
const ASKING = "ended while it waited for a person";

/** The running attempts, and whether all of them only wait for answers. */
class OpenAttempts {
  readonly #scopes = new Map<string, string>();
  readonly #asked = new Set<string>();

  take(event: RunEvent): void {
    if (event.type === "step.started") this.#scopes.set(attemptText(event), event.scope);
    if (event.type === "step.asked") this.#asked.add(attemptText(event));
    const end = attemptEnd(event);
    if (end === undefined) return;
    this.#scopes.delete(attemptText(end));
    this.#asked.delete(attemptText(end));
  }

  /** A composite step around an open question waits as well. */
  onlyAsk(): boolean {
    const around = [...this.#asked].map((at) => this.#scopes.get(at) ?? "");
    const waits = (at: string): boolean =>
      this.#asked.has(at) || around.some((scope) => scope.startsWith(`${at}[`));
    return this.#asked.size > 0 && [...this.#scopes.keys()].every(waits);
  }
}

const LEAVINGS: Readonly<Record<Liveness, string>> = {
  owned: "owns it now",
  orphaned: "died",
  free: "released it",
};

function leavingText(event: RunEvent): string | undefined {
  switch (event.type) {
    case "run.completed":
      return "completed it";
    case "run.failed":
      return "ended it: failed";
    case "run.stopped":
      return `stopped it: ${stopText(event.reason)}`;
    default:
      return undefined;
  }
}

/** "ada on laptop, pid 4711", or "ada on laptop with dashboard, pid 4711". */
export function ownerText({ user, host, pid, through }: Owner): string {
  return `${user} on ${host}${through === undefined ? "" : ` with ${through}`}, pid ${pid}`;
}
