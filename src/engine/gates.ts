/**
 * The gates of a run in its owner's hands: answers are taken from where they are kept, and whoever
 * answers here, a terminal, the clock or `--auto-approve`, does it there as well.
 *
 * Owns: the way of an answer from the journal's arbiter (H1) to the mailbox.
 * Does not: decide what follows (core/gate.ts).
 * Invariants:
 * - E6 An answer becomes a fact only after it was recorded as the first: what a runner that died in
 *   between had claimed is found by the next.
 */
import type { Answer, AttemptRef } from "../core/event.ts";
import type { Fact } from "../core/fact.ts";
import { approvingChoice, deadlineOf } from "../core/gate.ts";
import { attemptOf } from "../core/next-actions.ts";
import { attemptText } from "../core/place.ts";
import { findVisit, type Run } from "../core/run.ts";
import type { Answered, Journal } from "../journal/journal.ts";
import { failpoint } from "../util/failpoint.ts";

/** How often an owner looks for answers that nobody told it of. */
export const ANSWER_LOOK_MS = 2_000;

export interface GatesOptions {
  readonly journal: Journal;
  readonly run: () => Run;
  readonly post: (fact: Fact) => void;
  readonly now: () => number;
  /** Who answers here: `user@host`. */
  readonly by: string;
  /** Whether every question is answered with the choice that approves. */
  readonly autoApprove: boolean;
}

/** The questions of one run, for one owner. */
export class Gates {
  readonly #options: GatesOptions;
  /** Attempts whose answer is on its way into the run. */
  readonly #taken = new Set<string>();

  constructor(options: GatesOptions) {
    this.#options = options;
  }

  /** Takes up what was answered, and approves what is asked where that was wanted. */
  look(): void {
    const { journal, run, autoApprove } = this.#options;
    for (const visit of run().asked) {
      const at = attemptOf(visit);
      if (this.#taken.has(attemptText(at))) continue;
      const answer = journal.answerTo(run().id, attemptText(at));
      if (answer !== undefined) this.#take(at, answer);
      else if (autoApprove) this.#approve(at);
    }
  }

  /** Its time is over: the default counts, unless somebody was faster. */
  expire(at: AttemptRef): void {
    const { run } = this.#options;
    const visit = findVisit(run(), at);
    if (visit?.state.status !== "asked" || this.#taken.has(attemptText(at))) return;
    const { default: otherwise } = visit.state;
    this.#claim(at, "timeout", otherwise === undefined ? {} : { choice: otherwise });
  }

  /** Gives an answer from this process; says whether it was the first. */
  give(at: AttemptRef, reply: Pick<Answer, "choice" | "text">): Answered {
    return this.#claim(at, "terminal", reply);
  }

  #approve(at: AttemptRef): void {
    const visit = findVisit(this.#options.run(), at);
    const choices = visit?.state.status === "asked" ? visit.state.choices : [];
    const choice = approvingChoice(choices)?.key;
    if (choice !== undefined) this.#claim(at, "auto-approve", { choice });
  }

  #claim(at: AttemptRef, from: Answer["from"], reply: Pick<Answer, "choice" | "text">): Answered {
    const { journal, run, by, now } = this.#options;
    const given: Answer = { ...reply, by, from, given: now() };
    failpoint("gate.claim");
    const visit = findVisit(run(), at);
    const deadline = visit && deadlineOf(visit, by);
    const answered = journal.answer(run().id, attemptText(at), given, deadline);
    failpoint("gate.claimed");
    this.#take(at, answered.answer);
    return answered;
  }

  #take(at: AttemptRef, answer: Answer): void {
    const key = attemptText(at);
    if (this.#taken.has(key)) return;
    this.#taken.add(key);
    this.#options.post({ type: "answered", at, answer });
  }
}
