/**
 * The simulated outside: processes that live on when their runner dies, conversations, and time.
 */
import { type CheckFindings, checksFound, findings } from "../../src/core/attempt/check.ts";
import type { AttemptRef, Conversation, Held, Spent, StepReport } from "../../src/core/event.ts";
import type { Ending, FactOf, Result } from "../../src/core/fact.ts";
import { attemptText } from "../../src/core/step-path.ts";
import type { Random } from "../../src/util/random.ts";

export interface SimProcess {
  readonly at: AttemptRef;
  readonly endsAt: number;
  readonly ending: Ending;
  /** The conversation that it is in, whoever has chosen its id. */
  readonly session?: string;
  /** What is known of it when it was killed: nothing, what it had used, or its last word. */
  readonly trace: "nothing" | "spent" | "word";
  /** When what it does to the outside happens; what fails by itself does nothing. */
  readonly effectAt: number;
  /** When it was killed; it then leaves no exit status. */
  killed: boolean;
  killedAt: number;
}

export class World {
  /** Time as processes live it. */
  now = 1_000_000;
  /** How far the wall clock is off; it may be set back at any time. */
  skew = 0;
  /** Some steps take up to this time; the others end within half a second. */
  longest = 0;
  /** Planted: agents that survive their kill. */
  undying = false;
  /** Every spawn that ever happened, in order: the counted effects. */
  readonly spawns: AttemptRef[] = [];
  readonly processes = new Map<string, SimProcess>();
  readonly #random: Random;
  readonly #transcripts = new Set<string>();
  /** Session -> the messages that were said in it. */
  readonly #heard = new Map<string, readonly string[]>();
  /** Attempts that may have run on a machine that is gone. */
  readonly #elsewhere = new Set<string>();
  #sessions = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  /** What the engine's clock says. */
  get clock(): number {
    return this.now + this.skew;
  }

  /** The id of a conversation that nobody has had. */
  newSession(): string {
    return `session-${++this.#sessions}`;
  }

  /** Whether a conversation can be continued; some are lost for good. */
  finds(session: string): boolean {
    if (this.#random.chance(0.03)) this.#transcripts.delete(session);
    return this.#transcripts.has(session);
  }

  /** The messages in the transcript of a conversation; not every transcript can be searched. */
  heard(session: string): readonly string[] {
    return this.#random.chance(0.3) ? [] : (this.#heard.get(session) ?? []);
  }

  /** The messages that a transcript has by now; undefined when nothing was written. */
  transcript(session: string): readonly string[] | undefined {
    return this.#transcripts.has(session) ? (this.#heard.get(session) ?? []) : undefined;
  }

  /** Starts a process; with a conversation it is an agent's. */
  spawn(at: AttemptRef, conversation?: Conversation, messages: readonly string[] = []): void {
    const random = this.#random;
    this.spawns.push(at);
    const long = this.longest > 0 && random.chance(0.5);
    const endsAt = this.now + 1 + random.below(long ? this.longest : 500);
    const ending =
      conversation === undefined ? shellEnding(random) : agentEnding(random, conversation.says);
    // What fails may have done what it was for nevertheless. Agents that continue know what they
    // did.
    const failed = ["exited", "timed-out", "reined"].includes(ending.how);
    const happens = endedWell(ending) || (failed && random.chance(0.3));
    const effectAt = happens
      ? this.now + random.below(endsAt - this.now)
      : Number.POSITIVE_INFINITY;
    const base = { at, endsAt, ending, effectAt, killed: false, killedAt: 0 };
    if (conversation === undefined) {
      this.processes.set(attemptText(at), { ...base, trace: "nothing" });
      return;
    }
    const session = conversation.session ?? this.newSession();
    this.#heard.set(session, [...(this.#heard.get(session) ?? []), ...messages]);
    // It may die before it has written anything.
    if (random.chance(0.9)) this.#transcripts.add(session);
    const trace = random.pick(["nothing", "spent", "word"] as const);
    this.processes.set(attemptText(at), { ...base, session, trace });
  }

  /** Starts the judge of work that has this to show; it only looks. */
  spawnJudge(at: AttemptRef, held: Held): void {
    const random = this.#random;
    this.spawns.push(at);
    const endsAt = this.now + 1 + random.below(500);
    const ending = { ...judgeWord(random, held), spent: randomSpent(random) };
    const trace = random.pick(["nothing", "spent", "word"] as const);
    const base = { at, endsAt, ending, trace, effectAt: Number.POSITIVE_INFINITY };
    this.processes.set(attemptText(at), { ...base, killed: false, killedAt: 0 });
  }

  /** Whether an attempt has done to the outside what it was for. */
  happened(at: AttemptRef): boolean {
    const process = this.processes.get(attemptText(at));
    if (process === undefined) return false;
    return process.effectAt <= (process.killed ? process.killedAt : this.now);
  }

  /** Whether this attempt of a visit or one before it has. */
  happenedIn(at: AttemptRef): boolean {
    const attempts = Array.from({ length: at.attempt }, (_, before) => before + 1);
    return attempts.some((attempt) => this.happened({ ...at, attempt }));
  }

  /** What the probe of an attempt finds: the truth, unless it cannot be found out. */
  probe(at: AttemptRef): FactOf<"probed"> {
    const asked = { type: "probed", at } as const;
    if (this.#random.chance(0.15)) return { ...asked, answer: "unknown", message: "no network" };
    if (!this.happenedIn(at)) return { ...asked, answer: "not-done" };
    return { ...asked, answer: "done", identity: attemptText(at), result: this.resultOf(at) };
  }

  /** What an attempt wrote for those after it. */
  resultOf(at: AttemptRef): Result {
    const ending = this.processes.get(attemptText(at))?.ending;
    return { outputs: {}, context: ending?.how === "exited" ? ending.context : {} };
  }

  isAlive(process: SimProcess): boolean {
    const dead = process.killed && !(this.undying && process.session !== undefined);
    return !dead && process.endsAt > this.now;
  }

  alive(): SimProcess[] {
    return [...this.processes.values()].filter((process) => this.isAlive(process));
  }

  /** What a resumed runner finds out about an attempt; undefined while it is alive. */
  evidence(at: AttemptRef): Ending | undefined {
    const process = this.processes.get(attemptText(at));
    if (this.#elsewhere.has(attemptText(at))) return lostOf(process);
    if (process === undefined) {
      return { how: "lost", started: false, message: "it had not started" };
    }
    if (process.killed) return traceOf(process);
    return this.isAlive(process) ? undefined : process.ending;
  }

  kill(process: SimProcess): void {
    if (!this.isAlive(process)) return;
    process.killed = true;
    process.killedAt = this.now;
  }

  /** The machine is gone with all its processes; these attempts may have been among them. */
  destroy(attempts: readonly AttemptRef[]): void {
    for (const process of this.alive()) this.kill(process);
    for (const at of attempts) {
      this.#elsewhere.add(attemptText(at));
      const process = this.processes.get(attemptText(at));
      // How it had ended is known to nobody.
      if (process !== undefined && !process.killed) {
        process.killed = true;
        process.killedAt = this.now;
      }
    }
  }

  /** The next time at which a process ends by itself. */
  nextEnd(): number | undefined {
    const times = this.alive().map(({ endsAt }) => endsAt);
    return times.length === 0 ? undefined : Math.min(...times);
  }
}

/** True for an end that is a success: by its exit status, and by its own word. */
export function endedWell(ending: Ending): boolean {
  if (ending.how !== "exited" || ending.exit !== 0 || ending.problem) return false;
  return ending.reported?.outcome !== "fail" && ending.reported?.outcome !== "retry";
}

function traceOf(process: SimProcess): Ending {
  const { trace, ending } = process;
  if (trace === "word" && ending.how === "exited" && ending.exit === 0) {
    return { ...ending, fromStream: true };
  }
  return lostOf(process);
}

function lostOf(process: SimProcess | undefined): Ending {
  const lost = { how: "lost", started: true, message: "its process is gone" } as const;
  const spent = process?.ending.spent;
  return process?.trace === "nothing" || spent === undefined ? lost : { ...lost, spent };
}

function shellEnding(random: Random): Ending {
  if (random.chance(0.05)) return tooLong;
  return exited(random, 0.75);
}

const tooLong: Ending = { how: "timed-out", limit: "timeout", message: "it took too long" };

function exited(random: Random, chance: number): Extract<Ending, { how: "exited" }> {
  const exit = random.chance(chance) ? 0 : 1;
  const context = random.chance(0.3) ? { dice: String(random.below(3)) } : {};
  const reported = random.chance(0.25) ? { reported: randomWords(random) } : {};
  return { how: "exited", exit, outputs: {}, context: exit === 0 ? context : {}, ...reported };
}

/** What a step says of itself. */
function randomWords(random: Random): StepReport {
  const outcome = random.pick(["success", "partial_success", "retry", "fail", "port"]);
  return {
    ...(random.chance(0.7) ? { outcome } : {}),
    ...(random.chance(0.4) ? { label: random.pick(["yes", "N) no", "maybe"]) } : {}),
    ...(random.chance(0.3) ? { next: [`s${random.below(4)}`, "s1"] } : {}),
    ...(random.chance(0.2) ? { notes: "as it seemed" } : {}),
  };
}

/** How an agent ends, after what was said to it. */
function agentEnding(random: Random, says: Conversation["says"]): Ending {
  const spent = randomSpent(random);
  return { ...agentWord(random, says), spent };
}

function randomSpent(random: Random): Spent {
  return {
    inputTokens: 10 + random.below(5),
    cachedTokens: random.below(3),
    outputTokens: 1,
    turns: 1,
    ...(random.chance(0.8) ? { costUsd: 0.5 } : {}),
  };
}

/** What a judge comes to: a verdict, or trouble of its own. */
function judgeWord(random: Random, held: Held): Ending {
  const { check: _, checks: __, ...shown } = held;
  const verdict = (exit: number): CheckFindings =>
    findings([...checksFound(held), { kind: "judge", subject: "It is good.", exit }]);
  switch (random.below(12)) {
    case 0:
      return { how: "asked", ask: { kind: "correct", why: "it is not JSON" } };
    case 1:
      return { how: "paused", reason: "rate-limit", message: "busy" };
    case 2:
      return { how: "reined", reason: "stall", message: "no progress" };
    case 3:
      return tooLong;
    case 4: {
      const problem = { reason: "agent", message: "no access" } as const;
      return { how: "exited", exit: 0, outputs: {}, context: {}, problem };
    }
    case 5:
    case 6:
    case 7: {
      const problem = { reason: "check", message: "not good" } as const;
      return { how: "exited", exit: 0, outputs: {}, context: {}, ...verdict(1), problem };
    }
    default:
      return { how: "exited", ...shown, ...verdict(0) };
  }
}

function agentWord(random: Random, says: Conversation["says"]): Ending {
  if (says === "relay" && random.chance(0.7)) {
    return { how: "relayed", checkpoint: { path: "/notes", sha256: "0", bytes: 1 } };
  }
  switch (random.below(16)) {
    case 0:
    case 1:
      return { how: "asked", ask: { kind: "relay", why: "it is full" } };
    case 2:
      return { how: "asked", ask: { kind: "correct", why: "it is not JSON" } };
    case 3:
      return { how: "reined", reason: random.pick(["stall", "turns"]), message: "no progress" };
    case 4:
      return { how: "paused", reason: "rate-limit", message: "busy" };
    case 5:
      return { how: "paused", reason: "session-gone", message: "gone" };
    case 6:
      return tooLong;
    case 7: {
      const calls = [`Bash(call ${random.below(3)})`];
      const ask = { kind: "permission", why: "it was not permitted", calls } as const;
      return { how: "asked", ask, denied: calls };
    }
    default:
      return { ...exited(random, 0.85), answer: "done" };
  }
}
