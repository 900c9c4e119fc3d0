/**
 * The gates executor: reads answers from the inbox. A person at the terminal, the timeout and
 * `--auto-approve` add their answers to the inbox as well.
 *
 * Owns: the path of an answer from the inbox, which decides which answer counts (journal/H1), to the
 *   loop.
 * Does not: decide what follows (core/attempt/gate.ts).
 * Invariants:
 * - engine/E6 An answer becomes a fact only after the inbox has recorded it as the first one, so the next
 *   owner finds the answers of an owner that died in between.
 */
import type { OperationOf } from "../../core/action.ts";
import { approvingChoice, deadlineOf } from "../../core/attempt/gate.ts";
import type { Answer, AttemptRef } from "../../core/event.ts";
import { waitsFor } from "../../core/graph/visit-state.ts";
import { attemptOf, findVisit, type Run, stepOf } from "../../core/run.ts";
import { attemptText } from "../../core/step-path.ts";
import type { Answered, Inbox } from "../../journal/inbox.ts";
import { defined } from "../../util/defined.ts";
import { failpoint } from "../../util/failpoint.ts";
import type { Executor, FactWriter } from "./executor.ts";

interface GatesOptions {
  readonly inbox: Inbox;
  readonly run: () => Run;
  readonly now: () => number;
  /** The person who answers here: `user@host`. */
  readonly by: string;
  /** True to answer every question with the choice that approves. */
  readonly autoApprove: boolean;
}

type Reply = Pick<Answer, "choice" | "text" | "from">;

/** The questions of one run, for one owner. */
export class GateExecutor implements Executor<"expire"> {
  readonly #options: GatesOptions;
  /** Attempts whose answer was reported and is not part of the run yet. */
  readonly #taken = new Set<string>();
  /** Answers of this process that are being recorded. */
  readonly #pending = new Set<Promise<unknown>>();

  constructor(options: GatesOptions) {
    this.#options = options;
  }

  /** Reports new answers, and approves open questions with `--auto-approve`. */
  async look(writer: FactWriter): Promise<void> {
    const { inbox, run, autoApprove } = this.#options;
    const open = [...run().waiting.person]
      .map(attemptOf)
      .filter((at) => !this.#taken.has(attemptText(at)));
    if (open.length === 0) return;
    const answers = await inbox.answers(run().id);
    for (const at of open) {
      const answer = answers.get(attemptText(at));
      if (answer !== undefined) this.#take(writer, at, answer);
      else if (autoApprove) await this.#approve(writer, at);
    }
  }

  /** The deadline of a question has passed: its default counts, unless it has an answer. */
  begin({ at }: OperationOf<"expire">, writer: FactWriter): void {
    const { run } = this.#options;
    const visit = findVisit(run(), at);
    if (!waitsFor(visit?.state, "person") || this.#taken.has(attemptText(at))) return;
    const reply = { from: "timeout", ...defined({ choice: visit.state.default }) } as const;
    this.give(writer, at, reply).catch((error: unknown) => writer.fail(error));
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#pending);
  }

  async #approve(writer: FactWriter, at: AttemptRef): Promise<void> {
    const visit = findVisit(this.#options.run(), at);
    // `--auto-approve` approves the pipeline, not tool calls that the pipeline does not name.
    if (visit !== undefined && stepOf(visit).work.kind !== "gate") return;
    const choices = waitsFor(visit?.state, "person") ? visit.state.choices : [];
    const choice = approvingChoice(choices)?.key;
    if (choice !== undefined) await this.give(writer, at, { choice, from: "auto-approve" });
  }

  /** Gives an answer from this process; returns whether it was the first. */
  give(writer: FactWriter, at: AttemptRef, reply: Reply): Promise<Answered> {
    const claim = this.#recordAnswer(writer, at, reply);
    this.#pending.add(claim);
    return claim.finally(() => this.#pending.delete(claim));
  }

  async #recordAnswer(writer: FactWriter, at: AttemptRef, reply: Reply): Promise<Answered> {
    const { inbox, run, by, now } = this.#options;
    const answer: Answer = { ...reply, by, given: now() };
    failpoint("gate.claim");
    const visit = findVisit(run(), at);
    const deadline = visit && deadlineOf(visit, by);
    const attempt = attemptText(at);
    const answered = await inbox.answer(run().id, { attempt, answer, deadline });
    failpoint("gate.claimed");
    this.#take(writer, at, answered.answer);
    return answered;
  }

  #take(writer: FactWriter, at: AttemptRef, answer: Answer): void {
    const key = attemptText(at);
    if (this.#taken.has(key)) return;
    this.#taken.add(key);
    writer.post({ type: "answered", at, answer });
  }
}
