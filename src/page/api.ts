/**
 * The server's documents, typed, and its refusals as errors; a document as state of a component.
 *
 * Owns: how a request is sent, when a document is read again, and what the server says about itself.
 * Does not: follow streams (live.ts).
 */

import { createContext, useCallback, useContext, useEffect, useRef, useState } from "react";
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

export interface Loaded<T> {
  readonly data: T | undefined;
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
  /** Reads it again; what is shown stays until the answer is there. */
  readonly reload: () => void;
  /** Replaces what is shown, with news from a stream. */
  readonly set: (change: (before: T) => T) => void;
}

/** A document of the server; `path` undefined reads nothing. */
export function useDocument<T>(path: string | undefined, query: Query = {}): Loaded<T> {
  const [data, setData] = useState<T>();
  const [error, setError] = useState<ApiError>();
  const [round, setRound] = useState(0);
  const key = path === undefined ? undefined : address(path, query);
  const shown = useRef<string>(undefined);
  useEffect(() => {
    if (key === undefined) return undefined;
    const controller = new AbortController();
    // Another document: the old one would be wrong. The same one again: it stays until then.
    if (shown.current !== undefined && shown.current !== key) setData(undefined);
    shown.current = key;
    read<T>(key, {}, controller.signal)
      .then((answer) => {
        setData(answer);
        setError(undefined);
      })
      .catch((failure: unknown) => {
        if (!controller.signal.aborted) setError(asApiError(failure));
      });
    return () => controller.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  const set = useCallback((change: (before: T) => T) => {
    setData((before) => (before === undefined ? before : change(before)));
  }, []);
  const isLoading = data === undefined && error === undefined && key !== undefined;
  return { data, error, isLoading, reload, set };
}

/** Any failure in the form of a refusal. */
export function asApiError(failure: unknown): ApiError {
  if (failure instanceof ApiError) return failure;
  return new ApiError(0, "failed", failure instanceof Error ? failure.message : String(failure));
}

export const ServerContext = createContext<Doc<"projects"> | undefined>(undefined);

/** The projects; undefined until the server has answered. */
export function useServer(): Doc<"projects"> | undefined {
  return useContext(ServerContext);
}

/** True when this page may change runs. */
export function useMayAct(): boolean {
  return useServer()?.read_only === false;
}
