/**
 * The addresses of the dashboard's server: one row for each, from which its routes, the rule of
 * `--read-only`, the OpenAPI document and docs/HTTP.md follow.
 *
 * Owns: method, path, parameters and document of every address.
 * Does not: answer (`routes/`), or say who may ask (access.ts).
 */
import { ACTION_ENDPOINTS } from "./action-endpoints.ts";
import { ATTRACTOR_ENDPOINTS } from "./attractor-endpoints.ts";
import { CONTENT_ENDPOINTS } from "./content-endpoints.ts";
import type { Endpoint } from "./endpoint.ts";
import { MACHINE_ENDPOINTS, RUN_ENDPOINTS } from "./run-endpoints.ts";

export const ENDPOINTS = {
  ...MACHINE_ENDPOINTS,
  ...RUN_ENDPOINTS,
  ...CONTENT_ENDPOINTS,
  ...ACTION_ENDPOINTS,
  ...ATTRACTOR_ENDPOINTS,
} as const satisfies Readonly<Record<string, Endpoint>>;

/** The name of an address in the table. */
export type EndpointName = keyof typeof ENDPOINTS;
