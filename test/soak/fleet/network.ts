/**
 * Hosts with network, process table, host name and boot of their own, connected by a bridge, all on this
 * machine. The bridge is in the network namespace of this process, which must be one of its own; when
 * this process ends, however it ends, nothing is left.
 *
 * Owns: the namespaces, the links and their faults.
 * Does not: know what runs on a host.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { join } from "node:path";
import { kill } from "../victim.ts";

const BRIDGE = "bridge0";
const NETWORK = "10.87.0";
const BITS = 24;
/** The name of the link inside each host. */
const LINK = "eth0";
/** The number of this process's own address in the network. */
const OWN = 1;
const BOOT_ID = "/proc/sys/kernel/random/boot_id";

/** The packets that a partition drops: those that the host sends, those for it, or both. */
export type Direction = "out" | "in" | "both";

let links = 0;

/** The address with this number. */
export function addressOf(number: number): string {
  return `${NETWORK}.${number}`;
}

/** Why this process cannot make namespaces; undefined when it can. */
export function namespacesRefused(): string | undefined {
  try {
    execFileSync("unshare", ["--net", "--pid", "--fork", "--mount-proc", "--uts", "ip", "link"], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Makes the bridge in the network namespace of this process. */
export function makeBridge(): void {
  run("ip", "link", "set", "lo", "up");
  run("ip", "link", "add", "name", BRIDGE, "type", "bridge");
  run("ip", "address", "add", `${addressOf(OWN)}/${BITS}`, "dev", BRIDGE);
  run("ip", "link", "set", BRIDGE, "up");
}

/** A host; it is up until `end`. */
export class Host {
  readonly #holder: ChildProcess;
  readonly #link: string;
  /** The first process of the host. */
  readonly #first: number;

  private constructor(holder: ChildProcess, link: string, first: number) {
    this.#holder = holder;
    this.#link = link;
    this.#first = first;
  }

  /** Starts a host with an address; `directory` holds the id of its boot. */
  static async start(name: string, number: number, directory: string): Promise<Host> {
    links += 1;
    const link = `host${links}`;
    const boot = join(directory, "boot_id");
    fs.writeFileSync(boot, `${crypto.randomUUID()}\n`);
    // Bash also collects the children of others that have died.
    const script = `hostname ${name} && mount --bind '${boot}' ${BOOT_ID} && echo up && read -r _; exit`;
    const isolated = ["--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--uts"];
    const holder = spawn("unshare", [...isolated, "--", "bash", "-c", script], {
      // With the death of the first process, unshare complains; the host is gone then anyway.
      stdio: ["pipe", "pipe", "ignore"],
    });
    await once(holder.stdout, "data");
    const first = childrenOf(holder.pid as number)[0] as number;
    const peer = ["peer", "name", LINK, "netns", String(first)];
    run("ip", "link", "add", "name", link, "type", "veth", ...peer);
    run("ip", "link", "set", link, "master", BRIDGE, "up");
    const host = new Host(holder, link, first);
    host.#inside("ip", "link", "set", "lo", "up");
    host.addAddress(addressOf(number));
    host.#inside("ip", "link", "set", LINK, "up");
    return host;
  }

  /** The file of its network namespace. */
  get namespace(): string {
    return `/proc/${this.#first}/ns/net`;
  }

  /** What comes before a command that runs on this host. */
  get enter(): readonly string[] {
    const target = ["--target", String(this.#first)];
    return ["nsenter", ...target, "--net", "--pid", "--mount", "--uts", "--"];
  }

  addAddress(address: string): void {
    this.#inside("ip", "address", "add", `${address}/${BITS}`, "dev", LINK);
  }

  removeAddress(address: string): void {
    this.#inside("ip", "address", "del", `${address}/${BITS}`, "dev", LINK);
  }

  /** Forgets which host an address belonged to, as after an announcement of its new owner. */
  forgetNeighbours(): void {
    this.#inside("ip", "neigh", "flush", "dev", LINK);
  }

  /** Drops packets until `connect`. */
  disconnect(direction: Direction): void {
    if (direction !== "in")
      this.#inside("tc", "qdisc", "replace", "dev", LINK, "root", "blackhole");
    if (direction !== "out") {
      run("tc", "qdisc", "replace", "dev", this.#link, "root", "blackhole");
    }
  }

  connect(direction: Direction): void {
    if (direction !== "in") this.#inside("tc", "qdisc", "del", "dev", LINK, "root");
    if (direction !== "out") run("tc", "qdisc", "del", "dev", this.#link, "root");
  }

  /** Kills every process of the host at once, as a power cut; none of them is left after that. */
  async end(): Promise<void> {
    const inode = fs.readlinkSync(this.namespace);
    const ended = once(this.#holder, "exit");
    // The system kills all processes of a process table with its first one.
    kill(this.#first);
    await ended;
    for (let left = processesIn(inode); left.length > 0; left = processesIn(inode)) {
      for (const pid of left) kill(pid);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  #inside(...command: readonly string[]): void {
    run("nsenter", `--net=${this.namespace}`, ...command);
  }
}

/** Forgets which hosts addresses belonged to, in this process's own namespace. */
export function forgetNeighbours(): void {
  run("ip", "neigh", "flush", "dev", BRIDGE);
}

/** The children of a process. */
export function childrenOf(pid: number): readonly number[] {
  try {
    const text = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
    return text.split(" ").filter(Boolean).map(Number);
  } catch {
    // It has ended meanwhile.
    return [];
  }
}

/** The processes in a network namespace, by its name. */
function processesIn(inode: string): readonly number[] {
  const pids = fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    try {
      return fs.readlinkSync(`/proc/${pid}/ns/net`) === inode;
    } catch {
      // It has ended meanwhile.
      return false;
    }
  });
}

function run(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { stdio: ["ignore", "ignore", "inherit"] });
}
