/**
 * The leash of a step: a deadline that its worker moves on for as long as it owns the run. A
 * watcher in the session of the step ends the step when the deadline has passed, so the step never
 * outlives the lease under which it was started, whatever became of the worker.
 *
 * Owns: the file with the deadline, its clock, and the text of the watcher.
 * Does not: know leases, or when the deadline moves (app/fleet).
 * Invariants:
 * - leash/K1 A step on a leash has ended, with every process of its group or on the same leash, a
 *   short while after the deadline (WATCH_SECONDS and the time of the kill), although its worker
 *   and supervisor may be dead or paused. The deadline leaves time for that before the lease runs
 *   out.
 * - leash/K2 The watcher kills the wrapper first, so the wrapper records no exit status that the
 *   leash has caused: the attempt is lost.
 * - leash/K3 The clock is the uptime of the machine, which continues while the machine sleeps.
 *   Nobody can set it.
 */
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { textOf } from "../file-text.ts";
import { RUNTIME_FILE } from "./sandbox.ts";

/** The variable with the file of the leash, which all processes on it carry. */
export const LEASH_VARIABLE = "PERDURE_LEASH";

/** The environment entry of all processes on a leash: those of one run at one worker. */
export function leashMarker(file: string): string {
  return `${LEASH_VARIABLE}=${file}`;
}

/** The name of the file in the folder of a run. */
const LEASH_FILE = "leash";

/** How often the watcher reads the deadline. */
const WATCH_SECONDS = 1;

/**
 * How often the watcher looks for processes with the marker before it ends the group and itself.
 */
const KILL_ROUNDS_MAX = 20;

/** The file with the deadline of all steps of a run. */
export function leashFile(runDirectory: string): string {
  return join(runDirectory, LEASH_FILE);
}

/** The seconds since this machine was booted, with fractions (leash/K3). */
export function uptimeSeconds(): number {
  const seconds = Number.parseFloat(textOf("/proc/uptime") ?? "");
  if (Number.isNaN(seconds)) throw new Error("the uptime of this machine cannot be read");
  return seconds;
}

/**
 * Moves the deadline of a run's steps, in seconds of uptime. A reader sees the old or the new one.
 */
export function writeLeash(file: string, deadline: number): void {
  const draft = `${file}.new`;
  writeFileSync(draft, `${Math.floor(deadline)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}

/** True in the shell before the deadline in a file. */
const BEFORE_DEADLINE = (file: string): string =>
  `read -r perdure_deadline <${file} && read -r perdure_now perdure_rest </proc/uptime && ` +
  `[ "\${perdure_now%.*}" -lt "$perdure_deadline" ]`;

/**
 * The text of the watcher. Its arguments are the file and the marker; its parent is the wrapper,
 * whose pid is the number of the group. It ignores the signals of a stop, because a step may ignore
 * them too; SIGUSR1 of the wrapper ends it when the work has ended. All steps on a leash end at its
 * deadline; those of the run's next owner are on another one, even on the same machine. The watcher
 * stays in the run's folder: when the folder is moved away, it does not read the deadline of the
 * next one.
 */
const WATCHER = `
trap '' TERM INT HUP
trap 'kill -9 $! ; exit 0' USR1
cd "\${1%/*}" && while ${BEFORE_DEADLINE(LEASH_FILE)}; do
  sleep ${WATCH_SECONDS} &
  wait $!
done
kill -9 "$PPID"
marked() {
  if printf 'a\\0b' | grep -qF b; then
    grep -lF -e "$1" /proc/[0-9]*/environ
    return
  fi
  for file in /proc/[0-9]*/environ; do
    tr '\\0' '\\n' <"$file" | grep -qF -e "$1" && echo "$file"
  done
}
round=0
while [ $round -lt ${KILL_ROUNDS_MAX} ]; do
  round=$((round + 1))
  found=
  for file in $(marked "$2"); do
    pid=\${file#/proc/}
    pid=\${pid%/environ}
    if [ "$pid" != $$ ] && kill -9 "$pid"; then found=1; fi
  done
  [ -n "$found" ] || break
done
cat attempts/*/${RUNTIME_FILE} | sort -u | while read -r runtime; do
  for id in $("$runtime" ps -aq --filter "label=$2"); do "$runtime" rm -f "$id"; done
done
kill -9 -- "-$PPID"
`;

/**
 * The lines by which the wrapper starts the watcher; the work must not start after the deadline.
 */
export const START_WATCHER = `
${BEFORE_DEADLINE('"$6"')} || exit 1
/bin/sh -c "$7" perdure-leash "$6" "${LEASH_VARIABLE}=$6" \\
  </dev/null >/dev/null 2>&1 &
perdure_leash=$!`;

/** The lines by which it ends the watcher, unless the work may leave processes running. */
export const END_WATCHER = `
case "$8 $perdure_work $perdure_check" in
  stay\\ 0\\ 0 | stay\\ 0\\ -) ;;
  *) kill -USR1 "$perdure_leash"; wait "$perdure_leash" ;;
esac 2>/dev/null`;

/** The further arguments of a wrapper on a leash. */
export function leashArguments(file: string, leavesRunning: boolean): string[] {
  return [file, WATCHER, leavesRunning ? "stay" : "end"];
}
