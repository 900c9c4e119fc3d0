/** Opens the store of a fleet; the only way by which this room reaches PostgreSQL. */
import type { FleetJournal } from "../../journal/fleet-journal.ts";
import { openStore } from "../../journal/open.ts";
import { requiredStoreAddress } from "./store-address.ts";

/** Opens the store that the environment names, and makes its tables where there are none. */
export async function openFleetStore(): Promise<FleetJournal> {
  return openStore(await requiredStoreAddress(process.cwd()), "create");
}
