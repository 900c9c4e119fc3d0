/**
 * The output of an attempt as values: the end of the output, the answer of an agent that is only a
 * command, and the value for `capture`.
 *
 * Owns: reading these values from the attempt's files, and their limits.
 * Does not: judge the other evidence (evidence.ts), or decide what follows.
 * Invariants:
 * - engine/N4 A value is the printed text, unaltered (engine/N2). A value that exceeds its limit or
 *   has the wrong form fails the attempt; only `output` and the answer of a command are the end of a
 *   longer text, as their documentation says.
 */
import { join } from "node:path";
import { checksFound, fails } from "../../core/attempt/check.ts";
import type { Ending } from "../../core/fact.ts";
import { stepOf, type Visit } from "../../core/run.ts";
import { refersTo } from "../../plan/graph-index.ts";
import type { Capture, Plan } from "../../plan/plan.ts";
import { readLeft } from "../../runner/file-text.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { lastText } from "../../runner/process/output.ts";
import { type Json, parseJson } from "../../util/json.ts";

/** The agent's last answer, for people. */
export const RESPONSE_FILE = "response.md";

/** How much of the end of a step's output `results.<step>.output` contains. */
const OUTPUT_VALUE_BYTES_MAX = 4 * 1024;
/** How much of the end of a command's output is its answer. */
const COMMAND_ANSWER_BYTES_MAX = 64 * 1024;
/** The size limit of `capture`. */
const CAPTURE_BYTES_MAX = 256 * 1024;

type Exited = Extract<Ending, { how: "exited" }>;

/** What did the work: a command, or an agent whose stream was read. */
type Worker = "command" | "agent";

/** The ending of an attempt with its printed values. */
export function withPrinted(
  plan: Plan,
  visit: Visit,
  { dir, worker }: { readonly dir: string; readonly worker: Worker },
  ending: Ending,
): Ending {
  const { id, work, capture } = stepOf(visit);
  // The output of judged work was recorded when the work was submitted.
  if (visit.submitted !== undefined) return ending;
  const output = refersTo(plan, id, "output") ? endOfOutput(dir, worker, ending) : undefined;
  const known = output === undefined ? ending : { ...ending, output };
  if (known.how !== "exited" || known.exit !== 0 || known.problem !== undefined) return known;
  const asked = work.kind === "agent" && worker === "command";
  const answered = asked ? { ...known, answer: commandAnswer(dir) } : known;
  return capture === undefined ? answered : captured(answered, capture, dir, worker);
}

/** The end of an attempt's output; a separate stderr and a failed check come last. */
function endOfOutput(dir: string, worker: Worker, ending: Ending): string {
  const files = worker === "agent" ? [RESPONSE_FILE] : [ATTEMPT_FILE.stderr, ATTEMPT_FILE.output];
  let output = failedCheck(ending);
  for (const [index, file] of files.entries()) {
    const left = OUTPUT_VALUE_BYTES_MAX - Buffer.byteLength(output);
    // Each part leaves half of the space to the parts before it.
    const bytesMax = index === files.length - 1 ? left : Math.floor(left / 2);
    output = lastText(join(dir, file), bytesMax) + output;
  }
  return output;
}

/** The output of the check that failed the attempt, at most half of the space. */
function failedCheck(ending: Ending): string {
  if (ending.how !== "exited" || ending.problem?.reason !== "check") return "";
  const said = Buffer.from(checksFound(ending).find(fails)?.output ?? "");
  // Omit a partial character at the start.
  return new TextDecoder()
    .decode(said.subarray(-OUTPUT_VALUE_BYTES_MAX / 2))
    .replace(/^\uFFFD+/, "");
}

function commandAnswer(dir: string): string {
  return withoutNewline(lastText(join(dir, ATTEMPT_FILE.output), COMMAND_ANSWER_BYTES_MAX));
}

/** Adds the captured value to the context, or gives the reason why there is none. */
function captured(ending: Exited, capture: Capture, dir: string, worker: Worker): Exited {
  const value = capturedValue(ending, capture, dir, worker);
  if (value.ok) return { ...ending, context: { ...ending.context, [capture.to]: value.value } };
  const what = worker === "agent" ? "its answer" : "what it printed";
  const message = `${what} cannot be captured as ${capture.as}: ${value.problem}`;
  return { ...ending, problem: { reason: "context", message } };
}

type Captured =
  | { readonly ok: true; readonly value: Json }
  | { readonly ok: false; readonly problem: string };

function capturedValue(ending: Exited, { as }: Capture, dir: string, worker: Worker): Captured {
  if (worker === "command") {
    const file = readLeft(join(dir, ATTEMPT_FILE.output), CAPTURE_BYTES_MAX);
    if (!file.there) return asValue(as, "");
    return "problem" in file
      ? { ok: false, problem: `it ${file.problem}; write a file and name it under \`outputs\`` }
      : asValue(as, file.text);
  }
  const { answer = "" } = ending;
  if (as === "json" && typeof answer !== "string") return { ok: true, value: answer };
  return asValue(as, typeof answer === "string" ? answer : JSON.stringify(answer));
}

function asValue(as: Capture["as"], text: string): Captured {
  switch (as) {
    case "text":
      return { ok: true, value: withoutNewline(text) };
    case "lines": {
      const whole = withoutNewline(text);
      return { ok: true, value: whole === "" ? [] : whole.split(/\r?\n/) };
    }
    case "json": {
      const parsed = parseJson(text);
      return parsed.ok
        ? { ok: true, value: parsed.json as Json }
        : { ok: false, problem: `it is not JSON: ${parsed.message}` };
    }
    default:
      return asNumber(text.trim());
  }
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

function asNumber(text: string): Captured {
  const shown = JSON.stringify(text.slice(0, 80));
  if (!NUMBER.test(text)) return { ok: false, problem: `${shown} is not a number` };
  const value = Number(text);
  const exact = Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
  return exact ? { ok: true, value } : { ok: false, problem: `${shown} is too large a number` };
}

/** A text without the newline at its end. */
function withoutNewline(text: string): string {
  return text.replace(/\r?\n$/, "");
}
