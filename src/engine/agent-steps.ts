/**
 * Steps that talk to agents, for the driver: one object that is only made, and whose modules are only
 * loaded, when a plan has such steps.
 *
 * Owns: the life of an agent's attempt between the driver and the adapters.
 * Does not: hold processes or change the run; it prepares, follows and judges.
 */
import type { AttemptRef, Place } from "../core/event.ts";
import type { ConversationOffer, Ending } from "../core/fact.ts";
import type { Visit } from "../core/run.ts";
import type { AgentReport } from "../runner/agents/report.ts";
import type { Launch, ProcessEnding } from "../runner/step-process.ts";
import { assert } from "../util/assert.ts";
import {
  conversationOffer,
  prepareAgent,
  repairTranscript,
  type ServedStep,
  servedStep,
} from "./agent-call.ts";
import { judgeAgent, spentOf } from "./agent-verdict.ts";
import { AgentWatch } from "./agent-watch.ts";
import type { LaunchSite } from "./launch.ts";
import { attemptDirOf } from "./state-dir.ts";

/** An attempt whose stream is being followed. */
export interface FollowedAgent {
  /** The verdict on its stream; outputs and checks are still to be looked at when it is good. */
  end(ending: ProcessEnding, visit: Visit): Promise<Ending>;
}

/** All agents of one run. */
export class AgentSteps {
  readonly #site: () => LaunchSite;

  constructor(site: () => LaunchSite) {
    this.#site = site;
  }

  /** Whether an adapter serves this visit's step. */
  serves(visit: Visit): boolean {
    return this.#served(visit) !== undefined;
  }

  offer(place: Place, session: string | undefined): ConversationOffer | undefined {
    return conversationOffer(this.#site(), place, session);
  }

  /** What to start; reads what the attempt said that this one continues. */
  async prepare(visit: Visit, at: AttemptRef): Promise<() => Launch> {
    const before = await this.#reportBefore(visit, at);
    return () => {
      repairTranscript(this.#site(), visit, at);
      return prepareAgent(this.#site(), visit, at, before);
    };
  }

  follow(visit: Visit, dir: string, onSession: (session: string) => void): FollowedAgent {
    const served = this.#served(visit);
    assert(served !== undefined, "only an agent's stream is followed");
    const watch = new AgentWatch(served.adapter, dir, onSession);
    const end = async (ending: ProcessEnding, now: Visit): Promise<Ending> => {
      const report = await watch.end(ending.how === "exited" ? ending.exit : undefined);
      const spent = spentOf(report, now.sessionSpent, served.settings.model);
      return judgeAgent(fromProcess(ending), report, spent);
    };
    return { end };
  }

  async #reportBefore(visit: Visit, at: AttemptRef): Promise<AgentReport | undefined> {
    const served = this.#served(visit);
    if (served === undefined || visit.continues !== true || at.attempt < 2) return undefined;
    const dir = attemptDirOf(this.#site().dir, { ...at, attempt: at.attempt - 1 });
    return new AgentWatch(served.adapter, dir, () => undefined).end(undefined);
  }

  #served(visit: Visit): ServedStep | undefined {
    return servedStep(this.#site().plan, visit);
  }
}

/** The ending of a process before anybody has looked at its files. */
function fromProcess(ending: ProcessEnding): Ending {
  if (ending.how === "not-started") return { ...ending, reason: "spawn" };
  return ending.how === "exited"
    ? { how: "exited", exit: ending.exit, outputs: {}, context: {} }
    : ending;
}
