/** A run as plain data, so that two runs can be compared. */

import { type Run, stepOf, type Visit, visitRef } from "../../src/core/run.ts";
import { visitText } from "../../src/core/step-path.ts";

export type RunSnapshot = ReturnType<typeof snapshot>;

export function snapshot(run: Run) {
  const names = (visits: ReadonlySet<Visit>): string[] =>
    [...visits].map((v) => visitText(visitRef(v)));
  return {
    id: run.id,
    seq: run.seq,
    state: run.state,
    context: [...run.context],
    given: run.given,
    keys: run.keys,
    waiting: Object.entries(run.waiting).map(([reason, visits]) => [reason, names(visits)]),
    running: names(run.running),
    composites: names(run.composites),
    merging: [...run.merging].map(({ id }) => id),
    unmade: [...run.unmade].map(({ id }) => id),
    files: [...run.files].map(([key, { latest, ...known }]) => ({
      key,
      ...known,
      latest: latest && visitText(visitRef(latest)),
    })),
    failed: names(run.failed),
    gone: [...run.gone].map(([id, record]) => [id, record.visits.length]),
    handled: [...run.handled],
    funds: run.funds,
    total: run.stepsTotal,
    done: run.stepsDone,
    spent: run.spent,
    conversations: [...run.conversations],
    shared: [...run.shared],
    recover: run.recover,
    workedMs: run.workedMs,
    scopes: [...run.scopes.values()].map((scope) => ({
      id: scope.id,
      edges: scope.edges,
      unresolved: scope.unresolved,
      live: scope.live,
      active: scope.active,
      failures: scope.failures,
      context: scope.context && [...scope.context],
      restarts: scope.restarts,
      last: scope.last && visitText(visitRef(scope.last)),
      steps: scope.steps.map((record) =>
        record === undefined
          ? null
          : {
              step: stepOf(record).id,
              past: record.past,
              unreachable: record.unreachable,
              visits: record.visits.map(({ record: _record, ...visit }) => visit),
            },
      ),
    })),
  };
}
