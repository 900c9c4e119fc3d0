/**
 * Chooses the reply: which script speaks to a conversation, and where in it the conversation is.
 */
import { type Ask, resultsSince, userSaid } from "./ask.ts";
import {
  callsOf,
  type Fault,
  type Reply,
  type Script,
  USAGE_DEFAULT,
  type Usage,
} from "./reply.ts";

/** A reply as it is given this time. */
export interface Chosen {
  readonly reply: Reply;
  readonly usage: Usage;
  readonly fault: Fault | undefined;
}

/** The scripts of a fake model, and how far each queue and each fault has been used. */
export class Playbook {
  readonly #scripts: readonly Script[];
  /** How often a reply of a queue was given, or the fault of a stateless reply struck. */
  readonly #used = new Map<Reply, number>();

  constructor(scripts: readonly Script[]) {
    this.#scripts = scripts;
  }

  /** The reply to an ask, or undefined when no script has one (left). It is used up by this. */
  next(ask: Ask): Chosen | undefined {
    const script = this.#scripts.find(({ when }) => when === undefined || userSaid(ask, when));
    if (script === undefined) return undefined;
    return script.mode === "queue" ? this.#fromQueue(script) : this.#fromState(script, ask);
  }

  #fromQueue({ replies }: Script): Chosen | undefined {
    const reply = replies.find((candidate) => !this.#usedUp(candidate));
    if (reply === undefined) return undefined;
    this.#use(reply);
    return chosen(reply, reply.fault);
  }

  #fromState(script: Script, ask: Ask): Chosen | undefined {
    const reply = replyAfter(script.replies, resultsSince(ask, script));
    if (reply === undefined) return undefined;
    if (reply.fault === undefined || this.#usedUp(reply)) return chosen(reply, undefined);
    this.#use(reply);
    return chosen(reply, reply.fault);
  }

  #use(reply: Reply): void {
    this.#used.set(reply, (this.#used.get(reply) ?? 0) + 1);
  }

  #usedUp(reply: Reply): boolean {
    const { times = 1 } = reply;
    return times !== "always" && (this.#used.get(reply) ?? 0) >= times;
  }
}

/** The reply that comes after so many results; a reply without calls ends the script. */
function replyAfter(replies: readonly Reply[], results: number): Reply | undefined {
  let left = results;
  for (const reply of replies) {
    const calls = callsOf(reply);
    if (calls === 0 || left < calls) return reply;
    left -= calls;
  }
  return replies.at(-1);
}

function chosen(reply: Reply, fault: Fault | undefined): Chosen {
  return { reply, usage: { ...USAGE_DEFAULT, ...reply.usage }, fault };
}
