/**
 * How a command reaches a fleet: the address of its store, from `PERDURE_STORE` or `store` of the
 * configuration, and the program in `dist` that has PostgreSQL and the queues. Only commands that have an
 * address load that program.
 *
 * Owns: finding the address, opening the store, and loading the program. The program has other copies of
 *   our classes, so its errors become errors of this one.
 * Does not: load PostgreSQL before a store is opened, so every command may ask for the address.
 */
import { createRequire } from "node:module";
import type { FleetJournal } from "../../journal/journal.ts";
import { JournalError, type JournalErrorCode } from "../../journal/journal-error.ts";
import { isStoreAddress, openStore, storeName } from "../../journal/open.ts";
import { WorkspaceError } from "../../workspace/workspace-error.ts";
import { configurationTexts, projectDirectory } from "../pipeline/configuration-file.ts";
import { advice, type Next, Refusal, type RefusalCode } from "../refusal.ts";

const STORE_VARIABLE = "PERDURE_STORE";
const EXPORT = `export ${STORE_VARIABLE}=postgres://USER@HOST/DATABASE`;

/**
 * The address of the store that serves a directory; undefined when its runs are on this machine. An
 * empty variable overrides the configuration.
 */
export async function storeAddress(from: string): Promise<string | undefined> {
  const address = process.env[STORE_VARIABLE];
  if (address === undefined) return configuredAddress(from);
  if (address === "") return undefined;
  if (isStoreAddress(address)) return address;
  const message = `${STORE_VARIABLE} is not the address of a PostgreSQL database`;
  throw new Refusal("bad-option", message, advice(EXPORT));
}

/** The address of the store; refuses when there is none. */
export async function requiredStoreAddress(from: string): Promise<string> {
  const address = await storeAddress(from);
  if (address !== undefined) return address;
  const message = `no store is named: a fleet needs a PostgreSQL database in ${STORE_VARIABLE}`;
  throw new Refusal("no-store", message, advice(EXPORT));
}

/** The `store` of the configuration files, which are parsed only if one of them has that key. */
async function configuredAddress(from: string): Promise<string | undefined> {
  const files = configurationTexts(projectDirectory(from));
  if (!files.some(({ text }) => /^['"]?store['"]?\s*:/m.test(text))) return undefined;
  const { readConfiguration } = await import("../../pipeline/configuration.ts");
  const { shape, diagnostics } = readConfiguration(files);
  const wrong = diagnostics.find(({ severity }) => severity === "error");
  if (wrong === undefined) return shape.store;
  // A command that ignored the file could steer runs of another store.
  const message = `the configuration cannot be read: ${wrong.message}`;
  throw new Refusal("bad-option", message, advice(`correct the file, or ${EXPORT}`));
}

/** Opens the store that the environment names, and makes its tables where there are none. */
export async function openFleetStore(): Promise<FleetJournal> {
  return openStore(await requiredStoreAddress(process.cwd()), "create");
}

/** The name of that store, without its user and password. */
export async function fleetStoreName(): Promise<string> {
  return storeName(await requiredStoreAddress(process.cwd()));
}

/** Loads the program of the fleet; `P` is what the caller uses of it. */
export function loadFleet<P>(): P {
  return createRequire(import.meta.url)("./fleet.js") as P;
}

/**
 * Opens the runs of a fleet for a directory (fleet-project.ts): its journal, and copies of its runs' files.
 * `P` is a project.
 */
export async function openFleetProject<P extends object>(
  address: string,
  from: string,
): Promise<P> {
  const program = loadFleet<{ openFleetProject(address: string, from: string): Promise<P> }>();
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
