/** How much an agent is told of what came before: the modes, for YAML and DOT. */

/** The conversation itself, or what is written down for it: from the goal alone to 3000 tokens. */
export const FIDELITIES = [
  "full",
  "truncate",
  "compact",
  "summary:low",
  "summary:medium",
  "summary:high",
] as const;

export type Fidelity = (typeof FIDELITIES)[number];

/** What an agent can be told without a conversation. */
export type BriefingMode = Exclude<Fidelity, "full">;

export const BRIEFING_MODES = FIDELITIES.filter((mode): mode is BriefingMode => mode !== "full");
