/** What `perdure store init` says. */
import { formatDuration } from "../util/duration.ts";
import type { PreparedStore } from "./fleet-overview.ts";
import type { DocumentJson } from "./json/documents.ts";

/** The document of `perdure store init --json`. */
export function storeJson(setUp: PreparedStore): DocumentJson<"store"> {
  const { store, before, version, leaseMs, missingRoles } = setUp;
  return {
    ...{ store, version_before: before, version, lease_ms: leaseMs },
    missing_roles: [...missingRoles],
  };
}

/** The lines of `perdure store init`. */
export function storeLines(setUp: PreparedStore): readonly string[] {
  const { store, version, leaseMs, missingRoles } = setUp;
  return [
    `${store} is a store of Perdure, version ${version}`,
    `Tables: ${tablesText(setUp)}`,
    `Lease: ${formatDuration(leaseMs)}; a silent machine is replaced after that time`,
    ...(missingRoles.length === 0
      ? [
          "Roles: perdure_reader, perdure_submitter and perdure_worker have their rights",
          "Give a login the rights of one: GRANT perdure_worker TO name",
        ]
      : [
          "Roles: this user may not create them, so nobody else can use the store yet",
          "Let an administrator of the server run, and then set the store up again:",
          ...missingRoles.map((role) => `  CREATE ROLE ${role} NOLOGIN;`),
        ]),
  ];
}

function tablesText({ before, version }: PreparedStore): string {
  if (before === 0) return "made, with those of the queues";
  return before < version ? `brought from version ${before} to ${version}` : "were there";
}
