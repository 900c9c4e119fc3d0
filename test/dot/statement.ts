/**
 * Statements of the specification of the DOT language, one test each. The name of a test is the
 * section and the statement. Where Perdure differs by decision, the name says "decided:", the test
 * holds what Perdure does, and the table of decisions in docs/DOT.md has a row for it.
 *
 * Most statements need no process: a graph is lowered and played through the core, and the
 * projection of `--logs` says what happened.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, it } from "vitest";
import { deadlineOf, replyIn } from "../../src/core/attempt/gate.ts";
import type { AttemptRef, RunEvent, StepReport, VisitEnd } from "../../src/core/event.ts";
import type { Ending } from "../../src/core/fact.ts";
import { waitsFor } from "../../src/core/graph/visit-state.ts";
import { attemptOf, findVisit, stepOf, type Visit } from "../../src/core/run.ts";
import {
  buildDotPlan,
  continueFrom,
  type DotFile,
  type LoweredDot,
} from "../../src/plan/attractor/build.ts";
import type { AttractorCheckpoint, Plan, PlanReading, Step } from "../../src/plan/plan.ts";
import { simulated } from "../../src/plan/simulate.ts";
import type { Json, JsonObject } from "../../src/util/json.ts";
import { AttractorLog, statusJson } from "../../src/view/json/attractor-log.ts";
import { ok, Play } from "../core/play.ts";

/** More turns than any walk of a test takes. */
const TURNS_MAX = 5_000;

/** The first column of the table of decisions. */
const DECISIONS = decisionsIn(
  readFileSync(resolve(import.meta.dirname, "../../docs/DOT.md"), "utf8"),
);

function decisionsIn(text: string): readonly string[] {
  const [, table = ""] = text.split(/^\| \| What Perdure does \|$/m);
  const rows = table.split("\n\n", 1)[0]?.split("\n") ?? [];
  return rows.flatMap((row) => /^\| (?!-)([^|]+) \|/.exec(row)?.[1] ?? []);
}

type Proof = () => void | Promise<void>;

/** A statement that holds. */
export function statement(section: string, says: string, holds: Proof): void {
  it(`${section} ${says}`, holds);
}

/** What Perdure does instead of a statement; `row` of the table of decisions says so. */
export function decided(section: string, row: string, says: string, holds: Proof): void {
  it(`${section} decided: ${says}`, () => {
    expect(DECISIONS, "the table of decisions in docs/DOT.md").toContain(row);
    return holds();
  });
}

/** A graph with a start and an exit. */
export function graph(body: string): string {
  return `digraph g { graph [goal="The goal"]; start [shape=Mdiamond]; exit [shape=Msquare]; ${body} }`;
}

/** Tool nodes with these names; attributes may follow a name: `a[max_retries=1]`. */
export function tools(names: string): string {
  const named = names.matchAll(/(\w+)(?:\[([^\]]*)\])?/g);
  const nodes = [...named].map(([, id, more = ""]) => {
    return `${id} [shape=parallelogram, tool_command=x${more === "" ? "" : `, ${more}`}];`;
  });
  return nodes.join(" ");
}

/** An attempt that ends with this report. */
export function says(reported: StepReport, context: Record<string, Json> = {}): Ending {
  return { how: "exited", exit: 0, outputs: {}, context, reported };
}

/** An agent that gives this answer. */
export function answers(answer: string): Ending {
  return { how: "exited", exit: 0, outputs: {}, context: {}, answer };
}

type Files = Readonly<Record<string, string>>;

function fileOf(name: string, text: string, others: Files): DotFile {
  const other = (named: string): DotFile | undefined => {
    const found = others[named];
    return found === undefined ? undefined : fileOf(named, found, others);
  };
  return { name, path: name, text, other };
}

export function lowered(text: string, reading: PlanReading = {}, others: Files = {}): LoweredDot {
  return buildDotPlan(fileOf("flow.dot", text, others), reading);
}

/** The diagnostics of a text, as `error[rule]`. */
export function found(text: string, reading: PlanReading = {}, others: Files = {}): string[] {
  return lowered(text, reading, others).diagnostics.map(
    ({ severity, rule }) => `${severity}[${rule}]`,
  );
}

export function planOf(text: string, reading: PlanReading = {}, others: Files = {}): Plan {
  const { plan, diagnostics } = lowered(text, reading, others);
  if (plan === undefined) throw new Error(diagnostics.map(({ message }) => message).join("; "));
  return plan;
}

/** The step of a node. */
export function stepIn(plan: Plan, id: string): Step {
  const step = plan.graph.steps.find((one) => one.id === id);
  if (step === undefined) throw new Error(`there is no step ${id}`);
  return step;
}

/** What the attempts of a node do, one after the other; the last one counts for all later ones. */
type Does = Ending | string | readonly (Ending | string)[];
export type Script = Readonly<Record<string, Does>>;

interface WalkOptions {
  readonly reading?: PlanReading;
  readonly others?: Files;
  /** The walk continues where another engine stopped. */
  readonly after?: AttractorCheckpoint;
  /** Conversations do not survive. */
  readonly forgets?: boolean;
}

/** A graph, played to its end or until it waits for a person. */
export class Walk {
  readonly play: Play;
  readonly checkpoint: JsonObject;
  /** The nodes in the order in which they ended: `start a exit`. */
  readonly path: string;
  readonly status: string;
  readonly context: JsonObject;
  readonly outcomes: JsonObject;
  readonly #script: Script;
  readonly #attempts = new Map<string, number>();
  readonly #ends: readonly VisitEnd[];

  constructor(text: string, script: Script = {}, options: WalkOptions = {}) {
    const { reading = {}, others, after } = options;
    const read = planOf(text, reading, others);
    const plan = after === undefined ? read : continueFrom(read, after);
    if (typeof plan === "string") throw new Error(plan);
    this.#script = script;
    this.play = new Play(reading.simulate === undefined ? plan : simulated(plan, reading.simulate));
    let sessions = 0;
    this.play.around = {
      env: {},
      offer: (_, session) => ({
        fresh: `s${++sessions}`,
        found: session !== undefined && options.forgets !== true,
      }),
    };
    this.play.open();
    this.#toTheEnd();
    const log = new AttractorLog(this.play.plan);
    this.#ends = this.play.recorded.flatMap((recorded) => log.add(recorded) ?? []);
    const { json } = log.checkpoint(this.play.run, "/project");
    this.checkpoint = json;
    this.path = (json.completed_nodes as readonly string[]).join(" ");
    this.status = this.play.status;
    this.context = Object.fromEntries(this.play.run.context);
    this.outcomes = json.node_outcomes as JsonObject;
  }

  #toTheEnd(): void {
    for (let turn = 0; turn < TURNS_MAX; turn++) {
      const { play } = this;
      const [running] = play.run.running;
      const [asked] = play.run.waiting.person;
      if (running !== undefined) {
        const ending = this.#next(running) ?? ok();
        if (typeof ending === "string") throw new Error(`${stepOf(running).id} asks nobody`);
        this.#end(attemptOf(running), ending);
      } else if (asked === undefined || !this.#answer(asked)) {
        if (play.turn?.wakeAt === undefined) return;
        play.now = play.turn.wakeAt;
        play.tell();
      }
    }
    throw new Error("the walk does not end");
  }

  /** Ends an attempt, and stops those that the run does not want any more. */
  #end(at: AttemptRef, ending: Ending): void {
    this.play.tell({ type: "attempt-ended", at, ending });
    for (const { at: other } of this.play.operations("cancel")) {
      this.play.tell({
        type: "attempt-ended",
        at: other,
        ending: { how: "stopped", message: "stopped" },
      });
    }
  }

  #next(visit: Visit): Ending | string | undefined {
    const { id } = stepOf(visit);
    const does = this.#script[id];
    const nth = this.#attempts.get(id) ?? 0;
    this.#attempts.set(id, nth + 1);
    return Array.isArray(does) ? does[Math.min(nth, does.length - 1)] : (does as Ending | string);
  }

  /** Answers with the words of the script, or lets the time pass; false when there is neither. */
  #answer(visit: Visit): boolean {
    const { play } = this;
    if (!waitsFor(visit.state, "person")) return false;
    const deadline = deadlineOf(visit, "test");
    if (this.#script[stepOf(visit).id] === undefined) {
      if (deadline === undefined) return false;
      play.now = deadline.at;
      play.tell({ type: "answered", at: attemptOf(visit), answer: deadline.otherwise });
      return true;
    }
    const reply = replyIn(visit.state, String(this.#next(visit)));
    if (!reply.ok) throw new Error(reply.message);
    const { ok: _, ...given } = reply;
    const answer = { ...given, by: "test", from: "command", given: play.now } as const;
    play.tell({ type: "answered", at: attemptOf(visit), answer });
    return true;
  }

  /** How often a node was started, and came to an end by itself. */
  attempts(node: string): number {
    return this.#attempts.get(node) ?? 0;
  }

  /** The content of `{node}/status.json`. */
  statusOf(node: string): JsonObject {
    const end = this.#ends.findLast(({ step }) => step === node);
    if (end === undefined) throw new Error(`${node} has not ended`);
    const visit = findVisit(this.play.run, end);
    return statusJson(end, visit && stepOf(visit).work);
  }

  /** The events of one type. */
  events<T extends RunEvent["type"]>(type: T): readonly Extract<RunEvent, { type: T }>[] {
    return this.play.events.filter((one): one is Extract<RunEvent, { type: T }> => {
      return one.type === type;
    });
  }

  /** The last start of a node's agent: its briefing, and its conversation. */
  briefing(node: string): { readonly mode?: string; readonly session?: string; text: string } {
    const event = this.events("step.started").findLast(({ step }) => step === node);
    const { fidelity, conversation } = event ?? {};
    return {
      ...(fidelity?.mode === undefined ? {} : { mode: fidelity.mode }),
      ...(conversation?.session === undefined ? {} : { session: conversation.session }),
      text: fidelity?.preamble ?? "",
    };
  }
}

/** A graph with a start and an exit around the body, played to its end. */
export function walk(body: string, script: Script = {}, options: WalkOptions = {}): Walk {
  return new Walk(graph(body), script, options);
}
