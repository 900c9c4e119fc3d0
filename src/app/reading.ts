/** The options that say how a pipeline file is to be read. */

import type { PlanReading, Simulation } from "../plan/plan.ts";
import { KNOWN_AGENTS, PERMISSION_LEVELS } from "../util/agent-access.ts";
import { advice, command, Refusal } from "./refusal.ts";

export interface ReadingOptions {
  /** True without a word behind it. */
  readonly simulate?: string | true;
  readonly agent?: string;
  readonly permissions?: string;
  readonly handler?: readonly string[];
}

const SIMULATIONS: readonly Simulation[] = ["agents", "all"];
/** What files in DOT are called. */
const DOT_FILE = /\.(dot|gv|fabro)$/i;

/** Whether a file is written in DOT, by its name. */
export function isDotFile(path: string): boolean {
  return DOT_FILE.test(path);
}

/** How a file is to be read, as the person asks for it. */
export function readingOf(options: ReadingOptions, file: string): PlanReading {
  const { agent } = options;
  if (!isDotFile(file)) refuseForYaml(options, file);
  if (agent !== undefined && !KNOWN_AGENTS.some((name) => name === agent)) {
    const names = KNOWN_AGENTS.join(", ");
    throw new Refusal(
      "bad-option",
      `--agent ${agent}: there is no such agent`,
      advice(`one of ${names}`),
    );
  }
  const simulate =
    options.simulate === undefined
      ? undefined
      : oneOf("--simulate", SIMULATIONS, options.simulate === true ? "agents" : options.simulate);
  const permissions =
    options.permissions === undefined
      ? undefined
      : oneOf("--permissions", PERMISSION_LEVELS, options.permissions);
  const handlers = Object.fromEntries((options.handler ?? []).map(handlerOf));
  return {
    ...(simulate === undefined ? {} : { simulate }),
    ...(agent === undefined ? {} : { agent }),
    ...(permissions === undefined ? {} : { permissions }),
    ...(Object.keys(handlers).length === 0 ? {} : { handlers }),
  };
}

function refuseForYaml(options: ReadingOptions, file: string): void {
  for (const name of ["agent", "permissions", "handler"] as const) {
    if (options[name] === undefined) continue;
    const message = `--${name} is for pipelines in DOT; ${file} says such things itself`;
    throw new Refusal("bad-option", message, command("run", file));
  }
}

function oneOf<T extends string>(option: string, words: readonly T[], given: string): T {
  const word = words.find((known) => known === given);
  if (word !== undefined) return word;
  throw new Refusal("bad-option", `${option} ${given}: one of ${words.join(", ")} is meant`);
}

function handlerOf(text: string): readonly [string, string] {
  const found = /^([^=\s]+)=(.+)$/s.exec(text);
  if (found !== null) return [found[1] ?? "", found[2] ?? ""];
  const message = `--handler ${text}: it has the form TYPE=COMMAND`;
  throw new Refusal(
    "bad-option",
    message,
    command("run", "flow.dot", "--handler", "deploy=./deploy.sh"),
  );
}
