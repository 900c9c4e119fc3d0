/** Opens the store of a fleet; the only way by which this room reaches PostgreSQL. */
import type { FleetJournal } from "../../journal/fleet-journal.ts";
import { openStore, storeName } from "../../journal/open.ts";
import { requiredStoreAddress } from "./store-address.ts";

/** Opens the store that the environment names, and makes its tables where there are none. */
export async function openFleetStore(): Promise<FleetJournal> {
  return openStore(await requiredStoreAddress(process.cwd()), "create");
}

/** The name of that store, without its user and password. */
export async function fleetStoreName(): Promise<string> {
  return storeName(await requiredStoreAddress(process.cwd()));
}
