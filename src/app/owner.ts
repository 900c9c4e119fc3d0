/** This process as an owner, and whether another owner is alive: by evidence, never by a timeout. */
import { hostname, userInfo } from "node:os";
import type { Owner } from "../core/event.ts";
import { ownIdentity, type ProcessLiveness, processLiveness } from "../runner/process/identity.ts";

/** This process as the owner of a run. */
export function thisOwner(): Owner {
  const { start: started, ...identity } = ownIdentity();
  return { ...identity, started, host: hostname(), user: userInfo().username };
}

/** The user of this process, as answers and requests name them. */
export function thisPerson(): string {
  return `${userInfo().username}@${hostname()}`;
}

/** True unless the owner is proven dead. */
export function isOwnerAlive(owner: Owner): boolean {
  return ownerLiveness(owner) !== "dead";
}

/** True when the owner may live in another PID namespace or on another machine. */
export function isOwnerElsewhere(owner: Owner): boolean {
  return ownerLiveness(owner) === "unknown";
}

function ownerLiveness({ started, ...owner }: Owner): ProcessLiveness {
  const life = processLiveness({ ...owner, start: started });
  // An older version recorded only the host.
  const isOld = owner.namespace === undefined && owner.machine === undefined;
  return life === "dead" && isOld && owner.host !== hostname() ? "unknown" : life;
}

/** "process 4711 of ann on laptop". */
export function ownerText(owner: Owner): string {
  const opens = owner.opens === undefined ? "" : `, which has step ${owner.opens} open`;
  const who = `process ${owner.pid} of ${owner.user} on ${owner.host}${opens}`;
  return isOwnerElsewhere(owner) ? `${who}, ${UNSEEN}` : who;
}

/** Why Perdure cannot check an owner in another PID namespace or on another machine. */
const UNSEEN = "which cannot be seen from here (another container or machine)";
