/**
 * The output of a run's attempts: the files that hold it, and readers that turn them into the lines
 * that a person sees; of an agent its words, its tool calls and their results, its delays and its
 * problems.
 *
 * Owns: the order and the labels of the files, how much of an output is read, and how much of a tool
 * call and of its result is shown.
 * Does not: judge a stream or choose colours; a line names its tone. The adapters are loaded only for
 * plans that use them.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { judgeOf } from "../../core/attempt/check.ts";
import type { AttemptRef, EventOf } from "../../core/event.ts";
import { findVisit, stepOf, type Visit } from "../../core/run.ts";
import { attemptText } from "../../core/step-path.ts";
import { attemptDirOf, type RunDir } from "../../engine/state-dir.ts";
import { checksOf, type Plan, type Step } from "../../plan/plan.ts";
import type { AgentEvent } from "../../runner/agents/adapter.ts";
import type { AgentFollower, AgentReport } from "../../runner/agents/report.ts";
import type { PriceList } from "../../runner/agents/usage.ts";
import { ATTEMPT_FILE, checkOutputFile } from "../../runner/process/attempt-folder.ts";
import { followLines } from "../../runner/process/output.ts";
import { closeAll } from "../../util/close.ts";
import { defined } from "../../util/defined.ts";
import { formatDuration } from "../../util/duration.ts";
import type { LiveSpending } from "../../view/live/live-input.ts";
import { firstLine, plainText, type Tone } from "../../view/text.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { hasAgents, priceListOf } from "../prices.ts";
import { masked } from "./secret-mask.ts";

/** A file of an attempt with what it printed. */
export interface OutputFile {
  readonly name: string;
  /** A check or a judge that wrote it, if the step itself did not. */
  readonly mark?: string;
  /** It holds the stream of an agent, or what a command printed. */
  readonly isWork: boolean;
}

/** An attempt whose output is to be read. */
export interface PrintedAttempt {
  readonly step: Step | undefined;
  /** The agent that judges in it. */
  readonly judge?: string | undefined;
}

/** The attempt that a visit is at. */
export function printedAttempt(visit: Visit): PrintedAttempt {
  return { step: stepOf(visit), judge: judgeOf(visit)?.agent };
}

/** The attempt that an event started. */
export function startedAttempt({ run }: LoadedRun, at: EventOf<"step.started">): PrintedAttempt {
  const visit = findVisit(run, at);
  return { step: visit && stepOf(visit), judge: at.judge };
}

/** The files of an attempt, in the order in which they are written. */
export function outputFiles({ step, judge }: PrintedAttempt): readonly OutputFile[] {
  const work = [ATTEMPT_FILE.output, ATTEMPT_FILE.stderr] as const;
  if (judge !== undefined) return work.map((name) => ({ name, mark: "judge", isWork: true }));
  const commands = checksOf(step ?? {}).filter(({ kind }) => kind === "command");
  return [
    ...work.map((name) => ({ name, isWork: true })),
    ...commands.map((_, index) => ({
      name: checkOutputFile(index + 1),
      mark: commands.length === 1 ? "check" : `check ${index + 1}`,
      isWork: false,
    })),
  ];
}

/** What an agent has used in an attempt so far, and what it does now. */
export interface AgentActivity extends LiveSpending {
  /** "→ Bash: npm test" while a tool runs. */
  readonly tool?: string;
}

/** A file of an attempt, and what a person sees of its lines. */
interface ReadableFile {
  readonly name: string;
  /** It holds the stream of an agent. */
  readonly isStream: boolean;
  readonly lines: (text: string) => readonly OutputLine[];
}

/** Reads the output of one attempt. */
interface OutputReader {
  readonly files: readonly ReadableFile[];
  /** Of an agent: its activity after the lines that were read. */
  activity(): AgentActivity | undefined;
}

/** Returns the reader of an attempt, for its step's agent or its judge. */
export type OutputReaders = (attempt: PrintedAttempt) => OutputReader;

/** The readers for the steps of a plan. Without prices, a cost is known only if the agent says it. */
export async function outputReaders(plan: Plan, prices?: PriceList): Promise<OutputReaders> {
  if (!hasAgents(plan)) return (printed) => readerOf(printed, undefined);
  const { agentAdapter } = await import("../../runner/agents/registry.ts");
  const { AgentFollower } = await import("../../runner/agents/report.ts");
  return (printed) => {
    const { step, judge } = printed;
    const agent = judge ?? (step?.work.kind === "agent" ? step.work.agent : "");
    const adapter = agentAdapter(plan.agents[agent]?.adapter ?? "");
    return readerOf(printed, adapter && new AgentFollower(adapter, prices));
  };
}

/** The same with the prices of the plan. */
export async function pricedReaders(plan: Plan): Promise<OutputReaders> {
  return outputReaders(plan, hasAgents(plan) ? await priceListOf(plan) : undefined);
}

function readerOf(printed: PrintedAttempt, follower: AgentFollower | undefined): OutputReader {
  const agentLines = new AgentLines();
  const files = outputFiles(printed).map(({ name, mark, isWork }): ReadableFile => {
    const shown = (line: OutputLine): OutputLine => (mark === undefined ? line : { ...line, mark });
    // What is no part of the stream (an error of the program itself) is shown as it is.
    const lines = (text: string): readonly OutputLine[] =>
      isWork && follower !== undefined && text.startsWith("{")
        ? follower.line(text).flatMap((one) => agentLines.of(one).map(shown))
        : [shown({ text })];
    return { name, isStream: isWork && follower !== undefined, lines };
  });
  return { files, activity: () => follower && activityIn(follower.report) };
}

function activityIn({
  session,
  turns,
  usage,
  conversationUsd,
  openTools,
}: AgentReport): AgentActivity {
  const tool = openTools.at(-1);
  const { costUsd, counting } = usage;
  const total = counting === "total" ? costUsd : conversationUsd;
  return {
    turns,
    ...(counting === "delta" ? defined({ costUsd }) : {}),
    ...defined({ session, conversationUsd: total }),
    ...(tool === undefined ? {} : { tool: callText(tool.name, tool.input) }),
  };
}

const TAIL_BYTES_MAX = 64 * 1024;
const TAIL_LINES_MAX = 40;
/** Of so many attempts at most, the newest. */
const ATTEMPTS_MAX = 200;

/** The tails by attempt (`fix@2.3`), oldest first; attempts that printed nothing are not there. */
export async function outputTails(known: LoadedRun): Promise<ReadonlyMap<string, string>> {
  const readers = await outputReaders(known.plan);
  const tails = new Map<string, string>();
  const starts = known.events.flatMap(({ event }) =>
    event.type === "step.started" ? [event] : [],
  );
  for (const at of starts.slice(-ATTEMPTS_MAX)) {
    const { files } = readers(startedAttempt(known, at));
    const lines = files
      .flatMap((file) =>
        tailOf(join(attemptDirOf(known.dir, at), file.name)).flatMap((line) => file.lines(line)),
      )
      .slice(-TAIL_LINES_MAX)
      .map((line) => masked(markedText(line)));
    if (lines.length > 0) tails.set(attemptText(at), lines.join("\n"));
  }
  return tails;
}

function tailOf(path: string): readonly string[] {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  try {
    const { size } = fstatSync(file);
    const from = Math.max(0, size - TAIL_BYTES_MAX);
    const buffer = Buffer.alloc(size - from);
    const text = buffer.toString("utf8", 0, readSync(file, buffer, 0, buffer.length, from));
    const lines = text.split("\n");
    // The first line of a cut is rarely a whole one.
    return (from > 0 ? lines.slice(1) : lines).filter((line) => line !== "");
  } finally {
    closeSync(file);
  }
}

/** Calls `onLine` with each line that an attempt prints; the result reads the rest and stops. */
export function followAttempt(
  {
    dir,
    at,
    readers,
  }: { readonly dir: RunDir; readonly at: AttemptRef; readonly readers: OutputReaders },
  printed: PrintedAttempt,
  onLine: (line: OutputLine) => void,
  onError?: (error: unknown) => void,
): () => Promise<void> {
  const folder = attemptDirOf(dir, at);
  const followed = readers(printed).files.map(({ name, lines }) =>
    followLines(join(folder, name), (line) => lines(line).forEach(onLine), defined({ onError })),
  );
  return () => closeAll(followed);
}

/** A line that an attempt printed. */
export interface OutputLine {
  readonly text: string;
  /** A check or a judge that printed it, if the step itself did not. */
  readonly mark?: string;
  readonly tone?: Tone;
}

/** "check │ 3 tests failed". */
export function markedText({ mark, text }: OutputLine): string {
  return mark === undefined ? text : `${mark} │ ${text}`;
}

type StreamEvent<T extends AgentEvent["type"]> = Extract<AgentEvent, { type: T }>;

const INPUT_SHOWN_MAX = 120;
const RESULT_LINES_MAX = 3;
const RESULT_WIDTH_MAX = 200;
/** Results name their tool while several calls are open; more calls than this are not remembered. */
const OPEN_CALLS_MAX = 64;

/** The lines of one stream, event by event. */
export class AgentLines {
  readonly #open = new Map<string, string>();

  /** What a person sees of an event. */
  of(event: AgentEvent): readonly OutputLine[] {
    switch (event.type) {
      case "text":
        return event.text.split("\n").map((text) => ({ text }));
      case "tool-started":
        return [this.#started(event)];
      case "tool-ended":
        return this.#ended(event);
      case "retrying":
        return [{ text: retryText(event), tone: "wait" }];
      case "denied":
        return [{ text: `✗ not permitted: ${event.tool}`, tone: "bad" }];
      case "result":
        if (event.ok) return [];
        return [{ text: `✗ ${event.trouble?.message ?? "it did not succeed"}`, tone: "bad" }];
      default:
        return [];
    }
  }

  #started({ id, name, input }: StreamEvent<"tool-started">): OutputLine {
    const [oldest] = this.#open.keys();
    if (this.#open.size >= OPEN_CALLS_MAX && oldest !== undefined) this.#open.delete(oldest);
    this.#open.set(id, name);
    return { text: callText(name, input), tone: "busy" };
  }

  #ended({ id, ok, result }: StreamEvent<"tool-ended">): readonly OutputLine[] {
    const name = this.#open.get(id);
    const isOneOfSeveral = this.#open.size > 1;
    this.#open.delete(id);
    const named = isOneOfSeveral && name !== undefined ? `${name}: ` : "";
    const all = (result ?? "").split("\n").map(plainText);
    const lines = all.filter((line) => line.trim() !== "");
    const [first, ...rest] = lines
      .slice(0, RESULT_LINES_MAX)
      .map((line) => line.slice(0, RESULT_WIDTH_MAX));
    const left = lines.length - RESULT_LINES_MAX;
    const more = left > 0 ? [`  … ${left} more lines`] : [];
    if (ok && first === undefined) return [];
    const lead = ok ? `← ${named}${first}` : `✗ ${name ?? "the call"} failed: ${first ?? ""}`;
    const tone: Tone = ok ? "dim" : "bad";
    return [lead, ...rest.map((line) => `  ${line}`), ...more].map((text) => ({ text, tone }));
  }
}

/** "→ Bash: npm test". */
function callText(name: string, input: string): string {
  const shown = firstLine(input).slice(0, INPUT_SHOWN_MAX);
  return shown === "" ? `→ ${name}` : `→ ${name}: ${shown}`;
}

/** "… overloaded (529): asks its model again in 0.6s (retry 2 of 10)". */
function retryText({ trouble, delayMs, attempt, attemptsMax }: StreamEvent<"retrying">): string {
  const when = delayMs === undefined ? "" : ` in ${formatDuration(delayMs)}`;
  const total = attemptsMax === undefined ? "" : ` of ${attemptsMax}`;
  const which = attempt === undefined ? "" : ` (retry ${attempt}${total})`;
  const again = when === "" && which === "" ? "" : `: asks its model again${when}${which}`;
  return `… ${trouble.message}${again}`;
}
