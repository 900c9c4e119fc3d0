/**
 * Compares the outputs of steps with their hashes before a run resumes.
 *
 * Owns: what happens to each output: it is restored from its kept copy, reported, or missing.
 * Does not: choose which outputs are checked (core/outputs.ts) or refuse anything.
 * Invariants:
 * - engine/U1 In the project itself, an existing file is never overwritten.
 * - engine/U2 A file that is overwritten in a workspace of the run's own is kept first.
 * - engine/U4 Nothing is written outside of the workspace, even when a link now leads out of it.
 */
import type { CurrentOutput } from "../../core/outputs.ts";
import {
  artifactPath,
  describeFile,
  keepArtifact,
  putArtifact,
  targetOutside,
} from "../../workspace/artifact.ts";

interface OutputCheck {
  /** Sentences about what was found and changed. */
  readonly lines: readonly string[];
  /** Outputs whose file and kept copy are both missing. */
  readonly gone: readonly CurrentOutput[];
}

/** The directories in which outputs are checked and restored. */
interface OutputSite {
  readonly artifacts: string;
  /** True when the workspace belongs to the run alone. */
  readonly own: boolean;
  /** The directories of the workspace, below one of which each file must be. */
  readonly roots: readonly string[];
}

/** Checks the files, and restores those that may be restored. */
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

/** Replaces a changed file by the kept copy; returns the path of the changed one (engine/U2). */
async function replace(artifacts: string, { output }: CurrentOutput): Promise<string | undefined> {
  const changed = await keepArtifact(artifacts, output.path);
  if (changed === undefined) return undefined;
  if (!(await putArtifact(artifacts, output, output.path))) return undefined;
  return artifactPath(artifacts, changed.sha256);
}
