/** Work that was cut off, in words: what it had changed, what it said last, what becomes of it. */
import type { LastTool } from "../core/event.ts";
import type { JsonObject } from "../util/json.ts";
import { changeLines, type FileChanges } from "./back-plan.ts";
import { type ChangedFile, fileJson, fileLines, totalText } from "./difference-text.ts";
import { cutText, plainText } from "./display-text.ts";

export interface PartialWork {
  /** `fix@1.1`. */
  readonly attempt: string;
  /** What differs between its beginning and what it left; absent when that is not known. */
  readonly files: readonly ChangedFile[] | undefined;
  /** Its last lines of output. */
  readonly output: readonly string[];
  readonly tool: LastTool | undefined;
  /** What was used in its conversation so far, when it has one. */
  readonly talk: string | undefined;
  /** What going on does with it. */
  readonly fate: "continue" | "restart";
  /** What a restart changes in the user's own files, whoever wrote them. */
  readonly overwrites: FileChanges | undefined;
}

const FILES_MAX = 8;
const WIDTH_MAX = 100;

/** The lines about one attempt; `run` is the id for commands. */
export function partialLines(work: PartialWork, run: string): readonly string[] {
  const { attempt, files, output, tool, talk } = work;
  const did = files === undefined ? "" : `; it had done: ${totalText(files)}`;
  return [
    `${attempt} was cut off${did}`,
    ...fileLines(files ?? [], FILES_MAX),
    ...(talk === undefined ? [] : [`  its conversation: ${talk}`]),
    ...output.map((line) => `  │ ${cutText(plainText(line), WIDTH_MAX)}`),
    ...(tool === undefined ? [] : [`  its last tool: ${toolText(tool)}`]),
    `  ${fateText(work, run)}`,
    ...(work.overwrites === undefined ? [] : changeLines(work.overwrites)),
  ];
}

function toolText({ name, input, ok }: LastTool): string {
  const end = ok === undefined ? "did not end" : ok ? "succeeded" : "failed";
  return `${cutText(plainText(`${name} ${input}`), WIDTH_MAX)} (${end})`;
}

function fateText({ fate, attempt, files }: PartialWork, run: string): string {
  const look = (files?.length ?? 0) === 0 ? "" : `; look: perdure diff ${run} ${attempt}`;
  return fate === "continue"
    ? `resume goes on with it (--recover restart sets it aside and begins again${look})`
    : `resume sets it aside and begins again (--recover continue goes on with it${look})`;
}

/** The same for programs. */
export function partialJson(work: PartialWork): JsonObject {
  const { attempt, files, output, tool, fate } = work;
  return {
    attempt,
    files: files === undefined ? null : files.map(fileJson),
    output,
    last_tool: tool === undefined ? null : { ...tool },
    resume_will: fate,
  };
}
