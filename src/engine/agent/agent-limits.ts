/**
 * The limits of a running agent: it makes no progress, it has used its turns, or its conversation is
 * nearly full.
 *
 * Owns: these limits, as a function of the stream alone, so that a later owner that reads the same
 *   stream reaches the same verdict.
 * Does not: end anything.
 */
import type { Relay } from "../../plan/plan.ts";
import type { AgentReport } from "../../runner/agents/report.ts";
import { headOf } from "../../runner/agents/stream-json.ts";
import { windowOf } from "../../runner/agents/usage.ts";

/** The assumed context size of an unknown model. */
const WINDOW_DEFAULT = 200_000;
const CALL_CHARACTERS_MAX = 200;

export interface AgentLimits {
  /** How many turns the model has left in this attempt; absent when its agent counts them. */
  readonly turns?: number;
  /** How many turns it has in all, those of earlier attempts included; for messages. */
  readonly turnsAllowed?: number;
  readonly relay?: Relay;
  readonly model?: string;
}

/** A limit that was reached. `turns` and `relay` wait until the running tools have ended. */
type Reached =
  | { readonly kind: "stall"; readonly message: string }
  | { readonly kind: "turns"; readonly message: string }
  | { readonly kind: "relay"; readonly message: string };

/** The limit that an agent has reached; undefined after its result. */
export function limitReached(report: AgentReport, limits: AgentLimits): Reached | undefined {
  const { stall, result, turns, context } = report;
  if (result?.ok === true) return undefined;
  if (stall !== undefined) {
    const call = `${stall.name} ${headOf(stall.input, CALL_CHARACTERS_MAX)}`.trim();
    return { kind: "stall", message: `the same call failed ${stall.failures} times: ${call}` };
  }
  if (limits.turns !== undefined && turns >= limits.turns) {
    return { kind: "turns", message: turnsMessage(limits) };
  }
  const full = limits.relay === undefined ? undefined : relayAt(limits.relay, report, limits.model);
  if (full === undefined || context === undefined || context < full) return undefined;
  return { kind: "relay", message: `its conversation has ${context} tokens; ${full} are allowed` };
}

/** The message for used turns; it names the key that limits them. */
export function turnsMessage({ turnsAllowed }: AgentLimits): string {
  const turns = turnsAllowed === undefined ? "its" : `all of its ${turnsAllowed}`;
  return `it used up ${turns} turns (max_turns) before it was done`;
}

function relayAt(relay: Relay, report: AgentReport, model: string | undefined): number {
  if ("tokens" in relay) return relay.tokens;
  const window = report.window ?? windowOf(model) ?? WINDOW_DEFAULT;
  return Math.floor(relay.share * window);
}
