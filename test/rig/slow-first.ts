/** The order of the test files: those that take minutes begin first, so that none is left alone at the end. */
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Those that use the most time of the processor, the longest first. */
const SLOW: readonly string[] = [
  ...[
    "fleet/crash",
    "fleet/anywhere",
    "fleet/takeover",
    "cli/service",
    "fleet/worker",
    "cli/cache",
  ],
  ...["docs/snippets", "crash/crash", "back/table", "cli/help-examples", "cli/portable"],
  ...["cli/take", "cli/json", "cli/once-table", "agents/acp", "crash/workspace"],
  ...["cli/suggested-ends", "cli/update", "cli/workspace", "cli/suggested-agents", "mcp/mcp"],
  ...["cli/gate", "cli/talk", "cli/failure", "cli/damage", "docs/examples", "cli/suggested"],
  ...["workspace/crash", "cli/judge", "cli/moved", "cli/once", "workspace/snapshot"],
  ...["sim/simulator", "cli/suggested-processes", "back/crash", "library/package", "cli/clean"],
  ...["workspace/kill", "journal/damage", "dot/status", "cli/owner", "cli/preflight"],
  ...["dot/statements-kill", "cli/text", "cli/fidelity", "cli/report", "cli/once-again"],
  ...["telemetry/export", "durability/durability", "crash/update", "back/partial", "back/text"],
  ...["cli/own-workspaces", "workspace/worktree", "page/step", "cli/disk", "page/lists"],
  ...["cli/requests", "cli/failed-items", "fleet/limits", "cli/bubblewrap", "cli/container"],
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
