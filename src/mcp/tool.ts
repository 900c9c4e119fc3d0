/**
 * A tool for agents: what it takes, which document it returns, and what it may do to a run.
 *
 * Owns: the type, and the opening and closing of the project around a call.
 * Does not: speak the protocol (server.ts).
 */
import type { z } from "zod";
import { type LoadedRun, loadRun } from "../app/loaded-run.ts";
import { openProject, type Project, resolveRunId } from "../app/project/project.ts";
import type { Refusal } from "../app/refusal.ts";
import type { DocumentOf, DocumentShape } from "../view/json/document-parts.ts";

/** The program and the person behind a call, and how they learn about its progress. */
export interface ToolCall {
  /** The directory of the project. */
  readonly directory: string;
  /** Aborted when nobody waits for the result any more. */
  readonly signal: AbortSignal;
  /** Reports progress; `position` grows with each report. */
  readonly report: (position: number, message: string) => Promise<void>;
  /** Says, beside the document, why the run does not continue with what was recorded. */
  readonly warn: (problem: Refusal | undefined) => void;
}

/** What a tool does to the world, for clients that ask a person first. */
type Effects =
  /** Looks only. */
  | "reads"
  /** Adds something that takes nothing away. */
  | "adds"
  /** Adds something; a second call with the same arguments changes nothing more. */
  | "adds-once"
  /** Starts work again, gives work up, or lets it start. */
  | "works";

/** A tool of the server. */
interface Tool<I extends z.ZodObject = z.ZodObject, D extends DocumentShape = DocumentShape> {
  readonly name: string;
  readonly title: string;
  readonly about: string;
  readonly input: I;
  /** The document that it returns. */
  readonly document: D;
  readonly effects: Effects;
  readonly call: (input: z.output<I>, call: ToolCall) => Promise<DocumentOf<D>>;
}

/** A tool of any input and document. */
export type AnyTool = Omit<Tool, "call"> & {
  readonly call: (input: never, call: ToolCall) => Promise<object>;
};

/** Declares a tool; the compiler holds its call against its input and its document. */
export function tool<I extends z.ZodObject, D extends DocumentShape>(of: Tool<I, D>): AnyTool {
  return of;
}

/** Opens the project of a call, and closes it afterwards. */
export async function withProject<T>(
  { directory }: ToolCall,
  mode: "read-only" | "read-write",
  body: (project: Project) => Promise<T>,
  named?: string,
): Promise<T> {
  const project = await openProject(directory, mode, named);
  try {
    return await body(project);
  } finally {
    await project.journal.close();
  }
}

/** Opens the project of a call and loads a run of it. */
export async function withRun<T>(
  call: ToolCall,
  mode: "read-only" | "read-write",
  run: string,
  body: (project: Project, known: LoadedRun) => Promise<T>,
): Promise<T> {
  const load = async (project: Project): Promise<T> =>
    body(project, await loadRun(project, await resolveRunId(project.journal, run)));
  return withProject(call, mode, load, run);
}
