/**
 * Answers a question of a run from a process that does not own it.
 *
 * Owns: finding the question by its name, and recording the answer.
 * Does not: continue the run; its owner does, or the next one.
 */

import { deadlineOf, replyOf } from "../../core/attempt/gate.ts";
import type { Answer, AttemptRef } from "../../core/event.ts";
import { waitsFor } from "../../core/graph/visit-state.ts";
import { attemptOf, findVisit, type Visit, visitRef } from "../../core/run.ts";
import { attemptText, type NamedVisit, parseVisit, stepPath } from "../../core/step-path.ts";
import type { Answered } from "../../journal/inbox.ts";
import { assert } from "../../util/assert.ts";
import { failpoint } from "../../util/failpoint.ts";
import { answerText, gateName, labelled } from "../../view/question-text.ts";
import { utcText } from "../../view/text.ts";
import { thisPerson } from "../drive/owner.ts";
import { ownedError, refuseMoved } from "../drive/ownership.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { ambiguousStep, namesMeant } from "../project/names.ts";
import { livenessOf, type Project } from "../project/project.ts";
import { command, Refusal } from "../refusal.ts";

/** The open question of that name. Throws a refusal that says why there is none. */
export function askedAt(known: LoadedRun, name: string): Visit {
  const { shortId } = known;
  const next = command("answer", shortId);
  const asked = [...known.run.waiting.person];
  const paths = asked.map((visit) => stepPath(visitRef(visit)));
  const meant = namesMeant(paths, name);
  if (meant.length > 1) throw ambiguousStep(name, meant, next);
  const place = parseVisit(meant[0] ?? name);
  const exact = asked.find((visit) => isAt(visit, place));
  if (exact !== undefined) return exact;
  const given = lastAnswer(known, place);
  if (given !== undefined) throw refusedError(known, name, given);
  throw new Refusal("not-asked", `run ${shortId} does not ask ${name} now`, next);
}

function isAt(visit: Visit, { scope, step, visit: number, attempt }: NamedVisit): boolean {
  const place = visitRef(visit);
  const same = place.scope === scope && place.step === step;
  const visited = number === undefined || number === visit.number;
  return same && visited && (attempt === undefined || attempt === visit.attempts);
}

/** The last answer to a question that is no longer open. */
function lastAnswer({ events }: LoadedRun, wanted: NamedVisit): Answer | undefined {
  const found = events.findLast(
    ({ event }) =>
      event.type === "step.answered" &&
      stepPath(event) === stepPath(wanted) &&
      (wanted.visit === undefined || wanted.visit === event.visit),
  )?.event;
  return found?.type === "step.answered" ? found : undefined;
}

/** The refusal of a second answer: it names the first one, its author, its time and its origin. */
function refusedError(
  { shortId, run }: LoadedRun,
  name: string,
  answer: Answer & { readonly label?: string },
): Refusal {
  const when = `on ${utcText(answer.given)} UTC`;
  if (answer.from === "timeout") {
    const counts =
      answer.label === undefined
        ? "it counts as not answered"
        : `its default "${answer.label}" counts`;
    const message = `answered too late: ${name} was open until ${utcText(answer.given)} UTC; ${counts}`;
    const next = run.waiting.person.size > 0 ? "resume" : "why";
    return new Refusal("already-answered", message, command(next, shortId));
  }
  const message = `${name} was already answered: ${answerText(answer)}, ${when}`;
  return new Refusal("already-answered", message, command("why", shortId));
}

/** Records an answer if it is the first; the inbox wakes the owner of the run. */
export async function giveAnswer(
  { journal, workers }: Project,
  known: LoadedRun,
  at: AttemptRef,
  given: Pick<Answer, "choice" | "text" | "from">,
): Promise<Answered & { readonly isOwned: boolean }> {
  const answer = { ...given, by: thisPerson(), given: Date.now() };
  const visit = findVisit(known.run, at);
  const deadline = visit && deadlineOf(visit, answer.by);
  const attempt = attemptText(at);
  const answered = await journal.inbox.answer(known.id, { attempt, answer, deadline });
  failpoint("answer.recorded");
  await workers?.want(known.id);
  const lease = await journal.leases.of(known.id);
  // The run was moved, and its new place does not have the answer.
  if (lease?.owner?.place !== undefined) throw ownedError(known.shortId, lease.owner);
  return { ...answered, isOwned: workers !== undefined || livenessOf(lease) === "owned" };
}

/** The answer that the inbox recorded. */
interface GivenAnswer {
  readonly visit: Visit;
  readonly answer: Answer & { readonly label?: string };
  /** True when a living process owns the run and reads the answer, or a worker will. */
  readonly isOwned: boolean;
}

/** Answers the question of that name. Throws when the question is not open. */
export async function answerGate(
  project: Project,
  known: LoadedRun,
  gate: string,
  given: {
    readonly choice: string;
    readonly text?: string | undefined;
    readonly from: Answer["from"];
  },
): Promise<GivenAnswer> {
  if (known.cleanedAt !== undefined) {
    const message = `run ${known.shortId} cannot continue: its files were removed`;
    throw new Refusal("files-removed", message, command("why", known.shortId));
  }
  refuseMoved(known);
  const visit = askedAt(known, gate);
  const { state } = visit;
  assert(waitsFor(state, "person"), "an open question waits for a person");
  const reply = replyOf(state, given.choice, given.text);
  const name = gateName(visit);
  if (!reply.ok) {
    throw new Refusal(
      "bad-answer",
      `${name}: ${reply.message}`,
      command("answer", known.shortId, name),
    );
  }
  const { ok: _, ...said } = reply;
  const { first, answer, isOwned } = await giveAnswer(project, known, attemptOf(visit), {
    ...said,
    from: given.from,
  });
  if (!first) throw refusedError(known, name, labelled(visit, answer));
  return { visit, answer: labelled(visit, answer), isOwned };
}

/** The open questions, each with an answer that no owner has read yet, if there is one. */
export function openQuestions(
  known: LoadedRun,
): readonly { readonly visit: Visit; readonly answer?: Answer }[] {
  return [...known.run.waiting.person].map((visit) => {
    const answer = known.answers.get(attemptText(attemptOf(visit)));
    return answer === undefined ? { visit } : { visit, answer: labelled(visit, answer) };
  });
}
