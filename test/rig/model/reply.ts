/**
 * What the fake model says, in words that belong to no protocol. Everything here is plain JSON, so
 * a script can be written in a test or kept in a file.
 */

/**
 * One thing in a reply. `tool` names an agent's own tool and gives its input as it is. In texts and
 * commands NUMBER stands for the number of the request, by which an answer is known again.
 */
export type Move =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "shell"; readonly command: string }
  | { readonly type: "write"; readonly path: string; readonly content: string }
  | {
      readonly type: "tool";
      readonly name: string;
      readonly input: { readonly [k: string]: unknown };
    };

/**
 * A point in the answer: nothing sent yet; the stream is open; half of what it says is out; all of
 * it is out (an agent may already run the tool), but the end is not.
 */
export type StreamPoint = "accept" | "start" | "middle" | "end";

export type Fault =
  /** Waits at a point until the test releases it. */
  | { readonly type: "stall"; readonly at: StreamPoint }
  /** Breaks the connection at a point. */
  | { readonly type: "cut"; readonly at: StreamPoint }
  /** Answers with an HTTP error in the words of the protocol. */
  | { readonly type: "refuse"; readonly status: number; readonly retryAfterS?: number }
  /** The money or the plan's allowance is used up; `resetAtS` (epoch) is when it returns. */
  | { readonly type: "quota"; readonly resetAtS?: number }
  /** The conversation is too long for the model. */
  | { readonly type: "overflow" };

export interface Usage {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

export interface Reply {
  readonly moves: readonly Move[];
  readonly usage?: Partial<Usage>;
  readonly fault?: Fault;
  /** In a queue: how often it is given. In a stateless script: how often its fault strikes. */
  readonly times?: number | "always";
}

/**
 * `queue`: one reply after the other, whoever asks. `stateless`: chosen by the number of tool
 * results that the request carries, so that an agent that was killed and resumed carries on.
 */
export interface Script {
  readonly mode: "queue" | "stateless";
  /** Only for conversations in which the user has said this; the count begins there. */
  readonly when?: string;
  readonly replies: readonly Reply[];
  /**
   * What a stateless script does with the result of an interrupted call: `repeat` the
   * call (the default), or take it for an answer.
   */
  readonly interrupted?: "repeat" | "answer";
}

/** What is replaced by the number of the request that is answered. */
export const NUMBER = "{request}";

export const USAGE_DEFAULT: Usage = { input: 100, output: 20, cacheRead: 0, cacheWrite: 0 };

/** A reply that only speaks; it ends the agent's turn. */
export function text(said: string, more: Omit<Reply, "moves"> = {}): Reply {
  return { moves: [{ type: "text", text: said }], ...more };
}

/** A reply that calls the agent's shell. */
export function shell(command: string, more: Omit<Reply, "moves"> = {}): Reply {
  return { moves: [{ type: "shell", command }], ...more };
}

/** A reply that writes a file with the agent's own tool for it. */
export function write(path: string, content: string, more: Omit<Reply, "moves"> = {}): Reply {
  return { moves: [{ type: "write", path, content }], ...more };
}

/** A reply that calls a tool by the name that the agent gave it. */
export function tool(name: string, input: { readonly [k: string]: unknown }): Reply {
  return { moves: [{ type: "tool", name, input }] };
}

/** One reply that says all of these. */
export function together(...replies: readonly Reply[]): Reply {
  return { ...replies.at(-1), moves: replies.flatMap(({ moves }) => moves) };
}

/** A reply that waits at a point until it is released. */
export function stall(point: StreamPoint, reply: Reply): Reply {
  return { ...reply, fault: { type: "stall", at: point } };
}

/** A reply whose connection breaks at a point. */
export function cut(point: StreamPoint, reply: Reply): Reply {
  return { ...reply, fault: { type: "cut", at: point } };
}

/** An HTTP error, and in a stateless script the reply that follows it. */
export function refuse(status: number, reply: Reply = { moves: [] }, retryAfterS?: number): Reply {
  const after = retryAfterS === undefined ? {} : { retryAfterS };
  return { ...reply, fault: { type: "refuse", status, ...after } };
}

/** The error that says that the allowance is used up. */
export function quota(reply: Reply = { moves: [] }, resetAtS?: number): Reply {
  return { ...reply, fault: { type: "quota", ...(resetAtS === undefined ? {} : { resetAtS }) } };
}

/** The error that says that the conversation is too long, and what follows in a shorter one. */
export function overflow(reply: Reply = { moves: [] }): Reply {
  return { ...reply, fault: { type: "overflow" } };
}

/** The same reply, given (or its fault striking) so often. */
export function times(count: number | "always", reply: Reply): Reply {
  return { ...reply, times: count };
}

/** A script that is given in order. */
export function queue(...replies: readonly Reply[]): Script {
  return { mode: "queue", replies };
}

/** A script that is chosen by the tool results in the request. */
export function stateless(...replies: readonly Reply[]): Script {
  return { mode: "stateless", replies };
}

/** A stateless script for conversations in which the user has said these words. */
export function when(words: string, ...replies: readonly Reply[]): Script {
  return { ...stateless(...replies), when: words };
}

/** The moves of the answer to the request with this number. */
export function numbered(moves: readonly Move[], sequence: number): readonly Move[] {
  const put = (words: string): string => words.replaceAll(NUMBER, String(sequence));
  return moves.map((move) => {
    if (move.type === "text") return { ...move, text: put(move.text) };
    return move.type === "shell" ? { ...move, command: put(move.command) } : move;
  });
}

/** How many tool calls a reply makes. */
export function callsOf(reply: Reply): number {
  return reply.moves.filter(({ type }) => type !== "text").length;
}
