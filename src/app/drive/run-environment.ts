/**
 * The environment of a run: its variables survive in another shell, and its secrets do not leave
 * the shell that they were given in.
 *
 * Owns: what a run remembers of an environment, and what its steps see when it is resumed in
 * another one.
 * Does not: record anything: the first event of an owner does, or the one that creates the run.
 * Invariants:
 * - env/V1 The value of a secret is never remembered: only marks that recognise it.
 * - env/V2 A variable that an expression names keeps its value for the whole run, unless a person
 *   says otherwise (`--env`) or the variable belongs to the machine.
 */
import { randomBytes } from "node:crypto";
import type { RememberedEnvironment } from "../../core/event.ts";
import type { Run } from "../../core/run.ts";
import { envNamesOf } from "../../plan/build.ts";
import type { Plan } from "../../plan/plan.ts";
import { isMarked, isSecretVariable, markSecrets, secretsIn } from "../../util/secrets.ts";
import { commandText, shortList } from "../../view/text.ts";
import { addEnvironmentFiles } from "../pipeline/configuration-file.ts";
import { advice, after, Refusal } from "../refusal.ts";

const SALT_BYTES = 16;
/** How many secrets of one environment get marks. */
const SECRETS_MAX = 256;
const NAMES_SHOWN_MAX = 5;
/** Variables that describe the machine and the login session; each machine has its own. */
const MACHINE_VARIABLES: ReadonlySet<string> = new Set(
  "HOME HOSTNAME LOGNAME OLDPWD PATH PWD SHELL TEMP TERM TMP TMPDIR USER".split(" "),
);

interface PlannedRun {
  readonly plan: Plan;
  readonly run: Run;
}

/** Variables with values from `--env`. */
type GivenVariables = Readonly<Record<string, string>>;

/** The variables and marks that a new run of this plan remembers. */
export function rememberedAtStart(plan: Plan): RememberedEnvironment {
  return remembered(plan, { names: envNamesOf(plan), variables: new Map(), secrets: [] }, {});
}

/**
 * The environment of a run's steps: that of this process, overridden by the run's own variables.
 */
export function runEnvironment(run: Run, given: GivenVariables = {}): NodeJS.ProcessEnv {
  const kept = [...run.variables].filter(([name]) => !isTakenFromHere(name));
  return { ...process.env, ...Object.fromEntries(kept), ...given };
}

/** The variables and marks that a run does not remember yet; undefined when there are none. */
export function newlyRemembered(
  { plan, run }: PlannedRun,
  given: GivenVariables,
): RememberedEnvironment | undefined {
  const { variables, secrets } = run;
  const names = run.created?.envNames ?? [];
  const found = remembered(plan, { names, variables, secrets }, given);
  return Object.keys(found).length === 0 ? undefined : found;
}

function remembered(
  plan: Plan,
  known: Pick<Run, "variables" | "secrets"> & { readonly names: readonly string[] },
  given: GivenVariables,
): RememberedEnvironment {
  const variables: Record<string, string> = { ...given };
  for (const name of known.names) {
    const value = process.env[name];
    if (value === undefined || known.variables.has(name) || isSecret(plan, name, value)) continue;
    variables[name] ??= value;
  }
  const unknown = [...secretsHere(plan, known.names)].filter(
    ([name, value]) => !known.secrets.some((marks) => isMarked(marks, name, value)),
  );
  const secrets = new Map(unknown.slice(0, SECRETS_MAX));
  return {
    ...(Object.keys(variables).length === 0 ? {} : { variables }),
    ...(secrets.size === 0
      ? {}
      : { secrets: markSecrets(secrets, randomBytes(SALT_BYTES).toString("hex")) }),
  };
}

/**
 * The secrets of this environment, those that the plan relies on first. A value that Perdure does
 * not mask, such as the path of a key, gets no mark: the run only remembers that it is set.
 */
function secretsHere(plan: Plan, names: readonly string[]): ReadonlyMap<string, string> {
  const masked = secretsIn(process.env, plan.secrets);
  const relied = [...(plan.secrets ?? []), ...names].filter((name) => {
    const value = process.env[name];
    return value !== undefined && isSecret(plan, name, value);
  });
  return new Map([...relied.map((name) => [name, masked.get(name) ?? ""] as const), ...masked]);
}

/** True for a variable that the plan declares as a secret, or that looks like one. */
export function isSecret({ secrets = [] }: Plan, name: string, value: string | undefined): boolean {
  return secrets.includes(name) || isSecretVariable(name, value);
}

function isTakenFromHere(name: string): boolean {
  return MACHINE_VARIABLES.has(name) && process.env[name] !== undefined;
}

/**
 * Lines for a person about variables that have changed since the run started; `command` is what the
 * person typed.
 */
export function environmentLines(
  { plan, run }: PlannedRun,
  command: readonly string[],
  given: GivenVariables,
): readonly string[] {
  const names = [...run.variables]
    .filter(([name, value]) => !Object.hasOwn(given, name) && process.env[name] !== value)
    .map(([name]) => name);
  const here = names.filter(isTakenFromHere);
  const missing = names.filter((name) => process.env[name] === undefined);
  const changed = names.filter((name) => !here.includes(name) && !missing.includes(name));
  const set = secretsHere(plan, run.created?.envNames ?? []);
  const secrets = reliedSecrets({ plan, run }).filter((name) => {
    const value = set.get(name);
    return value !== undefined && !run.secrets.some((marks) => isMarked(marks, name, value));
  });
  const be = missing.length === 1 ? "is" : "are";
  const take = commandText(...command, ...changed.flatMap((name) => ["--env", name]));
  return [
    ...line(missing, `${be} not set here: steps get the value that the run started with`),
    ...line(changed, "changed since the run started: steps get the value that it started with"),
    ...(changed.length === 0 ? [] : [`Use the new value: ${take}`]),
    ...line([...here, ...secrets], "changed since the run started: steps get the new value"),
  ];
}

function line(names: readonly string[], words: string): readonly string[] {
  return names.length === 0 ? [] : [`${shortList(names, NAMES_SHOWN_MAX)} ${words}`];
}

/** The secrets that a plan relies on and that an earlier owner of the run had. */
function reliedSecrets(
  { plan, run }: PlannedRun,
  names: readonly string[] = run.created?.envNames ?? [],
): readonly string[] {
  const relied = new Set([...(plan.secrets ?? []), ...names]);
  return [...relied].filter((name) => run.secrets.some(({ marks }) => Object.hasOwn(marks, name)));
}

/**
 * Reads the files of `env_file`, and refuses to continue a run without the variables that it relies on,
 * before anything is started. `names` are those of the plan that it continues with, and `typed` is the
 * command that asked for it.
 */
export function requireVariables(
  { plan, run }: PlannedRun,
  shortId: string,
  options: {
    readonly typed: readonly string[];
    readonly given?: GivenVariables;
    readonly names?: readonly string[] | undefined;
  },
): void {
  const { typed, given = {}, names = run.created?.envNames ?? [] } = options;
  addEnvironmentFiles(plan, run.created?.project ?? ".", typed);
  const unset = (name: string): boolean =>
    process.env[name] === undefined && !Object.hasOwn(given, name);
  const secrets = reliedSecrets({ plan, run }, names).filter(unset);
  const others = names.filter((name) => unset(name) && !run.variables.has(name));
  const missing = [...new Set([...secrets, ...others])];
  if (missing.length === 0) return;
  const why = secrets.length === 0 ? "" : "; a run does not keep its secrets";
  const message = `run ${shortId} relies on ${missing.join(", ")} in the environment${why}`;
  const values = missing.map((name) => `${name}=...`).join(" ");
  throw new Refusal("missing-variables", message, after(`export ${values}`, ...typed));
}

/** Reads `--env`: `NAME` takes the value from this shell, `NAME=value` gives a value. */
export function givenVariables(words: readonly string[], plan: Plan): GivenVariables {
  return Object.fromEntries(
    words.flatMap((word) => {
      const [, name = "", value] = /^([A-Za-z_]\w*)(?:=(.*))?$/s.exec(word) ?? [];
      const here = process.env[name];
      if (name === "") {
        throw new Refusal("bad-option", `--env takes NAME or NAME=value, not ${word}`);
      }
      if (value === undefined && here === undefined) {
        const message = `--env ${name}: the variable is not set here`;
        throw new Refusal("bad-option", message, advice(`--env ${name}=value`));
      }
      const taken = value ?? here ?? "";
      if (!isSecret(plan, name, taken)) return [[name, taken]];
      if (value === undefined) return [];
      const message = `--env ${name}: a run does not keep its secrets`;
      throw new Refusal(
        "bad-option",
        message,
        advice(`export ${name}=..., then repeat the command without --env`),
      );
    }),
  );
}
