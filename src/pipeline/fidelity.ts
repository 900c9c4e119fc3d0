/** How much of what came before an agent step is told: the modes, in both languages of pipelines. */

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

/** What can be told without a conversation. */
export type Retelling = Exclude<Fidelity, "full">;

export const RETELLINGS = FIDELITIES.filter((mode): mode is Retelling => mode !== "full");
