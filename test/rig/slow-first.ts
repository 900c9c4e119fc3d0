/** The order of the test files: those that take minutes begin first, so that none is left alone at the end. */
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Those that use the most time of the processor, the longest first. */
const SLOW: readonly string[] = [
  ...["page/lists", "page/step", "cli/service", "fleet/anywhere", "fleet/worker", "cli/cache"],
  ...["docs/snippets", "fleet/crash", "back/table", "cli/help-examples", "page/fleet"],
  ...["agents/acp", "cli/portable", "crash/crash", "fleet/limits", "cli/take", "cli/json"],
  ...["sim/simulator", "cli/once-table", "workspace/kill", "library/package", "page/run"],
  ...["fleet/takeover", "cli/suggested-ends", "cli/update", "workspace/crash", "cli/workspace"],
  ...["cli/suggested-agents", "mcp/mcp", "fleet/base", "back/crash", "back/partial", "cli/gate"],
  ...["crash/workspace", "dot/status", "workspace/snapshot", "back/text", "journal/process"],
  ...["cli/talk", "cli/failure", "cli/damage", "docs/examples", "cli/suggested", "page/journey"],
  ...["cli/judge", "cli/moved", "cli/once", "cli/suggested-processes", "cli/clean"],
  ...["library/library", "journal/damage", "web/actions", "fleet/store", "cli/owner"],
  ...["cli/preflight", "dot/statements-kill", "cli/text", "cli/fidelity", "cli/report"],
  ...["cli/once-again", "telemetry/export", "durability/durability", "crash/update"],
  ...["cli/own-workspaces", "workspace/worktree", "cli/disk", "cli/requests"],
  ...["cli/failed-items", "cli/bubblewrap", "cli/container"],
];

export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const found = SLOW.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return found < 0 ? SLOW.length : found;
    };
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
  }
}
