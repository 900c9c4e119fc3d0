/**
 * `explain RUN STEP`: why each attempt of a step was started, and whether its result is used now. A
 * fold over the events alone.
 *
 * Owns: the causes, in words.
 * Does not: use anything but the journal's events.
 */

import { deniedText } from "../core/conversation/permission.ts";
import type { Conversation, Recorded, RunEvent } from "../core/event.ts";
import { attemptText, parseVisit, stepPath, visitText } from "../core/step-path.ts";
import { formatDuration } from "../util/duration.ts";
import { briefingText, leftoverText } from "./attempt-history.ts";
import { failureText, messageText, uncertaintyText } from "./failure-text.ts";
import type { DocumentJson } from "./json/documents.ts";
import { rerunText } from "./preview/update-plan.ts";
import { recallNotes, reusedText, unusableText } from "./reuse-text.ts";
import { countText, isoText, utcText } from "./text.ts";

export interface Explained {
  readonly step: string;
  readonly attempts: readonly ExplainedAttempt[];
  /** Updates that kept its result, with the reason. */
  readonly kept: readonly { readonly time: number; readonly why: string }[];
  /** The state of the step now, in a sentence. */
  readonly now: string;
}

interface ExplainedAttempt {
  /** `fix@2.3`; a skipped visit has no attempt: `fix@2`. */
  readonly at: string;
  readonly time: number;
  /** Why it was started. */
  readonly cause: string;
  /** Details of its start: its files, its conversation. */
  readonly notes: readonly string[];
  /** How it ended; absent while it runs. */
  readonly end?: string;
}

/** Why the attempts of a step were started; undefined when the run has no such step. */
export function explainStep(
  events: readonly Recorded[],
  path: string,
  fingerprint: string | undefined,
): Explained | undefined {
  const history = new StepHistory(path);
  for (const recorded of events) history.add(recorded);
  return history.explained(fingerprint);
}

/** The lines for a person. */
export function explainLines(explained: Explained): readonly string[] {
  const lines: string[] = [];
  for (const { at, time, cause, notes, end } of explained.attempts) {
    lines.push(`${at}  ${utcText(time)} UTC: ${cause}`);
    lines.push(...notes.map((note) => `  ${note}`));
    lines.push(`  ${end ?? "it has not ended yet"}`);
  }
  for (const { time, why } of explained.kept) lines.push(`kept  ${utcText(time)} UTC: ${why}`);
  return [...lines, explained.now];
}

/** The value of `explain --json`. */
export function explainJson(
  runId: string,
  { step, attempts, kept, now }: Explained,
): DocumentJson<"explain"> {
  return {
    run_id: runId,
    step,
    attempts: attempts.map(({ at, time, cause, notes, end = null }) => {
      const { visit = 0, attempt = null } = parseVisit(at);
      return { visit, attempt, time: isoText(time), cause, notes, end };
    }),
    kept: kept.map(({ time, why }) => ({ time: isoText(time), why })),
    now,
  };
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type StepEvent = Extract<RunEvent, { readonly scope: string }>;

/** Collects the attempts of one step and their causes, event by event. */
class StepHistory {
  readonly #path: string;
  readonly #attempts: Mutable<ExplainedAttempt>[] = [];
  readonly #kept: { time: number; why: string }[] = [];
  /** Why the next attempt will start; undefined: nothing asks for one. */
  #cause: string | undefined = "all steps that it depends on had completed";
  /** The user who owns the run, and so made its requests. */
  #who = "somebody";
  #startedAt = 0;
  #failures = 0;
  #seen = false;
  /** The state of its last visit. */
  #state: "none" | "open" | "done" | "failed" | "uncertain" | "past" | "gone" = "none";
  #endedAt = 0;

  constructor(path: string) {
    this.#path = path;
  }

  add(recorded: Recorded): void {
    const { event } = recorded;
    if ("scope" in event && "step" in event) {
      if (stepPath(event) === this.#path) this.#own({ ...recorded, event });
    } else if (event.type === "run.opened") this.#who = event.owner.user;
    else if (event.type === "run.rewound") this.#rewound(event);
    else if (event.type === "run.updated") this.#updated(event, recorded.time);
  }

  #own({ event, time }: Recorded<StepEvent>): void {
    this.#seen = true;
    switch (event.type) {
      case "step.started":
        return this.#started(event, time);
      case "step.granted": {
        const attempts = countText(event.attempts, "more attempt");
        this.#cause = `${this.#who} resumed the run, which granted ${attempts}`;
        return;
      }
      case "step.recalled":
        for (const note of recallNotes(event)) this.#note(note);
        return;
      case "step.adopted":
        this.#note(ADOPTED[event.found]);
        return;
      case "step.skipped":
        this.#attempts.push({
          at: visitText(event),
          time,
          cause: this.#cause ?? LOOP,
          notes: [],
          end:
            event.by === undefined
              ? "it was skipped: its condition was false"
              : `${event.by} skipped it`,
        });
        return this.#ended("done", time, LOOP);
      default:
        return this.#attemptEnded(event, time);
    }
  }

  #started(event: Extract<StepEvent, { type: "step.started" }>, time: number): void {
    const { conversation, fidelity, restore, judge } = event;
    const notes = [
      ...(judge === undefined
        ? []
        : [`${judge} judged the work; the work itself was not repeated`]),
      ...(restore === true ? ["its files were restored to the start of the visit"] : []),
      ...(conversation === undefined ? [] : [conversationText(conversation)]),
      ...(fidelity === undefined ? [] : [briefingText(fidelity)]),
    ];
    this.#attempts.push({ at: attemptText(event), time, cause: this.#cause ?? LOOP, notes });
    this.#startedAt = time;
    this.#failures = event.attempt === 1 ? 0 : this.#failures;
    this.#state = "open";
    this.#cause = undefined;
  }

  #attemptEnded(event: StepEvent, time: number): void {
    const took = ` after ${formatDuration(Math.max(0, time - this.#startedAt))}`;
    this.#note(leftoverText("left" in event ? event.left : undefined));
    const denied = "denied" in event ? event.denied : undefined;
    if (denied !== undefined) this.#note(deniedText(denied));
    switch (event.type) {
      case "step.completed":
        this.#end(
          `it completed${took}${event.from === undefined ? "" : `: ${reusedText(event.from)}`}`,
        );
        this.#note(unusableText(event));
        return this.#ended("done", time, LOOP);
      case "step.failed": {
        this.#end(`it failed${took}: ${failureText(event)}`);
        this.#failures++;
        if (event.retry === undefined) return this.#ended("failed", time, LOOP);
        const times = this.#failures === 1 ? "once" : `${this.#failures} times`;
        return this.#ended("open", time, `it had failed ${times} and had attempts left`);
      }
      case "step.lost":
        this.#end(`it was lost${took}: ${messageText(event.message)}`);
        return this.#ended(
          event.retry === undefined ? "failed" : "open",
          time,
          "its process had been lost, which does not use up an attempt",
        );
      case "step.paused":
        this.#end(`it paused${took} (${event.reason})`);
        return this.#ended("open", time, `the pause had ended (${event.reason})`);
      case "step.interrupted":
        this.#end(`it was interrupted${took}: ${messageText(event.message)}`);
        return this.#ended("open", time, "it had been interrupted, and the run was resumed");
      case "step.continued":
        this.#end(`its conversation continues in the next attempt: ${messageText(event.ask.why)}`);
        return this.#ended("open", time, messageText(event.ask.why));
      case "step.submitted":
        this.#end(`it finished its work${took}; the judge was asked next`);
        return this.#ended("open", time, "the judge had to look at its work");
      case "step.relayed":
        this.#end("it handed over to a new conversation");
        return this.#ended("open", time, "the previous conversation had handed over");
      case "step.uncertain":
        this.#end(`it ${uncertaintyText(event)}`);
        return this.#ended("uncertain", time, LOOP);
      case "step.probed":
      case "step.settled":
        return this.#end(`it ${uncertaintyText(event)}`);
      default:
        return;
    }
  }

  #rewound(event: Extract<RunEvent, { type: "run.rewound" }>): void {
    if (event.assumed.includes(this.#path)) {
      this.#state = "done";
      this.#note(`${this.#who} continued from ${event.step}, which treats this step as completed`);
    }
    if (!event.reopened.includes(this.#outer())) return;
    const asked = event.step === this.#path;
    const files = event.restore === undefined ? "" : "; the files were restored first";
    const request = asked ? "asked to run it again" : `rewound the run to ${event.step}`;
    this.#past(`${this.#who} ${request}${files}`);
  }

  #updated(event: Extract<RunEvent, { type: "run.updated" }>, time: number): void {
    const outer = this.#outer();
    const rerun = event.rerun.find(({ step }) => step === outer);
    const files = event.restore === undefined ? "" : "; the files were restored first";
    if (rerun !== undefined) {
      this.#seen ||= outer === this.#path;
      this.#past(`${this.#who} adopted an edit of the pipeline: ${rerunText(rerun)}${files}`);
    } else if (event.gone.includes(outer)) this.#state = "gone";
    else if (this.#state === "done" && event.kept.includes(outer)) {
      this.#kept.push({
        time,
        why: `${this.#who} adopted an edit that changes neither this step nor anything that it depends on`,
      });
    }
  }

  #past(cause: string): void {
    this.#cause = cause;
    if (this.#state !== "none") this.#state = "past";
  }

  /** The step of the pipeline that contains it, or the step itself. */
  #outer(): string {
    return this.#path.split("@", 1)[0] ?? "";
  }

  #ended(state: "open" | "done" | "failed" | "uncertain", time: number, next: string): void {
    this.#state = state;
    this.#endedAt = time;
    this.#cause = next;
  }

  #note(text: string | undefined): void {
    const last = this.#attempts.at(-1);
    if (last !== undefined && text !== undefined) last.notes = [...last.notes, text];
  }

  /** How its last attempt ended. An earlier end, such as an uncertain effect, becomes a note. */
  #end(text: string): void {
    const last = this.#attempts.at(-1);
    this.#note(last?.end);
    if (last !== undefined) last.end = text;
  }

  explained(fingerprint: string | undefined): Explained | undefined {
    if (!this.#seen && fingerprint === undefined && this.#state === "none") return undefined;
    const [attempts, kept] = [this.#attempts, this.#kept];
    return { step: this.#path, attempts, kept, now: this.#now(fingerprint) };
  }

  #now(fingerprint: string | undefined): string {
    const print = fingerprint === undefined ? "" : ` (fingerprint ${fingerprint.slice(0, 12)})`;
    switch (this.#state) {
      case "none":
        return "It has not run yet.";
      case "open":
        return "It has not completed; resume continues it.";
      case "done":
        return this.#endedAt === 0
          ? "It is treated as completed: a person continued the run from a later step."
          : `Its result of ${utcText(this.#endedAt)} UTC is used: ` +
              `nothing that it depends on has changed${print}.`;
      case "failed":
        return "It failed and has no result.";
      case "uncertain":
        return "It may or may not have happened; it has no result before that is settled.";
      case "past":
        return `Its earlier results are not used any more; it runs again because ${this.#cause ?? ""}.`;
      case "gone":
        return this.#attempts.length === 0
          ? "It is no longer in the pipeline, and it never ran."
          : "It is no longer in the pipeline; its results are history.";
    }
  }
}

/** The cause without a request. */
const LOOP = "an edge led to it again";

const ADOPTED = {
  alive: "its runner had ended; the next one found it running and re-attached",
  ended: "its runner had ended; the next one used its result",
  result: "its process died; the agent's final answer was used",
} as const;

function conversationText({ kind, session, why }: Conversation): string {
  const which = session === undefined ? "" : ` ${session}`;
  const what = kind === "start" ? "it started a conversation" : "it continued the conversation";
  return `${what}${which}: ${why}`;
}
