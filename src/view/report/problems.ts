/**
 * The problems of a run and how each was handled: failures, losses, pauses, interruptions and
 * owners that disappeared; a fold over the events.
 *
 * Owns: these words.
 * Does not: say why an attempt failed; failure-text.ts does.
 */
import type { Recorded, RunEvent } from "../../core/event.ts";
import type { Run } from "../../core/run.ts";
import { attemptText, ROOT_SCOPE, stepPath, visitText } from "../../core/step-path.ts";
import { formatDuration } from "../../util/duration.ts";
import { ADOPTION_WORDS, isSpared } from "../event-line.ts";
import { failureText, messageText } from "../failure-text.ts";
import { countText } from "../text.ts";
import { edgeTargets } from "./history.ts";

/** `orphaned`: its owner had died, and the next owner found it or its result. */
type ProblemKind = "failed" | "lost" | "paused" | "interrupted" | "orphaned";

interface Problem {
  readonly seq: number;
  readonly time: number;
  /** The attempt, as in `fix@2.3`. */
  readonly at: string;
  readonly kind: ProblemKind;
  readonly why: string;
  /** What was done about it, in order. */
  readonly handling: readonly string[];
}

type ProblemEvent = Extract<
  RunEvent,
  { type: "step.failed" | "step.lost" | "step.paused" | "step.interrupted" }
>;

interface Open {
  readonly event: ProblemEvent;
  readonly handling: string[];
}

/** All problems in their order. */
export function problemHistory(run: Run, events: Iterable<Recorded>): readonly Problem[] {
  const problems: Problem[] = [];
  /** By visit: the last problem that nothing has handled yet. */
  const open = new Map<string, Open>();
  let owner = "";
  for (const { event, seq, time } of events) {
    switch (event.type) {
      case "step.failed":
      case "step.lost":
      case "step.paused":
      case "step.interrupted": {
        const handling = [...atOnce(run, event)];
        if (handling.length === 0) open.set(visitText(event), { event, handling });
        const at = attemptText(event);
        problems.push({ seq, time, at, kind: KINDS[event.type], why: whyText(event), handling });
        break;
      }
      case "step.adopted": {
        const why = "its owner died while it ran";
        const handling = [`${owner}: it ${ADOPTION_WORDS[event.found]}`];
        problems.push({ seq, time, at: attemptText(event), kind: "orphaned", why, handling });
        break;
      }
      case "run.opened":
        owner = `owner ${event.epoch} (${event.owner.user} on ${event.owner.host})`;
        break;
      case "step.granted":
        addGrant(open, event, owner);
        break;
      case "step.started":
        addStart(open, event, owner);
        break;
      case "run.rewound":
        addRewind(open, event, owner);
        break;
      default:
    }
  }
  return problems;
}

const KINDS = {
  "step.failed": "failed",
  "step.lost": "lost",
  "step.paused": "paused",
  "step.interrupted": "interrupted",
} as const;

function whyText(event: ProblemEvent): string {
  if (event.type === "step.failed") return failureText(event);
  const tool = "tool" in event ? event.tool : undefined;
  const last = tool === undefined ? "" : `; its last tool was ${tool.name}`;
  const reason = event.type === "step.paused" ? `${event.reason}: ` : "";
  return `${reason}${messageText(event.message)}${last}`;
}

/** How the event itself says that it is handled. */
function atOnce(run: Run, event: ProblemEvent): readonly string[] {
  if (event.type === "step.interrupted") return [];
  if (event.retry !== undefined) {
    const { delayMs } = event.retry;
    const delay = delayMs === 0 ? "at once" : `after ${formatDuration(delayMs)}`;
    return [`retried ${delay}`];
  }
  if (event.type !== "step.failed") return [];
  if (event.edges.length > 0) {
    return [`the pipeline continued with ${edgeTargets(run, event).join(", ")}`];
  }
  return event.handled === true || isSpared(run, event)
    ? ["the pipeline continued without it"]
    : [];
}

/** A grant for a step inside a composite step also handles the failure of the composite step. */
function addGrant(
  open: Map<string, Open>,
  event: Extract<RunEvent, { type: "step.granted" }>,
  owner: string,
): void {
  open
    .get(visitText(event))
    ?.handling.push(`${owner} granted ${countText(event.attempts, "more attempt")}`);
  for (const { index } of event.scope.matchAll(INSTANCE)) {
    const handling = open.get(event.scope.slice(0, index))?.handling;
    const text = `${owner} granted more attempts to the failed steps inside it`;
    if (handling?.includes(text) === false) handling.push(text);
  }
}

/** In a scope's id, the attempt and item after each composite visit. */
const INSTANCE = /\.\d+\[\d+\]\//g;

function addStart(
  open: Map<string, Open>,
  event: Extract<RunEvent, { type: "step.started" }>,
  owner: string,
): void {
  const answered = open.get(visitText(event));
  if (answered === undefined) return;
  const verb = event.conversation?.kind === "continue" ? "continued with" : "started";
  answered.handling.push(`${owner} ${verb} ${attemptText(event)}`);
  open.delete(visitText(event));
}

function addRewind(
  open: Map<string, Open>,
  event: Extract<RunEvent, { type: "run.rewound" }>,
  owner: string,
): void {
  const steps = new Set([...event.reopened, ...event.assumed]);
  for (const [visit, { event: problem, handling }] of open) {
    const root =
      problem.scope === ROOT_SCOPE ? stepPath(problem) : (problem.scope.split("@")[0] ?? "");
    if (!steps.has(root)) continue;
    handling.push(
      event.assumed.includes(root)
        ? `${owner} treated ${root} as completed and continued from ${event.step}`
        : `${owner} rewound the run to ${event.step}`,
    );
    open.delete(visit);
  }
}
