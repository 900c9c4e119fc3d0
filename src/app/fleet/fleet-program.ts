/**
 * The fleet as a program of its own in `dist`, with PostgreSQL and the queues: only commands that have
 * the address of a store load it.
 *
 * Owns: loading it. It has other copies of our classes, so its errors become errors of this program.
 */
import { createRequire } from "node:module";
import { JournalError, type JournalErrorCode } from "../../journal/journal-error.ts";
import { WorkspaceError } from "../../workspace/workspace-error.ts";
import { type Next, Refusal, type RefusalCode } from "../refusal.ts";

/** Loads the program; `P` is what the caller uses of it. */
export function loadFleet<P>(): P {
  return createRequire(import.meta.url)("./fleet.js") as P;
}

/** What a project opens of it (fleet-project.ts); `P` is a project. */
interface FleetOpener<P> {
  openFleetProject(address: string, from: string): Promise<P>;
}

/** Opens the runs of a fleet for a directory: its journal, and copies of its runs' files. */
export async function openFleetProject<P extends object>(
  address: string,
  from: string,
): Promise<P> {
  const program = loadFleet<FleetOpener<P>>();
  return ownErrors(await program.openFleetProject(address, from).catch(rethrow));
}

/** The same object, whose functions reject with errors of this program. */
function ownErrors<T extends object>(object: T): T {
  const members = Object.entries(object).map(([name, member]: [string, unknown]) => {
    if (typeof member === "function") return [name, withOwnErrors(member.bind(object))];
    return [name, isPlain(member) ? ownErrors(member) : member];
  });
  return Object.fromEntries(members) as T;
}

function withOwnErrors(
  call: (...given: readonly unknown[]) => unknown,
): (...given: readonly unknown[]) => unknown {
  return (...given) => {
    const result = call(...given);
    return result instanceof Promise ? result.catch(rethrow) : result;
  };
}

function isPlain(value: unknown): value is object {
  return (
    typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype
  );
}

function rethrow(error: unknown): never {
  if (!(error instanceof Error)) throw error;
  const { name, message } = error;
  const options = { cause: error };
  const { code, next, remedy } = error as {
    readonly code?: string;
    readonly next?: readonly Next[];
    readonly remedy?: string;
  };
  if (name === "JournalError") throw new JournalError(code as JournalErrorCode, message, options);
  if (name === "WorkspaceError") {
    throw new WorkspaceError(code as WorkspaceError["code"], message, remedy ?? "", options);
  }
  if (name === "Refusal") throw new Refusal(code as RefusalCode, message, next ?? [], error);
  throw error;
}
