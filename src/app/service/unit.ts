/**
 * The unit of systemd that keeps the service running, and the state of the service.
 *
 * Owns: the file of the unit, and the calls of `systemctl --user`.
 * Does not: need systemd: `perdure service run` works without it.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import { isAlive } from "../../runner/process/identity.ts";
import type { ScheduleStanding, ServiceStanding } from "../../view/service-text.ts";
import { userDirectory } from "../pipeline/configuration-file.ts";
import { type ReadableProject, withAllProjects } from "../project/open-projects.ts";
import { advice, Refusal } from "../refusal.ts";
import { packageDirectory } from "../this-process.ts";
import { Schedules, scheduleStanding } from "./schedule.ts";
import { CLEAN_NOTE, firstCleanAt, SERVICE_NOTE } from "./service-note.ts";

const UNIT = "perdure.service";
/** The variables of this shell that the service needs to find programs and its own files. */
const KEPT_VARIABLES = ["PATH", "XDG_STATE_HOME", "XDG_CONFIG_HOME"];
/** How long `systemctl` may take. */
const SYSTEMCTL_MS_MAX = 60_000;

function unitPath(): string {
  return join(dirname(userDirectory()), "systemd", "user", UNIT);
}

/** The text of the unit. */
function unitText(): string {
  const program = [process.execPath, join(packageDirectory(), "bin", "perdure.js")];
  const variables = KEPT_VARIABLES.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [`Environment=${quoted(`${name}=${value}`)}`];
  });
  return `[Unit]
Description=Perdure continues runs and starts schedules

[Service]
ExecStart=${[...program, "service", "run"].map(quoted).join(" ").replaceAll("$", "$$$$")}
WorkingDirectory=%h
Restart=always
RestartSec=10
# Runs are processes of their own: they survive the service, and a kill of one of them is not its end.
KillMode=process
OOMPolicy=continue
${variables.join("\n")}
# Lines NAME=value, for example the keys of agents.
EnvironmentFile=-${join(userDirectory(), "service.env").replaceAll("%", "%%")}

[Install]
WantedBy=default.target
`;
}

/** A word as systemd reads it. */
function quoted(word: string): string {
  return `"${word.replaceAll(/["\\]/g, "\\$&").replaceAll("%", "%%")}"`;
}

/** The result of an installation. */
interface InstalledUnit {
  readonly unit: string;
  /** False where there is no systemd to start it. */
  readonly isStarted: boolean;
  /** The service ends when this user logs out. */
  readonly endsAtLogout: boolean;
}

/** Writes the unit and starts it, if systemd is here. */
export function installUnit(): InstalledUnit {
  if (process.platform !== "linux") {
    const message =
      "perdure service install writes a unit for systemd, which this system does not have";
    throw new Refusal("no-program", message, advice("see docs/SERVICE.md for launchd"));
  }
  const unit = unitPath();
  mkdirSync(dirname(unit), { recursive: true });
  writeFileSync(unit, unitText());
  const isStarted =
    systemctl("daemon-reload") && systemctl("enable", UNIT) && systemctl("restart", UNIT);
  return { unit, isStarted, endsAtLogout: isStarted && !lingers() };
}

/** Stops the unit and removes it; runs continue. Returns its file, or undefined if there was none. */
export function uninstallUnit(): string | undefined {
  const unit = unitPath();
  CLEAN_NOTE.remove();
  if (!existsSync(unit)) return undefined;
  systemctl("disable", "--now", UNIT);
  rmSync(unit);
  systemctl("daemon-reload");
  return unit;
}

/** Calls systemd; false where there is none for this user. */
function systemctl(...words: readonly string[]): boolean {
  const options = { stdio: "ignore", timeout: SYSTEMCTL_MS_MAX } as const;
  return spawnSync("systemctl", ["--user", ...words], options).status === 0;
}

function lingers(): boolean {
  return existsSync(join("/var/lib/systemd/linger", userInfo().username));
}

/** The state of the service, for `perdure service status`. */
export async function serviceStanding(from: string, now: number): Promise<ServiceStanding> {
  const note = SERVICE_NOTE.read();
  const unit = unitPath();
  const standing = async (projects: readonly ReadableProject[]) => {
    const all = new Schedules();
    const schedules: ScheduleStanding[] = [];
    for (const { directory } of projects) {
      const own = await all.of(directory);
      schedules.push(...own.map((schedule) => scheduleStanding(schedule, now)));
    }
    return { projects: projects.length, schedules };
  };
  const found = await withAllProjects(from, standing, "local");
  const runs = note !== undefined && isAlive(note.identity);
  return {
    unit: existsSync(unit) ? unit : undefined,
    pid: runs ? note.identity.pid : undefined,
    seenAt: note?.seenAt,
    ...found,
    problems: note?.problems ?? [],
    cleansFrom: firstCleanAt(now),
  };
}
