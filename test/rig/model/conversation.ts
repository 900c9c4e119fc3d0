/**
 * A conversation as a model was sent it, whatever the protocol: what was said, which tools were
 * called and what they gave.
 *
 * Owns: leaving out what agents put in by themselves, so that a test can say what must be there.
 * Does not: read a wire format; the protocols do.
 */
import type { Turn } from "./ask.ts";
import type { ModelRequest } from "./request-log.ts";

/** Agents describe the machine and themselves in turns that begin with a tag. */
const OWN_WORDS = /^\s*<[a-z]/;

/** The turns of a request, oldest first, without those that say nothing or are the agent's own. */
export function conversationOf({ ask }: Pick<ModelRequest, "ask">): readonly Turn[] {
  return (ask?.turns ?? []).filter((turn) => {
    if (turn.type === "user") return turn.text.trim() !== "" && !OWN_WORDS.test(turn.text);
    return turn.type !== "assistant" || turn.text.trim() !== "";
  });
}
