/**
 * The few lines of POSIX sh through which each step is started.
 *
 * Owns: the text, its arguments, its own exit status.
 * Does not: start it.
 * Invariants:
 * - W1 the first act is to claim the folder exclusively; whoever finds it claimed runs nothing.
 * - W2 on Linux nothing is forked but the work and its check.
 * - W3 the exit status is written last, in one write. After it only the bell rings: a line more in
 *   `pid`, so that a runner can watch that quiet file instead of the folder with the output.
 * - W4 signals are handled, not ignored: the work gets their defaults, the wrapper outlives it.
 *
 * The work is `sh -e script.sh` and not `. script.sh` in a subshell, which is 0.6 ms faster,
 * because there `$$` is the wrapper and `kill $$` would not end the script. A script is a file of
 * mode 0600 and not an argument, because everybody sees arguments. The system is an argument
 * because the shell reads byte by byte. What the shell says when a signal ends the work
 * ("Terminated") stays in the output: keeping it out costs each step 0.2 ms.
 */
import { HAS_PROC, systemText } from "./identity.ts";

/** The wrapper's exit status when it could not claim the folder; otherwise it exits with 0. */
export const UNCLAIMED_EXIT = 97;

/** How often the wrapper tries to record the exit status on a full disk, once a second. */
const RECORD_TRIES_MAX = 60;

const READ_STAT = HAS_PROC
  ? "read -r perdure_stat </proc/$$/stat"
  : "perdure_stat=$(LC_ALL=C TZ=UTC0 ps -o pid=,ppid=,pgid=,stat=,lstart= -p $$)";

const WRAPPER = `
set -C
${READ_STAT} || exit ${UNCLAIMED_EXIT}
printf '%s\\n' "$2 $perdure_stat" >"$1/pid" || exit ${UNCLAIMED_EXIT}
set +C
trap : TERM INT HUP
$4 /bin/sh -e "$1/script.sh"
perdure_work=$?
perdure_check=-
if [ "$perdure_work$3" = 0check ]; then
  /bin/sh -e "$1/check.sh" </dev/null >>"$1/check.log" 2>&1
  perdure_check=$?
fi
perdure_tries=0
until printf '%s\\n' "$perdure_work $perdure_check" >"$1/exit"; do
  perdure_tries=$((perdure_tries + 1))
  [ $perdure_tries -lt ${RECORD_TRIES_MAX} ] || exit 1
  sleep 1
done
echo >>"$1/pid"
exit 0
`;

/** What the wrapper of a folder is told. */
export interface WrapperOptions {
  readonly check: boolean;
  /** The words of a command in front of the work; none of them holds a space. */
  readonly keeper: readonly string[];
}

/** The arguments of /bin/sh that run the work, and the check if there is one, of this folder. */
export function wrapperArguments(dir: string, { check, keeper }: WrapperOptions): string[] {
  const checking = check ? "check" : "no-check";
  return ["-c", WRAPPER, "perdure", dir, systemText(), checking, keeper.join(" ")];
}
