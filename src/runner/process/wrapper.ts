/**
 * The few lines of POSIX sh through which each step is started.
 *
 * Owns: the text, its arguments, its own exit status.
 * Does not: start it.
 * Invariants:
 * - runner/W1 the wrapper first claims the folder exclusively; if it is claimed already, it runs
 *   nothing.
 * - runner/W2 on Linux the wrapper forks only the work and its checks; on a leash also the watcher.
 * - runner/W3 the wrapper writes the exit status last, in one write, over bytes that the claim has
 *   reserved, so a full disk does not lose it. Before the checks, the same bytes say that the work
 *   is done.
 * - runner/W4 signals are handled, not ignored: the work gets their defaults, the wrapper outlives
 *   it.
 * - runner/W5 the claim is private whatever the umask; the work has the umask of the runner.
 *
 * The text of the work is in the environment, which only its owner can read (all users see
 * arguments), and is removed from it before the work begins. A separate shell evaluates it, not a
 * subshell, where `$$` is the wrapper, so that `kill $$` would not end the script. The id of the
 * system is an argument, because the shell reads files byte by byte. The shell prints "Terminated"
 * into the output when a signal ends the work; preventing that would cost each step 0.2 ms.
 */
import { basename, join } from "node:path";
import { quote } from "../../util/shell.ts";
import { ATTEMPT_FILE, checkOutputFile, RESERVED, UNCHECKED } from "./attempt-folder.ts";
import { HAS_PROC, systemText } from "./identity.ts";
import { END_WATCHER, leashArguments, START_WATCHER } from "./leash.ts";
import type { CheckScript } from "./step-process.ts";

/** The wrapper's exit status when it could not claim the folder; otherwise it exits with 0. */
export const UNCLAIMED_EXIT = 97;

/** The variables that bring the wrapper the text of the work and of its checks. */
export const SCRIPT_VARIABLE = "PERDURE_SCRIPT";
export const CHECK_VARIABLE = "PERDURE_CHECK_SCRIPT";

/**
 * How many attempts the wrapper makes to record the exit status, one a second. The bytes are
 * reserved, but a copy-on-write file system can be too full to overwrite them.
 */
const RECORD_ATTEMPTS_MAX = 5;

const READ_STAT = HAS_PROC
  ? "read -r perdure_stat </proc/$$/stat"
  : "perdure_stat=$(LC_ALL=C TZ=UTC0 ps -o pid=,ppid=,pgid=,stat=,lstart= -p $$)";

/**
 * The text that the shell of the work evaluates; on one line, so that the script starts at line 1.
 */
export const EVALUATE = `'eval "unset ${SCRIPT_VARIABLE} ${CHECK_VARIABLE}; $${SCRIPT_VARIABLE}"'`;

/** The text of the wrapper, with the lines that start and end the watcher of a leash. */
const wrapperText = (startWatcher: string, endWatcher: string): string => `
umask 077
set -C
${READ_STAT} || exit ${UNCLAIMED_EXIT}
printf '%s\\n' '${RESERVED}' "$2 $perdure_stat" >"$1/pid" || exit ${UNCLAIMED_EXIT}
set +C
umask "$5"
trap : TERM INT HUP${startWatcher}
$4 /bin/sh -e -c ${EVALUATE} "$3"
perdure_work=$?
perdure_check=-
if [ "$perdure_work\${${CHECK_VARIABLE}+check}" = 0check ]; then
  printf '%s\\n' '${UNCHECKED}' 1<>"$1/pid"
  ${SCRIPT_VARIABLE}=$${CHECK_VARIABLE} /bin/sh -e -c ${EVALUATE} "$3" \\
    </dev/null >>"$1/check.log" 2>&1
  perdure_check=$?
fi${endWatcher}
perdure_attempts=0
until printf '%s\\n' "$perdure_work $perdure_check" 1<>"$1/pid"; do
  perdure_attempts=$((perdure_attempts + 1))
  [ $perdure_attempts -lt ${RECORD_ATTEMPTS_MAX} ] || exit 1
  sleep 1
done
exit 0
`;

const WRAPPER = wrapperText("", "");

/** The wrapper of a step of a fleet run; no other step has a watcher. */
const WRAPPER_ON_LEASH = wrapperText(START_WATCHER, END_WATCHER);

/**
 * One script that runs several checks in their order, each in a shell of its own with a log of its
 * own. It runs all of them, so that an agent sees every failure at once, and exits with the status
 * of the first check that failed the work.
 */
export function checkSequence(dir: string, checks: readonly CheckScript[]): string {
  const exits = quote(join(dir, ATTEMPT_FILE.checkExits));
  const runs = checks.map(({ script, onlyWarns }, index) => {
    const log = quote(join(dir, checkOutputFile(index + 1)));
    const counts = onlyWarns === true ? [] : [KEEP_FIRST_FAILURE];
    return [
      "perdure_exit=0",
      `${SCRIPT_VARIABLE}=${quote(script)} /bin/sh -e -c ${EVALUATE} "$0" >>${log} 2>&1 ||`,
      "  perdure_exit=$?",
      `printf '%s\\n' "$perdure_exit" >>${exits}`,
      ...counts,
    ].join("\n");
  });
  return ["perdure_failed=0", ...runs, "exit $perdure_failed", ""].join("\n");
}

const KEEP_FIRST_FAILURE = '[ "$perdure_failed" != 0 ] || perdure_failed=$perdure_exit';

/** The arguments of /bin/sh for the work of the folder that the wrapper claims. */
export function wrapperArguments(
  dir: string,
  options: {
    /** A command in front of the work. */
    readonly prefix: readonly string[];
    /** The file with the deadline of a step that is on a leash. */
    readonly leash: string | undefined;
    /** The work may leave processes running. */
    readonly leavesRunning: boolean;
  },
): string[] {
  const { prefix, leash, leavesRunning } = options;
  const umask = process.umask().toString(8);
  const own = ["perdure", dir, systemText(), basename(dir), prefix.join(" "), umask];
  if (leash === undefined) return ["-c", WRAPPER, ...own];
  return ["-c", WRAPPER_ON_LEASH, ...own, ...leashArguments(leash, leavesRunning)];
}
