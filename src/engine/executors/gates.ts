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
import type { Operation } from "../../core/action.ts";
import type { Answer, AttemptRef } from "../../core/event.ts";
import { approvingChoice, deadlineOf } from "../../core/gate.ts";
import { attemptText } from "../../core/place.ts";
import { attemptOf, findVisit, type Run, stepOf } from "../../core/run.ts";
import { waitsFor } from "../../core/visit-state.ts";
import type { Answered, Journal } from "../../journal/journal.ts";
import { failpoint } from "../../util/failpoint.ts";
import type { GatesExecutor, Outlet } from "./executor.ts";

export interface GatesOptions {
  readonly journal: Journal;
  readonly run: () => Run;
  readonly now: () => number;
  /** Who answers here: `user@host`. */
  readonly by: string;
  /** Whether every question is answered with the choice that approves. */
  readonly autoApprove: boolean;
}

type Reply = Pick<Answer, "choice" | "text">;

/** The questions of one run, for one owner. */
export class GateExecutor implements GatesExecutor {
  readonly #options: GatesOptions;
  /** Attempts whose answer is on its way into the run. */
  readonly #taken = new Set<string>();

  constructor(options: GatesOptions) {
    this.#options = options;
  }

  /** Takes up what was answered, and approves what is asked where that was wanted. */
  look(outlet: Outlet): void {
    const { journal, run, autoApprove } = this.#options;
    const open = [...run().waiting.person]
      .map(attemptOf)
      .filter((at) => !this.#taken.has(attemptText(at)));
    if (open.length === 0) return;
    const answers = journal.answersOf(run().id);
    for (const at of open) {
      const answer = answers.get(attemptText(at));
      if (answer !== undefined) this.#take(outlet, at, answer);
      else if (autoApprove) this.#approve(outlet, at);
    }
  }

  /** The time of a question is over: its default counts, unless somebody was faster. */
  begin({ at }: Extract<Operation, { type: "expire" }>, outlet: Outlet): void {
    const { run } = this.#options;
    const visit = findVisit(run(), at);
    if (!waitsFor(visit?.state, "person") || this.#taken.has(attemptText(at))) return;
    const { default: otherwise } = visit.state;
    this.#claim(outlet, at, "timeout", otherwise === undefined ? {} : { choice: otherwise });
  }

  /** Gives an answer from this process; says whether it was the first. */
  give(outlet: Outlet, at: AttemptRef, reply: Reply): Answered {
    return this.#claim(outlet, at, "terminal", reply);
  }

  async close(): Promise<void> {
    // It holds nothing: answers stay in the journal.
  }

  #approve(outlet: Outlet, at: AttemptRef): void {
    const visit = findVisit(this.#options.run(), at);
    // Whoever approves everything approves of the pipeline, not of calls that it does not name.
    if (visit !== undefined && stepOf(visit).work.kind !== "gate") return;
    const choices = waitsFor(visit?.state, "person") ? visit.state.choices : [];
    const choice = approvingChoice(choices)?.key;
    if (choice !== undefined) this.#claim(outlet, at, "auto-approve", { choice });
  }

  #claim(outlet: Outlet, at: AttemptRef, from: Answer["from"], reply: Reply): Answered {
    const { journal, run, by, now } = this.#options;
    const given: Answer = { ...reply, by, from, given: now() };
    failpoint("gate.claim");
    const visit = findVisit(run(), at);
    const deadline = visit && deadlineOf(visit, by);
    const answered = journal.answer(run().id, attemptText(at), given, deadline);
    failpoint("gate.claimed");
    this.#take(outlet, at, answered.answer);
    return answered;
  }

  #take(outlet: Outlet, at: AttemptRef, answer: Answer): void {
    const key = attemptText(at);
    if (this.#taken.has(key)) return;
    this.#taken.add(key);
    outlet.post({ type: "answered", at, answer });
  }
}
