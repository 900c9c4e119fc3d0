/**
 * The keys `runs_in` and `isolate`: where the processes of a step run.
 *
 * Owns: their rows in the table of step keys, and the form of a sandbox in a plan.
 * Does not: know how a sandbox is made (runner/process/sandbox.ts), or what it mounts
 * (engine/sandbox.ts).
 */
import * as z from "zod";
import { key } from "./key-row.ts";
import { name } from "./values.ts";

/** How many variables or mounts a sandbox may have. */
const LIST_MAX = 100;

/** Neither an option of the runtime nor a second line. */
const image = z.string().regex(/^[\w][\w./:@-]*$/, "bad-image");
const mount = z.string().regex(/^[^\0\n]+$/, "empty-text");

const options = {
  network: z.boolean().optional(),
  variables: z.array(name).max(LIST_MAX).optional(),
  mounts: z.array(mount).max(LIST_MAX).optional(),
};

const schema = z.union([
  z.enum(["host", "bubblewrap"]),
  z.strictObject({ sandbox: z.literal("bubblewrap"), ...options }),
  z.strictObject({ image, ...options }),
]);

/** The sandbox of a step, in a plan. */
function lower(value: z.output<typeof schema>): {
  runsIn:
    | "host"
    | {
        /** The image of a container; absent for bubblewrap. */
        readonly image?: string;
        /** The sandbox has no network. */
        readonly offline?: true;
        /** The names of variables that the step takes from the runner. */
        readonly variables?: readonly string[];
        /** Further paths; `:ro` at the end of one makes it read-only. */
        readonly mounts?: readonly string[];
      };
} {
  if (value === "host") return { runsIn: "host" };
  if (value === "bubblewrap") return { runsIn: {} };
  const { network, variables = [], mounts = [] } = value;
  return {
    runsIn: {
      ...("image" in value ? { image: value.image } : {}),
      ...(network === false ? { offline: true } : {}),
      ...(variables.length === 0 ? {} : { variables }),
      ...(mounts.length === 0 ? {} : { mounts }),
    },
  };
}

export const ISOLATE = key({
  schema: z.boolean(),
  doc: "true: the step's processes run in a PID namespace of their own (Linux).",
  example: "isolate: true",
  on: ["command", "agent"],
  fingerprint: false,
  lower: (isolate) => ({ isolate }),
});

export const RUNS_IN = key({
  schema,
  doc:
    "Where the step's processes run: `bubblewrap` (a sandbox, Linux), `{image: ...}` (a container " +
    "of docker or podman), or `host`. Options: `network: false`, `variables`, `mounts`.",
  example: "runs_in: {sandbox: bubblewrap, network: false}",
  on: ["command", "agent"],
  expects: "`bubblewrap`, `host`, or an object with `image` or `sandbox`",
  fingerprint: true,
  lower,
});
