/**
 * The address of the store of a fleet: `PERDURE_STORE`.
 *
 * Does not: load PostgreSQL, so every command may ask for it.
 */
import { isStoreAddress } from "../../journal/open.ts";
import { advice, Refusal } from "../refusal.ts";

const STORE_VARIABLE = "PERDURE_STORE";
const EXPORT = `export ${STORE_VARIABLE}=postgres://USER@HOST/DATABASE`;

/** The address of the store that the environment names; undefined when it names none. */
export function storeAddress(): string | undefined {
  const address = process.env[STORE_VARIABLE];
  if (address === undefined || address === "") return undefined;
  if (isStoreAddress(address)) return address;
  const message = `${STORE_VARIABLE} is not the address of a PostgreSQL database`;
  throw new Refusal("bad-option", message, advice(EXPORT));
}

/** The address of the store; refuses when there is none. */
export function requiredStoreAddress(): string {
  const address = storeAddress();
  if (address !== undefined) return address;
  const message = `no store is named: a fleet needs a PostgreSQL database in ${STORE_VARIABLE}`;
  throw new Refusal("no-store", message, advice(EXPORT));
}
