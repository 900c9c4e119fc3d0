/** This process as an owner, and whether another owner is alive: by evidence, never by a timeout. */
import { hostname, userInfo } from "node:os";
import type { Owner } from "../../core/event.ts";
import { ownIdentity, processLiveness } from "../../runner/process/identity.ts";

/** This process as the owner of a run. */
export function thisOwner(): Owner {
  const { start: started, ...identity } = ownIdentity();
  const through = client === undefined ? {} : { through: client };
  return { ...identity, started, host: hostname(), user: userInfo().username, ...through };
}

/** How many characters of a client's name are kept. */
const CLIENT_CHARACTERS_MAX = 60;

let client: string | undefined;

/**
 * Says through which program the person acts from now on, such as `claude-code` or `dashboard`. A
 * client names itself, so its name becomes one short line of printable characters.
 */
export function actThrough(name: string): void {
  const line = name.replace(/[\p{C}\s]+/gu, " ").trim();
  client = line === "" ? undefined : line.slice(0, CLIENT_CHARACTERS_MAX);
}

/** The option for a process that this one starts for the same person. */
export function throughOption(): readonly string[] {
  return client === undefined ? [] : [`--through=${client}`];
}

/** The user of this process: `ann@laptop`. */
export function thisUser(): string {
  return `${userInfo().username}@${hostname()}`;
}

/**
 * The user of this process, as answers and requests name them: `ann@laptop`, or
 * `ann@laptop with claude-code`.
 */
export function thisPerson(): string {
  return withClient(thisUser());
}

/** The user of this process, as a stop names them: `perdure stop (ann)`. */
export function thisStopper(): string {
  return `perdure stop (${withClient(userInfo().username)})`;
}

function withClient(person: string): string {
  return client === undefined ? person : `${person} with ${client}`;
}

/** True unless the owner is proven dead. A run that was moved to another place is owned there. */
export function isOwnerAlive(owner: Owner): boolean {
  return owner.place !== undefined || ownerLiveness(owner) !== "dead";
}

/** True while the process that moves a run is known to live; afterwards another one may finish the move. */
export function isMoverAlive(owner: Owner): boolean {
  return ownerLiveness(owner) === "alive";
}

/** True when the owner may live in another PID namespace or on another machine. */
export function isOwnerElsewhere(owner: Owner): boolean {
  return ownerLiveness(owner) === "unknown";
}

function ownerLiveness({ started, ...owner }: Owner): ReturnType<typeof processLiveness> {
  const life = processLiveness({ ...owner, start: started });
  // An older version recorded only the host.
  const isOld = owner.namespace === undefined && owner.machine === undefined;
  return life === "dead" && isOld && owner.host !== hostname() ? "unknown" : life;
}

/** "process 4711 of ann on laptop". */
export function ownerText(owner: Owner): string {
  if (owner.place !== undefined) return owner.place;
  if (owner.worker !== undefined) return `a worker on ${owner.host}`;
  const opens = owner.opens === undefined ? "" : `, which has step ${owner.opens} open`;
  const who = `process ${owner.pid} of ${owner.user} on ${owner.host}${opens}`;
  return isOwnerElsewhere(owner) ? `${who}, ${UNSEEN}` : who;
}

/** Why Perdure cannot check an owner in another PID namespace or on another machine. */
const UNSEEN = "which cannot be seen from here (another container or machine)";
