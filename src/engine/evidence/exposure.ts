/**
 * Finds secrets in the values that a step stores or passes on: the context, which a failed step
 * passes on too, an output, its answer.
 *
 * Owns: finding them, so that a person can be warned.
 * Does not: change any value (evidence.ts, engine/N2), or mask what is shown (cli/print.ts).
 */
import { open } from "node:fs/promises";
import type { Exposure } from "../../core/event.ts";
import type { Ending } from "../../core/fact.ts";
import { secretInputs, secretsIn, textsIn } from "../../util/secrets.ts";
import type { LaunchInput } from "../launch.ts";

/** How much of an output is searched. */
const SEARCHED_BYTES_MAX = 16 * 1024 * 1024;

/** The ending of an attempt, with the secrets in the values that it passes on. */
export async function withExposures(site: LaunchInput, ending: Ending): Promise<Ending> {
  if (ending.how !== "exited") return ending;
  const { context, outputs, answer } = ending;
  const written = Object.keys(context).length + Object.keys(outputs).length;
  if (written === 0 && answer === undefined) return ending;
  const secrets = secretsOf(site);
  if (secrets.length === 0) return ending;
  const declared = new Set(site.plan.secrets);
  const exposes: Exposure[] = [];
  const search = (where: string, holds: (text: string) => boolean): void => {
    for (const { name, texts } of secrets) {
      if (texts.some(holds)) exposes.push({ secret: name, in: where });
    }
  };
  for (const [key, value] of Object.entries(context)) {
    // A key that is itself declared as secret needs no warning.
    if (declared.has(key)) continue;
    const texts = textsIn(value);
    search(`context.${key}`, (secret) => texts.some((text) => text.includes(secret)));
  }
  const answered = textsIn(answer);
  search("answer", (secret) => answered.some((text) => text.includes(secret)));
  for (const [name, { sha256 }] of Object.entries(outputs)) {
    const content = await keptContent(site, sha256);
    search(`outputs.${name}`, (secret) => content.includes(secret));
  }
  return exposes.length === 0 ? ending : { ...ending, exposes };
}

/** The secrets that a step of this run can know. */
export function secretsOf({ plan, run, env }: LaunchInput): readonly Secret[] {
  const variables = secretsIn(env, plan.secrets);
  const inputs = secretInputs(run.created?.input ?? null, plan.secrets);
  return [
    ...Array.from(variables, ([name, value]) => ({ name, texts: [value] })),
    ...Array.from(inputs, ([name, texts]) => ({ name: `input.${name}`, texts })),
  ];
}

interface Secret {
  readonly name: string;
  readonly texts: readonly string[];
}

/** The start of an output's kept copy; the file itself may have changed. */
async function keptContent({ dir }: LaunchInput, sha256: string): Promise<Buffer> {
  const { artifactPath } = await import("../../workspace/artifact.ts");
  const file = await open(artifactPath(dir.artifacts, sha256), "r");
  try {
    const { size } = await file.stat();
    const buffer = Buffer.alloc(Math.min(size, SEARCHED_BYTES_MAX));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
