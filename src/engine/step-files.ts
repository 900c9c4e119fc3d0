/**
 * The files around an attempt: those that it begins with, and those that it leaves.
 *
 * Owns: the order in which work done apart is merged back.
 * Does not: know git (workspace-keeper.ts), or decide what is put back (core/decide.ts).
 * Invariants:
 * - F3 Work done apart is merged in the order of the steps in the plan, not of their ends: of two that
 *   run at the same time, the later one waits for the earlier.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { AttemptRef, Saved } from "../core/event.ts";
import type { Ending, Fact } from "../core/fact.ts";
import { type Run, stepOf, type Visit } from "../core/run.ts";
import { assert } from "../util/assert.ts";
import { ownPathOf, type RunDir } from "./state-dir.ts";
import type { WorkspaceKeeper } from "./workspace-keeper.ts";

const PATHS_MAX = 100;
const PATHS_SHOWN_MAX = 5;
const MARKER = /^(<{7}|>{7}) /m;

export interface StepFilesOptions {
  readonly keeper: WorkspaceKeeper;
  readonly dir: RunDir;
  readonly run: () => Run;
  /** Resolves when what the fact brings about is on the disk. */
  readonly record: (fact: Fact) => Promise<void>;
}

/** The files of all attempts of one run. */
export class StepFiles {
  readonly #options: StepFilesOptions;
  #waiting: readonly { readonly visit: Visit; readonly go: () => void }[] = [];

  constructor(options: StepFilesOptions) {
    this.#options = options;
  }

  /** The files that an attempt begins with are put back, known already, or saved now. */
  async begin(at: AttemptRef, visit: Visit): Promise<void> {
    const { keeper, record } = this.#options;
    if (visit.base === undefined) {
      const base = await keeper.before(at);
      // Durable before the first byte changes: else partial work could be taken for the beginning.
      if (base !== undefined) await record({ type: "based", at, base });
    }
    const { base } = visit;
    if (base === undefined) return;
    if (stepOf(visit).own === true) {
      await keeper.prepareOwn(at, base, visit.restore === true ? "restored" : "as-it-is");
    } else if (visit.restore === true) {
      const aside = await keeper.setAside(at, base);
      if (aside !== undefined) await record({ type: "based", at, base, aside });
      await keeper.restore(at, base);
    }
  }

  /** The ending of an attempt and the files that it left, which are one fact (F1). */
  async end(
    at: AttemptRef,
    visit: Visit,
    ending: Ending,
    whose: "ours" | "adopted",
  ): Promise<Ending> {
    const { keeper } = this.#options;
    keeper.leave();
    if (ending.how === "lost" && !ending.started) return ending;
    if (stepOf(visit).own === true) return this.#endOwn(at, visit, ending);
    return withSnapshot(ending, await keeper.after(at, whose));
  }

  /** Merges work again that did not fit before; nothing is run. */
  async mergeHeld(at: AttemptRef, visit: Visit): Promise<Ending> {
    const { held, conflicts = [], base = "" } = visit;
    assert(held !== undefined, "only work that is held is merged again");
    const marked = conflicts.filter((path) => this.#hasMarkers(at, path));
    if (marked.length > 0) {
      const { commit } = await this.#options.keeper.afterOwn(at);
      return { ...conflictOf(marked, base, held), snapshot: { commit } };
    }
    return this.#merge(at, visit, { how: "exited", ...held });
  }

  /** Lets those merge whose turn it is; called after each turn of the engine. */
  admit(): void {
    const { running } = this.#options.run();
    const blocked = ({ record }: Visit): boolean =>
      [...running].some(
        (other) =>
          stepOf(other).own === true &&
          other.record.scope === record.scope &&
          other.record.position < record.position,
      );
    const ready = this.#waiting.filter(({ visit }) => !blocked(visit));
    this.#waiting = this.#waiting.filter((one) => !ready.includes(one));
    for (const { go } of ready) go();
  }

  async #endOwn(at: AttemptRef, visit: Visit, ending: Ending): Promise<Ending> {
    const good = ending.how === "exited" && ending.exit === 0 && ending.problem === undefined;
    if (!good) return withSnapshot(ending, await this.#options.keeper.afterOwn(at));
    await new Promise<void>((go) => {
      this.#waiting = [...this.#waiting, { visit, go }];
      this.admit();
    });
    return this.#merge(at, visit, ending);
  }

  async #merge(
    at: AttemptRef,
    visit: Visit,
    ending: Extract<Ending, { how: "exited" }>,
  ): Promise<Ending> {
    const merged = await this.#options.keeper.merge(at, visit.base ?? "");
    if (merged.ok) return { ...ending, snapshot: merged.snapshot };
    const { exit, outputs, context, answer, check, told, spent } = ending;
    const held = {
      exit,
      outputs,
      context,
      ...(answer === undefined ? {} : { answer }),
      ...(check === undefined ? {} : { check }),
      ...(told === undefined ? {} : { told }),
    };
    const conflict = { ...conflictOf(merged.paths, merged.base, held), snapshot: merged.theirs };
    return spent === undefined ? conflict : { ...conflict, spent };
  }

  #hasMarkers(at: AttemptRef, path: string): boolean {
    try {
      return MARKER.test(readFileSync(join(ownPathOf(this.#options.dir, at), path), "utf8"));
    } catch (error) {
      // Who removed the file has resolved it.
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
      throw error;
    }
  }
}

function withSnapshot(ending: Ending, snapshot: Saved | undefined): Ending {
  return snapshot === undefined ? ending : { ...ending, snapshot };
}

type Conflicted = Extract<Ending, { how: "conflicted" }>;

function conflictOf(paths: readonly string[], base: string, held: Conflicted["held"]): Conflicted {
  const shown = paths.slice(0, PATHS_SHOWN_MAX).join(", ");
  const more = paths.length > PATHS_SHOWN_MAX ? ` and ${paths.length - PATHS_SHOWN_MAX} more` : "";
  const message = `its work does not fit what other steps did in ${shown}${more}`;
  return { how: "conflicted", paths: paths.slice(0, PATHS_MAX), message, base, held };
}
