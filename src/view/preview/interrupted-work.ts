/** Interrupted work, in words: what it changed, what it printed last, what resume does with it. */
import type { LastTool } from "../../core/event.ts";
import { type ChangedFile, fileJson, fileLines, totalText } from "../file-changes.ts";
import type { interruptedWork, PartOf } from "../json/document-parts.ts";
import { attemptJson } from "../json/part-json.ts";
import { cutText, plainText } from "../text.ts";
import { changeLines, type FileChanges } from "./resume-plan.ts";

export interface InterruptedWork {
  /** `fix@1.1`. */
  readonly attempt: string;
  /** The files that it changed; absent when that is not known. */
  readonly files: readonly ChangedFile[] | undefined;
  /** Its last lines of output. */
  readonly output: readonly string[];
  readonly tool: LastTool | undefined;
  /** What its conversation has used so far, if it has one. */
  readonly conversation: string | undefined;
  /** What resume does with it. */
  readonly fate: "continue" | "restart";
  /** What a restart changes in the user's own files. */
  readonly overwrites: FileChanges | undefined;
}

const FILES_MAX = 8;
const WIDTH_MAX = 100;

/** The lines about one attempt; `run` is the id for commands. */
export function interruptedLines(work: InterruptedWork, run: string): readonly string[] {
  const { attempt, files, output, tool, conversation } = work;
  const did = files === undefined ? "" : `: ${totalText(files)}`;
  return [
    `${attempt} was interrupted${did}`,
    ...fileLines(files ?? [], FILES_MAX),
    ...(conversation === undefined ? [] : [`  conversation: ${conversation}`]),
    ...output.map((line) => `  │ ${cutText(plainText(line), WIDTH_MAX)}`),
    ...(tool === undefined ? [] : [`  last tool: ${toolText(tool)}`]),
    `  ${fateText(work, run)}`,
    ...(work.overwrites === undefined ? [] : changeLines(work.overwrites)),
  ];
}

function toolText({ name, input, ok }: LastTool): string {
  const end = ok === undefined ? "did not end" : ok ? "succeeded" : "failed";
  return `${cutText(plainText(`${name} ${input}`), WIDTH_MAX)} (${end})`;
}

function fateText({ fate, attempt, files }: InterruptedWork, run: string): string {
  const look = (files?.length ?? 0) === 0 ? "" : `; see perdure diff ${run} ${attempt}`;
  return fate === "continue"
    ? `resume continues it (--recover restart sets it aside and starts again${look})`
    : `resume sets it aside and starts again (--recover continue continues it${look})`;
}

/** The same for programs. */
export function interruptedJson(work: InterruptedWork): PartOf<typeof interruptedWork> {
  const { attempt, files, output, tool, fate } = work;
  return {
    ...attemptJson(attempt),
    files: files === undefined ? null : files.map(fileJson),
    output,
    last_tool: tool === undefined ? null : { ...tool, ok: tool.ok ?? null },
    resume_will: fate,
  };
}
