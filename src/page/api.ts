/**
 * The server's documents, typed, and its refusals as errors.
 *
 * Owns: how a request is sent.
 * Does not: keep answers; pages do (data.ts).
 */
import type * as dashboard from "../view/json/dashboard-documents.ts";
import type { DocumentOf } from "../view/json/document-parts.ts";
import type { DocumentJson } from "../view/json/documents.ts";

type Dashboard = typeof dashboard;

/** A document of the dashboard's server. */
export type Doc<N extends keyof Dashboard> = DocumentOf<Dashboard[N]>;
/** A document that the command line prints too. */
export type CommandDoc<N extends Parameters<typeof commandDoc>[0]> = DocumentJson<N>;
declare function commandDoc(name: keyof typeof import("../view/json/documents.ts").DOCUMENTS): void;

export type RunRow = Doc<"runRows">["runs"][number];
export type StepRow = Doc<"runPage">["steps"][number];
export type Overview = Doc<"runPage">["overview"];
export type RunStatus = RunRow["status"];
export type StepStatus = StepRow["status"];
export type Next = Overview["next"][number];

/** Why the server did not do what was asked. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly next: readonly Next[];
  /** Of an input: what is wrong, by the path of the value. */
  readonly fields: Readonly<Record<string, string>>;

  constructor(
    status: number,
    code: string,
    message: string,
    { next = [], fields = {} }: Partial<Pick<ApiError, "next" | "fields">> = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.next = next;
    this.fields = fields;
  }
}

/** Query parameters; those that are undefined or empty are left out. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** A path with its query. */
export function address(path: string, query: Query = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "" && value !== false) given.set(name, String(value));
  }
  const text = given.toString();
  return text === "" ? path : `${path}?${text}`;
}

/** Reads a document. */
export async function read<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return answerOf(await send(address(path, query), signal === undefined ? {} : { signal }));
}

/** Asks for a change. */
export async function post<T = Doc<"done">>(path: string, body: unknown): Promise<T> {
  return answerOf(
    await send(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  );
}

async function send(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(path, { ...init, credentials: "same-origin" });
  } catch (error) {
    if (init.signal?.aborted === true) throw error;
    throw new ApiError(0, "unreachable", "The server of this page does not answer.", {
      next: [{ text: "start it again with", command: "perdure ui" }],
    });
  }
}

async function answerOf<T>(response: Response): Promise<T> {
  const body: unknown = await response.json().catch(() => undefined);
  if (response.ok && body !== undefined) return body as T;
  const { error } = (body ?? {}) as Partial<CommandDoc<"error">>;
  throw new ApiError(
    response.status,
    error?.code ?? "failed",
    error?.message ?? `The server answered with status ${response.status}.`,
    error,
  );
}

/** The address of a run's endpoint. */
export function runPath(run: string, rest = ""): string {
  return `/api/runs/${encodeURIComponent(run)}${rest === "" ? "" : `/${rest}`}`;
}
