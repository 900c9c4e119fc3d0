/**
 * The store of a fleet that serves a directory: its address, from `PERDURE_STORE` or `store` of the
 * configuration, and the way to open it.
 *
 * Does not: load PostgreSQL before a store is opened, so every command may ask for the address.
 */

import type { FleetJournal } from "../../journal/journal.ts";
import { isStoreAddress, openStore, storeName } from "../../journal/open.ts";
import { configurationTexts, projectDirectory } from "../pipeline/configuration-file.ts";
import { advice, Refusal } from "../refusal.ts";

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
  // Without its value, a command could steer the runs of another place.
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
