/** What must hold of questions to people in every simulated run. */
import type { RunEvent } from "../../src/core/event.ts";
import { waitsFor } from "../../src/core/graph/visit-state.ts";
import { currentVisit, type Run, stepOf, type Visit } from "../../src/core/run.ts";
import { attemptText } from "../../src/core/step-path.ts";
import type { MemoryJournal } from "../../src/journal/memory.ts";
import { edgeAt, indexOf } from "../../src/plan/graph-index.ts";
import { Violation } from "./conversation-checkers.ts";

export class PeopleCheckers {
  readonly #journal: MemoryJournal;
  readonly #runId: string;
  readonly #asked = new Set<string>();
  readonly #answered = new Set<string>();
  /** The question whose answer the event before recorded. */
  #fresh: string | undefined;

  constructor(journal: MemoryJournal, runId: string) {
    this.#journal = journal;
    this.#runId = runId;
  }

  /** A question has at most one answer, which is the first that was recorded, and ends with it. */
  afterEvent(event: RunEvent): void {
    const fresh = this.#fresh;
    this.#fresh = undefined;
    if (event.type === "step.asked") {
      const key = attemptText(event);
      if (this.#asked.has(key)) fail(`${key} was asked twice`);
      this.#asked.add(key);
    }
    if (event.type === "step.answered") {
      const key = attemptText(event);
      if (!this.#asked.has(key)) fail(`${key} was answered but not asked`);
      if (this.#answered.has(key)) fail(`${key} was answered twice`);
      this.#answered.add(key);
      const first = this.#journal.contents.answers(this.#runId).get(key);
      if (first === undefined) fail(`${key} was answered by nobody`);
      if (first.choice !== event.choice) fail(`${key}: the first answer does not count`);
      this.#fresh = key;
    }
    if (event.type !== "step.completed" && event.type !== "step.failed") return;
    const key = attemptText(event);
    if (this.#asked.has(key) && fresh !== key) fail(`${key} ended without an answer`);
  }

  /** What waits for a gate in the same round does not run while the gate is asked. */
  afterAppend(run: Run): void {
    for (const visit of run.waiting.person) {
      const { graph, steps } = visit.record.scope;
      if (graph.edges.some(({ back }) => back)) continue;
      for (const index of indexOf(graph).outgoing[visit.record.position] ?? []) {
        const behind = currentVisit(steps[edgeAt(graph, index).to]);
        if (behind === undefined || stepOf(behind).join !== "all") continue;
        if (isUnder(run, behind, visit)) fail(`${stepOf(behind).id} runs behind a question`);
      }
    }
  }
}

/** True for what was started since the question was put, and runs. */
function isUnder(run: Run, behind: Visit, { state }: Visit): boolean {
  const since = waitsFor(state, "person") ? state.since : 0;
  return run.running.has(behind) && (behind.startedAt ?? 0) > since;
}

function fail(message: string): never {
  throw new Violation(message);
}
