/** Who we are, and whether another owner is alive: by evidence, never by a timeout. */
import { hostname, userInfo } from "node:os";
import type { Owner } from "../core/event.ts";
import { bootId, isAlive, ownIdentity } from "../runner/identity.ts";

/** This process as the owner of a run. */
export function thisOwner(): Owner {
  const { pid, start, boot } = ownIdentity();
  return { pid, started: start, boot, host: hostname(), user: userInfo().username };
}

/** Whoever uses this process, as answers name people. */
export function thisPerson(): string {
  return `${userInfo().username}@${hostname()}`;
}

/** True unless the owner is proven dead. On another machine nothing can be proven from here. */
export function isOwnerAlive(owner: Owner): boolean {
  const { pid, started: start, boot } = owner;
  if (boot === bootId()) return isAlive({ pid, start, boot });
  return owner.host !== hostname();
}

/** "process 4711 of ann on laptop". */
export function ownerText(owner: Owner): string {
  return `process ${owner.pid} of ${owner.user} on ${owner.host}`;
}

/** Tells an owner on this machine that there is a request for it. */
export function wake({ pid, unsignalled }: Owner): void {
  if (unsignalled !== true) process.kill(pid, "SIGUSR2");
}
