/** Plays a plan through the pure core: the test says how each attempt ends. */

import type { Operation } from "../../src/core/action.ts";
import { type Activity, newActivity } from "../../src/core/activity.ts";
import { advance, decideAlone, type Turn } from "../../src/core/advance.ts";
import {
  EVENT_VERSION,
  type Owner,
  type Recorded,
  type RunEvent,
  type VisitRef,
} from "../../src/core/event.ts";
import { emptyRun, evolve } from "../../src/core/evolve.ts";
import type {
  ConversationOffer,
  Ending,
  Environment,
  Fact,
  ItemsFound,
} from "../../src/core/fact.ts";
import { retriedBy } from "../../src/core/graph/retry.ts";
import { waitsFor } from "../../src/core/graph/visit-state.ts";
import { type Replayed, replayTurns } from "../../src/core/replay.ts";
import { attemptOf, type Run } from "../../src/core/run.ts";
import { attemptText, stepPath } from "../../src/core/step-path.ts";
import { encodeTurns, recordedTurn, TurnLog } from "../../src/core/turn.ts";
import { freeze, type Plan } from "../../src/plan/plan.ts";
import type { Json } from "../../src/util/json.ts";

export const OWNER: Owner = { pid: 1, started: "1", boot: "b", host: "h", user: "u" };

export const ok = (context: Record<string, Json> = {}): Ending => ({
  how: "exited",
  exit: 0,
  outputs: {},
  context,
});
export const bad: Ending = { how: "exited", exit: 1, outputs: {}, context: {} };
export const lost: Ending = { how: "lost", started: true, message: "gone" };

/** What is found outside when the run looks for it. */
interface Around {
  readonly env: Environment;
  readonly items?: (place: VisitRef) => ItemsFound | undefined;
  readonly offer: (place: VisitRef, session: string | undefined) => ConversationOffer | undefined;
}

type OperationOf<T extends Operation["type"]> = Extract<Operation, { type: T }>;

export class Play {
  plan: Plan;
  /** Every plan that the run went by, by its fingerprint. */
  readonly plans = new Map<string, Plan>();
  readonly events: RunEvent[] = [];
  /** The same as a journal has them, with the facts behind them. */
  readonly recorded: Recorded[] = [];
  /** Every attempt that was started, in order. */
  readonly launched: string[] = [];
  run: Run;
  now = 1_000;
  around: Around = { env: {}, offer: () => undefined };
  turn: Turn | undefined;
  /** What the last facts led to outside. */
  #operations: Operation[] = [];
  #activity: Activity = newActivity({ env: {}, keepsFiles: false });
  #turnLog = new TurnLog();

  constructor(plan: Plan, input: Json = null) {
    this.plan = plan;
    this.plans.set("f", plan);
    const event: RunEvent = {
      type: "run.created",
      pipeline: "test",
      file: "/test.yaml",
      fingerprint: "f",
      input,
      args: [],
      cwd: "/",
      envNames: [],
    };
    this.#record([event], undefined);
    this.run = evolve(plan, emptyRun("run"), this.recorded[0] as Recorded);
  }

  tell(...facts: readonly Fact[]): this {
    let pending = facts;
    this.#operations = [];
    if (facts.some(({ type }) => type === "opened")) {
      this.#activity = newActivity({ env: this.around.env, keepsFiles: false });
      this.#turnLog = new TurnLog();
    }
    do {
      this.turn = advance(this.plan, this.run, this.#activity, pending, this.now);
      this.run = this.turn.run;
      const turn = recordedTurn(this.now, pending, this.#activity);
      this.#record(this.turn.events, this.#turnLog.add(turn, this.turn));
      this.#operations.push(...this.turn.operations);
      const launches = this.turn.operations.filter(({ type }) => type === "launch");
      this.launched.push(...launches.flatMap((one) => ("at" in one ? [attemptText(one.at)] : [])));
      pending = this.turn.operations.flatMap((one) => this.#lookUp(one));
    } while (this.turn.more || pending.length > 0);
    return this;
  }

  /** The operations of one kind that the last facts led to. */
  operations<T extends Operation["type"]>(type: T): readonly OperationOf<T>[] {
    return this.#operations.filter((one): one is OperationOf<T> => one.type === type);
  }

  #lookUp(operation: Operation): readonly Fact[] {
    if (operation.type !== "look-up") return [];
    const { place, session } = operation;
    const items = this.around.items?.(place);
    const offer = this.around.offer(place, session);
    return [{ type: "looked-up", place, ...(items && { items }), ...(offer && { offer }) }];
  }

  open(...wishes: readonly Fact[]): this {
    return this.tell(
      { type: "opened", owner: OWNER, epoch: 1, ...retriedBy(this.run, wishes) },
      ...wishes,
    );
  }

  /** A new owner adopts another plan; nothing is started before the next `open`. */
  update(plan: Plan, input = this.run.created?.input ?? null): this {
    const { fingerprint } = freeze(plan);
    this.plans.set(fingerprint, plan);
    const asked = { type: "update-requested", plan, fingerprint, fileSha256: "s", input } as const;
    const opened = { type: "opened", owner: OWNER, epoch: 1 } as const;
    const facts = [opened, { ...asked, envNames: [] }];
    const { run, events } = decideAlone(this.planOf, this.plan, this.run, facts, this.now);
    this.run = run;
    const turns = [{ time: this.now, facts, alone: true as const }];
    this.#record(events, encodeTurns({ turns }, events));
    this.plan = plan;
    return this;
  }

  #record(events: readonly RunEvent[], facts: string | undefined): void {
    for (const [index, event] of events.entries()) {
      this.events.push(event);
      const recorded = { seq: this.events.length, time: this.now, version: EVENT_VERSION, event };
      this.recorded.push(index > 0 || facts === undefined ? recorded : { ...recorded, facts });
    }
  }

  /** What today's core makes of the facts, after the way through a text. */
  replayed(events = this.recorded, planOf = this.planOf): Replayed {
    const stored = JSON.parse(JSON.stringify(events)) as Recorded[];
    return replayTurns(planOf, this.run.id, stored);
  }

  readonly planOf = (fingerprint: string): Plan => this.plans.get(fingerprint) ?? this.plan;

  /** Ends the running attempt of a step; the pause after a loss passes. */
  end(path: string, ending: Ending = ok()): this {
    this.#passPause(path);
    const visit = [...this.run.running].find((one) => stepPath(attemptOf(one)) === path);
    if (visit === undefined)
      throw new Error(`${path} is not running: ${this.running().join(", ")}`);
    this.tell({ type: "attempt-ended", at: attemptOf(visit), ending });
    if (ending.how === "lost") this.#passPause(path);
    return this;
  }

  #passPause(path: string): void {
    const waits = [...this.run.waiting.retry].find(
      (visit) => stepPath(attemptOf(visit)) === path && visit.losses > 0,
    );
    if (!waitsFor(waits?.state, "retry") || waits.state.until <= this.now) return;
    this.now = waits.state.until;
    this.tell();
  }

  /** Ends everything that runs, as the function says, until nothing runs any more. */
  finish(endingOf: (path: string) => Ending = () => ok()): this {
    for (let turn = 0; turn < 10_000; turn++) {
      const [visit] = this.run.running;
      if (visit !== undefined) {
        const at = attemptOf(visit);
        this.tell({ type: "attempt-ended", at, ending: endingOf(stepPath(at)) });
      } else if (this.turn?.wakeAt !== undefined) {
        this.now = this.turn.wakeAt;
        this.tell();
      } else return this;
    }
    throw new Error("the run does not end");
  }

  running(): readonly string[] {
    return [...this.run.running].map((visit) => stepPath(attemptOf(visit)));
  }

  get status(): string {
    return this.run.state.status;
  }

  types(): readonly string[] {
    return this.events.map(({ type }) => type);
  }
}
