/**
 * The order of the test files: those that take longest begin first, so that none is left alone at the
 * end. Files that mostly wait, for leases, schedules or a browser, are spread among those that start
 * many programs, so that the cores are busy from the beginning.
 */
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The files that start many programs, the longest first. */
const BUSY: readonly string[] = [
  ...["docs/snippets", "cli/cache", "cli/portable", "cli/json", "cli/take", "cli/suggested-ends"],
  ...["cli/judge", "rewind/table", "cli/workspace", "fleet/commands", "fleet/crash", "page/lists"],
  ...["page/step", "crash/crash", "cli/gate", "cli/suggested-agents", "cli/once-table"],
  ...[
    "docs/examples",
    "agents/acp",
    "cli/update",
    "cli/conversation",
    "cli/failure",
    "workspace/kill",
  ],
  ...["cli/once", "cli/moved", "sim/simulator", "cli/help-examples", "cli/suggested-processes"],
  ...["library/package", "cli/requests", "cli/suggested", "cli/once-again", "cli/text"],
  ...["workspace/snapshot", "crash/workspace", "cli/damage", "cli/dot", "cli/own-workspaces"],
  ...["journal/damage", "cli/clean", "cli/fidelity", "cli/report", "rewind/text", "cli/spelling"],
  ...["cli/secrets", "page/run", "cli/say", "rewind/crash", "workspace/crash", "fleet/take"],
  ...["fleet/store", "cli/money", "cli/command-line", "dot/status", "cli/retry", "cli/terminal"],
];
/** The files that mostly wait, the longest first. */
const WAITING: readonly string[] = [
  ...["fleet/anywhere", "cli/service", "fleet/worker", "page/fleet", "fleet/limits"],
  ...["fleet/takeover", "fleet/stopped", "soak/fleet-soak", "runner/stop", "durability/durability"],
];
/** So many busy files come before the next one that waits. */
const BUSY_BETWEEN = 4;

const ORDER: readonly string[] = BUSY.flatMap((name, index) => {
  const waiting = index % BUSY_BETWEEN === 0 ? WAITING.slice(index / BUSY_BETWEEN)[0] : undefined;
  return waiting === undefined ? [name] : [waiting, name];
});

export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const found = ORDER.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return found < 0 ? ORDER.length : found;
    };
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
  }
}
