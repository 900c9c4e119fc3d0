/**
 * Real runs for tests of the dashboard's pages: one in each state that a page has to show. A file
 * asks for those that it needs; they are made at the same time.
 */
import type { Hold, Program } from "./project.ts";
import { StandIns } from "./stand-ins.ts";

/** For runs whose files no page shows. */
const PLAIN = "workspace: { snapshots: false }";

const PIPELINES = {
  build: `# Builds and tests the parts of the product.
input:
  type: object
  required: [version]
  properties:
    version: { type: string, pattern: "^[0-9.]+$", description: The version to build. }
    level: { enum: [quick, full], default: quick }
    parts: { type: array, items: { type: string }, default: [core, page] }
    count: { type: integer, minimum: 1, maximum: 9, default: 2 }
    notify: { type: boolean, default: false }
    signed:
      type: object
      properties: { by: { type: string }, mail: { type: string, format: email } }
steps:
  - id: fetch
    run: echo "version \${{ input.version }}" > version.txt
  - id: parts
    for_each: { in: "\${{ input.parts }}", as: part }
    steps: [{ id: compile, run: 'echo "compiled \${{ part }}"' }]
  - id: pack
    run: |
      echo packed
      echo "packed=$(cat version.txt)" >> "$PERDURE_CONTEXT"
`,
  broken: `${PLAIN}
steps:
  - { id: fetch, run: echo fetched }
  - id: compile
    run: |
      echo "compiling core/render.ts"
      echo "core/render.ts:42: error: 'width' is not declared" >&2
      exit 2
  - { id: pack, run: echo packed }
`,
  release: `steps:
  - id: notes
    run: |
      printf '# Release 4.2\\n\\n- The list of runs is live.\\n- <b>markup</b> is only text.\\n' > notes.md
  - id: approve
    gate:
      ask: "Release 4.2 to everybody?"
      show: [notes.md, diff]
      text: optional
      timeout: 2d
      default: reject
  - { id: publish, run: echo published >> published.txt }
`,
  plan: `${PLAIN}
steps:
  - id: scope
    gate:
      ask: "Which part should the agents plan first?"
      choices: [core, page, documents]
      text: required
  - { id: make, run: echo made }
`,
  deploy: `${PLAIN}
steps:
  - id: push
    once: true
    run: |
      HOLD
`,
  watch: `${PLAIN}
steps:
  - { id: prepare, run: echo prepared }
  - id: measure
    run: |
      echo measuring
      HOLD
  - { id: report, run: echo reported }
`,
  nightly: `${PLAIN}
steps:
  - { id: prepare, run: echo prepared }
  - id: compare
    run: |
      HOLD
  - { id: report, run: echo reported }
`,
  review: `${PLAIN}
steps:
  - { id: read, agent: claude, prompt: Read the change., max_turns: 20 }
  - { id: judge, agent: claude, prompt: Judge it., max_turns: 20 }
`,
} as const;

export type SampleRun =
  | "completed"
  | "earlier"
  | "failed"
  | "waiting"
  | "asked"
  | "uncertain"
  | "running"
  | "interrupted"
  | "agents";

/** The pipelines whose second step waits until it is released. */
const HELD = ["deploy", "watch", "nightly"] as const;

/** A project with runs. */
export class DashboardRuns {
  readonly stands = new StandIns();
  readonly #ids = new Map<SampleRun, string>();
  readonly #holds: Readonly<Record<(typeof HELD)[number], Hold>>;

  constructor() {
    const { world } = this.stands;
    this.#holds = {
      deploy: world.hold("deploy"),
      watch: world.hold("watch"),
      nightly: world.hold("nightly"),
    };
    for (const [name, text] of Object.entries(PIPELINES)) {
      const held = HELD.find((one) => one === name);
      const command = held === undefined ? "" : this.#holds[held].command;
      this.stands.write(
        `pipelines/${name}.yaml`,
        text.replace("HOLD", () => command),
      );
    }
    this.stands.commit();
  }

  /** The id of a run that was made. */
  id(name: SampleRun): string {
    const id = this.#ids.get(name);
    if (id === undefined) throw new Error(`the run ${name} was not made`);
    return id;
  }

  /** The short id of a run, as pages show it. */
  shortId(name: SampleRun): string {
    return this.id(name).slice(0, SHORT_ID_LENGTH);
  }

  /** Makes runs, those that need no kill at the same time. */
  async make(...names: readonly SampleRun[]): Promise<void> {
    if (names.includes("uncertain")) await this.#makeUncertain();
    const quick = names.filter((name) => name in QUICK) as (keyof typeof QUICK)[];
    await Promise.all(quick.map((name) => this.#run(name, QUICK[name])));
    if (names.includes("running")) await this.#hold("running", "watch");
    if (names.includes("interrupted")) {
      const runner = await this.#hold("interrupted", "nightly");
      await runner.kill();
    }
  }

  /** Lets the step of the running run continue. */
  async release(): Promise<void> {
    await this.#holds.watch.release();
  }

  async remove(): Promise<void> {
    await this.stands.remove();
  }

  async #run(name: SampleRun, words: readonly string[]): Promise<void> {
    const { stdout } = await this.stands.perdure("run", ...words, "--json");
    this.#ids.set(name, idIn(stdout));
  }

  async #hold(name: SampleRun, pipeline: (typeof HELD)[number]): Promise<Program> {
    const runner = this.stands.world.start(["run", pipeline, "--json"], this.stands.options());
    await this.#holds[pipeline].arrived();
    this.#ids.set(name, idIn(runner.stdout));
    return runner;
  }

  /** Its runner and its step are killed in the middle; nobody knows whether it happened. */
  async #makeUncertain(): Promise<void> {
    const runner = await this.#hold("uncertain", "deploy");
    await runner.kill();
    await this.stands.world.killSteps();
    await this.stands.perdure("resume", this.id("uncertain"));
  }
}

const SHORT_ID_LENGTH = 8;

/** The runs that end by themselves, or wait for a person. */
const QUICK = {
  completed: ["build", "--input", "version=4.2"],
  earlier: ["build", "--input", "version=4.1", "--input-json", 'parts=["core"]'],
  failed: ["broken"],
  waiting: ["release"],
  asked: ["plan"],
  agents: ["review"],
} as const satisfies Partial<Record<SampleRun, readonly string[]>>;

function idIn(printed: string): string {
  const id = /"run_id":"([^"]+)"/.exec(printed)?.[1];
  if (id === undefined) throw new Error(`no run id in: ${printed}`);
  return id;
}
