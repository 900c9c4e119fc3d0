/** What a step reported: its outcome, the label of the edge that it prefers, its notes. */
import type { Told } from "../core/event.ts";
import type { JsonObject } from "../util/json.ts";
import { plainText } from "./display-text.ts";
import { messageText } from "./failure-words.ts";

/** `partial_success, label "Fix it": two tests are left`; empty when it reported nothing. */
export function toldText({ outcome, label, next = [], notes }: Told = {}): string {
  const said = [
    ...(outcome === undefined ? [] : [plainText(outcome)]),
    ...(label === undefined ? [] : [`label "${plainText(label)}"`]),
    ...(next.length === 0 ? [] : [`next ${plainText(next.join(", "))}`]),
  ].join(", ");
  if (notes === undefined) return said;
  return said === "" ? messageText(notes) : `${said}: ${messageText(notes)}`;
}

/** The same for programs. */
export function toldJson(told: Told | undefined): JsonObject {
  if (told === undefined) return {};
  const { outcome, label, next, notes } = told;
  return {
    told: {
      outcome: outcome ?? null,
      preferred_label: label ?? null,
      suggested_next_ids: next ?? [],
      notes: notes ?? null,
    },
  };
}
