/**
 * The modes of fidelity, for YAML and DOT: how much an agent learns about the run before its
 * prompt.
 */

/** The same conversation, or a briefing: from the goal alone to 3000 tokens. */
export const FIDELITIES = [
  "full",
  "truncate",
  "compact",
  "summary:low",
  "summary:medium",
  "summary:high",
] as const;

export type Fidelity = (typeof FIDELITIES)[number];

/** The modes that are a briefing, not a conversation. */
export type BriefingMode = Exclude<Fidelity, "full">;

export const BRIEFING_MODES = FIDELITIES.filter((mode): mode is BriefingMode => mode !== "full");
