/**
 * Reads what an agent sends during a prompt over the Agent Client Protocol: turns its updates into
 * lines (acp.ts), and answers its requests for permission.
 *
 * Owns: when each line is printed (text arrives in pieces and is printed in lines; a pending tool
 * call is held for a moment, because its input often arrives after it); which kinds of tools a
 * step's `permissions` allow, and which its `tools`.
 * Does not: send anything to the agent, or decide when it asks for permission; its own
 * configuration does.
 * Invariants: nothing is printed before `begin`, because a loaded conversation first replays old
 * lines. runner/G4: a call is allowed only once, because a lasting permission would outlive the
 * step.
 */
import { setTimeout as sleep } from "node:timers/promises";
import {
  matchesPattern,
  type PermissionLevel,
  ruleFor,
  toolRule,
} from "../../../util/agent-access.ts";
import type { Json } from "../../../util/json.ts";
import { at, headOf, inputText, listAt, numberAt, textAt } from "../stream-json.ts";
import type { AcpCall, AcpLine } from "./acp.ts";

/** How long text and pending calls are held back; the idle timeout must see them. */
const HOLD_MS = 500;
/**
 * A replay has ended when no update has come for SILENCE_MS, or at the latest after REPLAY_MS_MAX.
 */
const SILENCE_MS = 250;
const REPLAY_MS_MAX = 30_000;
const TEXT_CHARACTERS_MAX = 16 * 1024;
const INPUT_CHARACTERS_MAX = 16 * 1024;
const RESULT_CHARACTERS_MAX = 16 * 1024;
const TOOLS_MAX = 256;

/** A call for which an agent asks permission, as the agent describes it. */
interface RequestedCall {
  readonly kind: string;
  readonly name: string;
  readonly title: string;
  readonly input: string;
}

interface Tool extends RequestedCall {
  readonly stage: "held" | "started" | "ended";
}

/** The updates of one prompt. */
export class AcpUpdates {
  readonly #print: (line: AcpLine) => void;
  readonly #tools = new Map<string, Tool>();
  #begun = false;
  /** How many updates have come. */
  #received = 0;
  #pending: { readonly type: "text" | "thought"; readonly text: string } | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(print: (line: AcpLine) => void) {
    this.#print = print;
  }

  /** Waits for the end of a replay: Gemini CLI continues it after it has opened the session. */
  async replayEnd(): Promise<void> {
    let before = -1;
    for (let waited = 0; waited < REPLAY_MS_MAX; waited += SILENCE_MS) {
      if (before === this.#received) return;
      before = this.#received;
      await sleep(SILENCE_MS);
    }
  }

  /** Prints updates from now on. */
  begin(): void {
    this.#begun = true;
  }

  /** Reads an update; those that are not about the work are ignored. */
  update(update: Json | undefined): void {
    this.#received++;
    if (!this.#begun) return;
    switch (textAt(update, "sessionUpdate")) {
      case "agent_message_chunk":
        return this.#addText("text", textAt(update, "content", "text") ?? "");
      case "agent_thought_chunk":
        return this.#addText("thought", textAt(update, "content", "text") ?? "");
      case "tool_call":
      case "tool_call_update":
        return this.#tool(update);
      case "usage_update":
        return this.#cost(at(update, "cost"));
      default:
        return undefined;
    }
  }

  /** Answers a request for permission; an allowed call begins now at the latest. */
  permission(step: AcpCall, request: Json): PermissionAnswer["outcome"] {
    const call = at(request, "toolCall");
    const id = textAt(call, "toolCallId") ?? "";
    const { allowed, outcome } = answerPermission(step, this.#known(id, call), request);
    this.flush();
    const tool = this.#known(id, call);
    if (allowed) {
      this.#keep(id, tool);
      this.#started(id);
    } else {
      const rule = ruleFor(tool.kind, tool.input || tool.title);
      this.#print({ type: "denied", tool: tool.title, rule });
    }
    return outcome;
  }

  /** The tokens in the agent's answer to the prompt, if it reports them. */
  usage(response: Json): void {
    const reported = at(response, "usage");
    if (reported !== undefined) {
      this.#print({ type: "usage", ...usageIn(reported) });
      return;
    }
    // Gemini CLI reports them in a field of its own.
    const count = at(response, "_meta", "quota", "token_count");
    if (count === undefined) return;
    const inputTokens = numberAt(count, "input_tokens") ?? 0;
    const outputTokens = numberAt(count, "output_tokens") ?? 0;
    this.#print({ type: "usage", inputTokens, cachedTokens: 0, outputTokens });
  }

  /** Prints the text and the calls that are held back. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const [id, { stage }] of this.#tools) if (stage === "held") this.#started(id);
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending !== undefined && pending.text !== "") this.#print(pending);
  }

  #addText(type: "text" | "thought", text: string): void {
    if (this.#pending?.type !== type) this.flush();
    const whole = (this.#pending?.text ?? "") + text;
    const end = whole.lastIndexOf("\n") + 1;
    const printed = whole.length > TEXT_CHARACTERS_MAX ? whole.length : end;
    if (printed > 0) this.#print({ type, text: whole.slice(0, printed) });
    this.#pending = { type, text: whole.slice(printed) };
    this.#hold();
  }

  #tool(update: Json | undefined): void {
    const id = textAt(update, "toolCallId") ?? "";
    const before = this.#tools.get(id);
    if (before?.stage === "ended") return;
    const status = textAt(update, "status");
    const isNew = before === undefined && (status === undefined || status === "pending");
    if (before?.stage !== "held") this.flush();
    this.#keep(id, this.#known(id, update));
    if (isNew) return this.#hold();
    this.#started(id);
    if (status !== "completed" && status !== "failed") return;
    this.#keep(id, { ...this.#known(id, update), stage: "ended" });
    const ended = { type: "tool-ended", id, ok: status === "completed" } as const;
    const result = resultIn(update);
    this.#print(result === "" ? ended : { ...ended, result });
  }

  #started(id: string): void {
    const tool = this.#known(id, undefined);
    if (tool.stage !== "held") return;
    this.#keep(id, { ...tool, stage: "started" });
    this.#print({ type: "tool-started", id, name: tool.name, input: tool.input || tool.title });
  }

  /** A call as known so far, with what the agent reports now. */
  #known(id: string, reported: Json | undefined): Tool {
    const before = this.#tools.get(id);
    const kind = textAt(reported, "kind") ?? before?.kind ?? "other";
    const input = inputText(at(reported, "rawInput")).slice(0, INPUT_CHARACTERS_MAX);
    return {
      kind,
      name: textAt(reported, "name") ?? before?.name ?? kind,
      title: textAt(reported, "title") ?? before?.title ?? kind,
      input: input === "" || input === "{}" ? (before?.input ?? "") : input,
      stage: before?.stage ?? "held",
    };
  }

  #keep(id: string, tool: Tool): void {
    this.#tools.set(id, tool);
    const [oldest] = this.#tools.keys();
    if (this.#tools.size > TOOLS_MAX && oldest !== undefined) this.#tools.delete(oldest);
  }

  #cost(cost: Json | undefined): void {
    const totalUsd = numberAt(cost, "amount");
    if (totalUsd === undefined || textAt(cost, "currency") !== "USD") return;
    this.#print({ type: "cost", totalUsd });
  }

  #hold(): void {
    this.#timer ??= setTimeout(() => this.flush(), HOLD_MS);
  }
}

/** The text of the result of a call. */
function resultIn(update: Json | undefined): string {
  const texts = listAt(update, "content").map((part) => textAt(part, "content", "text") ?? "");
  return headOf(texts.join("\n").trim(), RESULT_CHARACTERS_MAX);
}

/**
 * Some agents include cached tokens in the input and thinking in the output, some count them
 * separately; the total shows which.
 */
function usageIn(reported: Json): {
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
} {
  const total = numberAt(reported, "totalTokens") ?? 0;
  const input = numberAt(reported, "inputTokens") ?? 0;
  const output = numberAt(reported, "outputTokens") ?? 0;
  const cached = numberAt(reported, "cachedReadTokens") ?? 0;
  const beside = cached + (numberAt(reported, "cachedWriteTokens") ?? 0);
  const thought = numberAt(reported, "thoughtTokens") ?? 0;
  const inputTokens = input + beside + output <= total ? input + beside : input;
  const outputTokens = inputTokens + output + thought <= total ? output + thought : output;
  return { inputTokens, cachedTokens: cached, outputTokens };
}

/** The kinds of tools that each level of `permissions` allows. */
const ALLOWED: Readonly<Record<PermissionLevel, (kind: string) => boolean>> = {
  default: () => false,
  plan: (kind) => ["read", "search", "think"].includes(kind),
  edit: (kind) => ["read", "search", "think", "edit", "move"].includes(kind),
  all: () => true,
};

/** The answer to a request, and whether it allows what was asked. */
interface PermissionAnswer {
  readonly allowed: boolean;
  readonly outcome:
    | { readonly outcome: "selected"; readonly optionId: string }
    | { readonly outcome: "cancelled" };
}

/** Answers a request for permission. */
export function answerPermission(
  { permissions, allow = [], deny = [] }: Pick<AcpCall, "permissions" | "allow" | "deny">,
  call: RequestedCall,
  request: Json,
): PermissionAnswer {
  const once = optionOf(request, "allow_once");
  const named = (rules: readonly string[]): boolean =>
    rules.some((rule) => ruleMatches(rule, call));
  const wanted = !named(deny) && (named(allow) || ALLOWED[permissions](call.kind));
  const allowed = once !== undefined && wanted;
  const optionId = allowed ? once : optionOf(request, "reject_once");
  if (optionId === undefined) return { allowed: false, outcome: { outcome: "cancelled" } };
  return { allowed, outcome: { outcome: "selected", optionId } };
}

/** Whether a rule matches a call: by name or kind, and by its input or title. */
function ruleMatches(rule: string, { kind, name, title, input }: RequestedCall): boolean {
  const { name: wanted, pattern } = toolRule(rule);
  if (wanted !== name && wanted !== kind) return false;
  if (pattern === undefined) return true;
  return [input, title, title.replaceAll("`", "")].some((text) => matchesPattern(pattern, text));
}

function optionOf(request: Json, kind: string): string | undefined {
  const options = listAt(request, "options");
  return textAt(
    options.find((option) => textAt(option, "kind") === kind),
    "optionId",
  );
}
