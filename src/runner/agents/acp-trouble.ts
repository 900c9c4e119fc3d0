/**
 * Why a conversation over the Agent Client Protocol could not go on.
 *
 * Owns: what the errors of the protocol mean.
 * Does not: decide whether to try again.
 */
import { RequestError } from "@agentclientprotocol/sdk";
import type { Json } from "../../util/json.ts";
import type { Trouble, TroubleKind } from "./adapter.ts";
import { textAt } from "./stream-json.ts";
import { trouble, troubleOf } from "./trouble.ts";

const AUTH_REQUIRED = -32_000;

/** A trouble that ends the conversation, on its way to its last line. */
export class AcpTrouble extends Error {
  readonly trouble: Trouble;

  constructor(kind: TroubleKind, message: string) {
    super(message);
    this.trouble = trouble(kind, message);
  }
}

/** The trouble behind an error; undefined for one that is neither the agent's word nor ours. */
export function troubleBehind(error: unknown): Trouble | undefined {
  if (error instanceof AcpTrouble) return error.trouble;
  if (!(error instanceof RequestError)) return undefined;
  const { code } = error;
  const message = [error.message, detailsIn(error.data as Json | undefined)]
    .filter((text, index, texts) => text !== "" && texts.indexOf(text) === index)
    .join(": ");
  if (code === AUTH_REQUIRED) return trouble("auth", message);
  // Some agents pass the status of the model's service on as the code.
  return troubleOf({ message, status: code >= 400 && code < 600 ? code : undefined });
}

/** What an agent adds to its error, in one of the places where agents do. */
function detailsIn(data: Json | undefined): string {
  if (typeof data === "string") return data;
  return textAt(data, "details") ?? textAt(data, "message") ?? textAt(data, "error") ?? "";
}
