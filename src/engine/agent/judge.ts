/**
 * A judge: an agent that examines completed work and gives a verdict.
 *
 * Owns: the prompt of a judge, and the meaning of its verdict for the attempt.
 * Does not: decide when a judge is asked (core/attempt/check.ts), or start it (agent-call.ts).
 */
import { join } from "node:path";
import { checksFound, findings, judgeOf } from "../../core/attempt/check.ts";
import type { CheckEvidence } from "../../core/event.ts";
import type { Ending } from "../../core/fact.ts";
import { stepOf, type Visit, visitRef } from "../../core/run.ts";
import type { Judge } from "../../plan/plan.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { lastText } from "../../runner/process/output.ts";
import { assert } from "../../util/assert.ts";
import { defined } from "../../util/defined.ts";
import type { Json } from "../../util/json.ts";
import { renderText } from "../../util/template.ts";
import { checkProblem } from "../evidence/evidence.ts";
import { evaluatorAt, type LaunchInput } from "../launch.ts";
import { attemptDirOf } from "../state-dir.ts";

type Exited = Extract<Ending, { how: "exited" }>;

/** The schema of a judge's answer. */
export const VERDICT_SCHEMA: Json = {
  type: "object",
  properties: {
    pass: { type: "boolean", description: "Whether the work satisfies the rubric." },
    reasons: { type: "string", description: "Why; if it does not, what has to change." },
  },
  required: ["pass", "reasons"],
  additionalProperties: false,
};

/** How much of the end of the work's answer or output the judge sees. */
const ANSWER_CHARACTERS_MAX = 16 * 1024;
/** How much of a judge's reasons the journal stores. */
const REASONS_CHARACTERS_MAX = 4 * 1024;
/** How much of a rubric names its check. */
const SUBJECT_CHARACTERS_MAX = 200;

/** The prompt of a judge: the rubric, the task, and the end of the result. */
export function judgePrompt(site: LaunchInput, visit: Visit, judge: Judge): string {
  const evaluate = evaluatorAt(site, visit);
  const { work } = stepOf(visit);
  const task = work.kind === "agent" ? renderText(work.prompt, evaluate) : commandOf(visit);
  const answer = answerOfWork(site, visit);
  return [
    "You are the judge of work that was done in the current directory. Look at it and decide " +
      "whether it satisfies the rubric. Only look: do not change any file, and do not do the work " +
      "yourself.",
    `# The rubric\n\n${renderText(judge.rubric, evaluate)}`,
    `# The task of the work\n\n${task}`,
    ...(answer === "" ? [] : [`# The end of what the work answered or printed\n\n${answer}`]),
    "# Your verdict\n\nAnswer with nothing but one JSON value that satisfies this JSON Schema. If " +
      "the work does not pass, say in `reasons` what exactly has to change.",
    JSON.stringify(VERDICT_SCHEMA),
  ].join("\n\n");
}

/** A command as its author wrote it; rendered values could be secrets. */
function commandOf(visit: Visit): string {
  const { work } = stepOf(visit);
  return work.kind === "shell" ? `This shell command was run:\n\n${work.run}` : "";
}

function answerOfWork(site: LaunchInput, visit: Visit): string {
  const { submitted } = visit;
  assert(submitted !== undefined, "a judge looks at work that was submitted");
  const { answer } = submitted.held;
  if (answer !== undefined) {
    const text = typeof answer === "string" ? answer : JSON.stringify(answer, undefined, 2);
    return text.slice(-ANSWER_CHARACTERS_MAX);
  }
  const dir = attemptDirOf(site.dir, { ...visitRef(visit), attempt: submitted.attempt });
  return lastText(join(dir, ATTEMPT_FILE.output), ANSWER_CHARACTERS_MAX).trim();
}

/** The ending of a judge's attempt with this verdict; `file` contains its stream. */
export function verdictEnding(visit: Visit, verdict: Json, file: string): Exited {
  const { submitted } = visit;
  assert(submitted !== undefined, "a judge looks at work that was submitted");
  const { held } = submitted;
  const found = [...checksFound(held), verdictEvidence(visit, verdict, file)];
  const problem = checkProblem(found);
  if (problem === undefined) {
    const { check: _, checks: __, ...shown } = held;
    return { how: "exited", ...shown, ...findings(found) };
  }
  return {
    how: "exited",
    exit: held.exit,
    outputs: {},
    context: {},
    ...findings(found),
    problem: { reason: "check", message: problem },
  };
}

function verdictEvidence(visit: Visit, verdict: Json, file: string): CheckEvidence {
  const judge = judgeOf(visit);
  assert(judge !== undefined, "a verdict is that of a judge");
  const { pass, reasons } = verdict as { readonly pass: boolean; readonly reasons: string };
  const { onFail } = judge;
  const evidence = {
    kind: "judge",
    subject: (judge.rubric.trim().split("\n", 1)[0] ?? "").slice(0, SUBJECT_CHARACTERS_MAX),
    exit: pass ? 0 : 1,
    agent: judge.agent,
    outputPath: file,
    ...defined({ onFail }),
  } as const;
  if (pass) return evidence;
  const output = reasons.slice(0, REASONS_CHARACTERS_MAX);
  const why = output.trim().split("\n", 1)[0] ?? "";
  const message = `its judge (${judge.agent}) does not pass it${why === "" ? "" : `: ${why}`}`;
  return { ...evidence, message, ...(output.trim() === "" ? {} : { output }) };
}
