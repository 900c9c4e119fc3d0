/**
 * A project with one run in each state, a second project, and a server: the tests of one file share
 * them.
 */
import { Dashboard } from "../rig/dashboard.ts";
import { type Hold, type Program, Project } from "../rig/project.ts";
import { Api } from "./api.ts";

const QUICK = `
name: quick
steps:
  - { id: one, run: "echo 'one <b>bold</b>'" }
`;
const FAILING = `
name: failing
steps:
  - { id: broken, run: "echo the reason; exit 3" }
`;
const ASKING = `
name: asking
steps:
  - { id: ask, gate: "Go on?" }
  - { id: after, run: "true" }
`;
const HELD = (effect: string, hold: string): string => `
name: held
steps:
  - id: map
    for_each: { in: [a, b, c], as: item }
    run: "${effect}"
  - { id: wait, run: "${hold}" }
  - { id: last, run: "${effect}" }
`;

/** The runs, by their states. */
export interface RunIds {
  readonly completed: string;
  readonly cleaned: string;
  readonly failed: string;
  readonly waiting: string;
  readonly interrupted: string;
  readonly running: string;
}

/** Two projects with runs, and a server. */
export class SomeRuns {
  readonly project: Project;
  readonly other: Project;
  readonly env: Readonly<Record<string, string>>;
  readonly hold: Hold;
  readonly runner: Program;
  readonly ids: RunIds;
  /** The run of the other project. */
  readonly elsewhere: string;
  dashboard: Dashboard;
  api: Api;

  private constructor(made: Omit<SomeRuns, "remove" | "must" | "restart">) {
    this.project = made.project;
    this.other = made.other;
    this.env = made.env;
    this.hold = made.hold;
    this.runner = made.runner;
    this.ids = made.ids;
    this.elsewhere = made.elsewhere;
    this.dashboard = made.dashboard;
    this.api = made.api;
  }

  static async make(args: readonly string[] = []): Promise<SomeRuns> {
    const [project, other] = [new Project(), new Project()];
    const env = { XDG_STATE_HOME: project.path("state") };
    const run = async (file: string, from = project): Promise<string> => {
      await from.run(["run", file], { env });
      return from.newestId();
    };
    for (const one of [project, other]) one.write("quick.yaml", QUICK);
    project.write("failing.yaml", FAILING);
    project.write("asking.yaml", ASKING);
    const hold = project.hold("step");
    project.write("held.yaml", HELD(project.effect("item"), hold.command));
    const cleaned = await run("quick.yaml");
    await project.must(["clean", cleaned], { env });
    const completed = await run("quick.yaml");
    const failed = await run("failing.yaml");
    const waiting = await run("asking.yaml");
    const killed = project.start(["run", "held.yaml"], { env });
    await hold.arrived();
    await killed.kill();
    const interrupted = await project.newestId();
    await project.killSteps();
    const elsewhere = await run("quick.yaml", other);
    const second = project.hold("second");
    project.write("held.yaml", HELD(project.effect("item"), second.command));
    const runner = project.start(["run", "held.yaml"], { env });
    await second.arrived();
    const running = await project.newestId();
    const dashboard = await Dashboard.start(project, { env, args });
    const api = await Api.of(dashboard);
    const ids = { completed, cleaned, failed, waiting, interrupted, running };
    return new SomeRuns({
      ...{ project, other, env, hold: second, runner, ids, elsewhere, dashboard, api },
    });
  }

  /** Runs a command in the first project. */
  must(...args: readonly string[]): Promise<string> {
    return this.project.must(args, { env: this.env });
  }

  /** Kills the server and starts another one on the same port. */
  async restart(): Promise<void> {
    const { port } = this.dashboard;
    await this.dashboard.program.kill("SIGKILL");
    this.dashboard = await Dashboard.start(this.project, { env: this.env, port });
    this.api = await Api.of(this.dashboard);
  }

  async remove(): Promise<void> {
    await this.project.remove();
    await this.other.remove();
  }
}
