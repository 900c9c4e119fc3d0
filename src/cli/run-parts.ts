/** What a run needs beside the engine, loaded only for plans that need it. */
import type { AgentSteps } from "../engine/agent-steps.ts";
import type { LaunchSite } from "../engine/launch.ts";
import { runDirOf } from "../engine/state-dir.ts";
import type { WorkspaceKeeper } from "../engine/workspace-keeper.ts";
import type { ForeignFiles } from "../engine/workspace-place.ts";
import type { Plan } from "../plan/plan.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import type { KnownRun, Project } from "./project.ts";

/** What keeps the files of a run; loaded only for plans that want them kept. */
export async function keeperOf(
  project: Project,
  { plan, run, id }: KnownRun,
  foreign: ForeignFiles | undefined,
  say: (line: string) => void,
): Promise<WorkspaceKeeper | undefined> {
  const { workspace } = plan;
  if (workspace === undefined || (workspace.kind === "here" && !workspace.snapshots)) {
    return undefined;
  }
  const { WorkspaceKeeper } = await import("../engine/workspace-keeper.ts");
  const { WorkspaceError } = await import("../workspace/workspace-error.ts");
  const dir = runDirOf(project.dir, id);
  try {
    return await WorkspaceKeeper.open({
      plan: workspace,
      run,
      dir,
      stateDir: project.dir.root,
      ...(foreign === undefined ? {} : { foreign }),
    });
  } catch (error) {
    if (!(error instanceof WorkspaceError)) throw error;
    const needed = run.restoring !== undefined;
    const optional = workspace.kind === "here" && error.code === "git-missing" && !needed;
    if (!optional) throw new CliError(EXIT.error, error.message, error.remedy);
    say(`The files of this run are not kept: ${error.message}`);
    return undefined;
  }
}

/** What talks to agents; loaded only for plans that have some. */
export async function agentsOf(
  plan: Plan,
  site: () => LaunchSite,
): Promise<AgentSteps | undefined> {
  const served = Object.values(plan.agents).some(({ adapter }) => adapter !== "command");
  if (!served) return undefined;
  const { AgentSteps } = await import("../engine/agent-steps.ts");
  return new AgentSteps(site);
}
