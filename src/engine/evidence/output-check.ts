/**
 * The files that steps handed on, held against their hashes before a run goes on.
 *
 * Owns: what becomes of each: put back from its kept copy, told, or missed.
 * Does not: choose which are looked at (core/outputs.ts) or refuse anything.
 * Invariants:
 * - U1 In the project itself a file that is there is never overwritten.
 * - U2 What is overwritten in a workspace of the run's own is kept first.
 * - U4 Nothing is written outside of the workspace, also when a link leads out of it by now.
 */
import type { CurrentOutput } from "../../core/outputs.ts";
import {
  artifactPath,
  describeFile,
  keepArtifact,
  putArtifact,
  targetOutside,
} from "../../workspace/artifact.ts";

export interface OutputCheck {
  /** What was found and done, in words. */
  readonly lines: readonly string[];
  /** Neither the file nor its kept copy is there. */
  readonly gone: readonly CurrentOutput[];
}

/** Where outputs are looked for and put back. */
export interface OutputSite {
  readonly artifacts: string;
  /** Whether the workspace is the run's own. */
  readonly own: boolean;
  /** The directories of the workspace, below one of which each file must be. */
  readonly roots: readonly string[];
}

/** Looks at the files, and puts back what may be put back. */
export async function checkOutputs(
  outputs: readonly CurrentOutput[],
  { artifacts, own, roots }: OutputSite,
): Promise<OutputCheck> {
  const lines: string[] = [];
  const gone: CurrentOutput[] = [];
  for (const one of outputs) {
    const { output, untouched } = one;
    const found = await describeFile(output.path);
    if (found?.sha256 === output.sha256) continue;
    const kept = artifactPath(artifacts, output.sha256);
    const target = targetOutside(roots, output.path);
    if (target !== undefined) {
      lines.push(`${nameOf(one)} leads out of the workspace, to ${target}; its kept copy: ${kept}`);
      continue;
    }
    if (found === undefined) {
      if (await putArtifact(artifacts, output, output.path)) {
        lines.push(`${nameOf(one)} was missing and is put back: ${output.path}`);
      } else gone.push(one);
      continue;
    }
    const changed = own && untouched ? await replace(artifacts, one) : undefined;
    lines.push(
      changed === undefined
        ? `${nameOf(one)} was changed since; its kept copy: ${kept}`
        : `${nameOf(one)} was changed and is put back; what it was changed to: ${changed}`,
    );
  }
  return { lines, gone };
}

/** `outputs.app of step build`. */
export function nameOf({ name, step }: CurrentOutput): string {
  return `outputs.${name} of step ${step}`;
}

/** Puts the kept copy in the place of a changed file; gives where that is kept (U2). */
async function replace(artifacts: string, { output }: CurrentOutput): Promise<string | undefined> {
  const changed = await keepArtifact(artifacts, output.path);
  if (changed === undefined) return undefined;
  if (!(await putArtifact(artifacts, output, output.path))) return undefined;
  return artifactPath(artifacts, changed.sha256);
}
