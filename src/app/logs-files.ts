/**
 * Writes the run directory of the DOT language (`--logs DIR`): a second projection of the journal,
 * beside the run's own files.
 *
 * Owns: where these files lie, and that each is whole whenever it is there.
 * Does not: decide what stands in them (view/json/attractor-log.ts).
 * Invariants:
 * - J5 Every file here can be made anew from the events and the attempts' folders.
 * - O1 A file appears by rename, complete.
 */
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Recorded, VisitEnd } from "../core/event.ts";
import { findVisit, type Run, stepOf, type Visit } from "../core/run.ts";
import { evaluateIn } from "../core/values.ts";
import { PROMPT_FILE } from "../engine/launch.ts";
import { attemptDirOf, type RunDir } from "../engine/state-dir.ts";
import type { Plan } from "../plan/plan.ts";
import { textOf } from "../runner/file-text.ts";
import { failpoint } from "../util/failpoint.ts";
import { renderText } from "../util/template.ts";
import { AttractorLog, attemptOfEnd, statusJson } from "../view/json/attractor-log.ts";

const RESPONSE_FILE = "response.md";

interface WalkPlace {
  /** The directory that the person named. */
  readonly logs: string;
  /** The project's state, so that the run is found again from here. */
  readonly project: string;
  readonly dir: RunDir;
}

/** The directory of one run, open for its owner. */
export class AttractorLogFiles {
  readonly #place: WalkPlace;
  readonly #log: AttractorLog;

  private constructor(place: WalkPlace, plan: Plan) {
    this.#place = place;
    this.#log = new AttractorLog(plan);
  }

  /** Brings the directory to what the journal says. */
  static open(
    place: WalkPlace,
    plan: Plan,
    run: Run,
    events: readonly Recorded[],
  ): AttractorLogFiles {
    const files = new AttractorLogFiles(place, plan);
    mkdirSync(place.logs, { recursive: true });
    files.record(events, run);
    return files;
  }

  /** Takes a batch that is in the journal. */
  record(events: readonly Recorded[], run: Run): void {
    let news = false;
    // Of a long past only the last end of each node is to be seen.
    const ends = new Map<string, VisitEnd>();
    for (const recorded of events) {
      const { type } = recorded.event;
      const end = this.#log.add(recorded);
      if (end !== undefined) for (const folder of this.#foldersOf(end, run)) ends.set(folder, end);
      const begun = type === "run.created" || type === "run.restarted";
      if (begun) writeWhole(this.#root, "manifest.json", json(this.#log.manifest(run)));
      news ||= end !== undefined || type.startsWith("run.");
    }
    for (const [folder, end] of ends) this.#writeNode(folder, end, run);
    if (news) this.#writeCheckpoint(run);
    failpoint("logs-files.done");
  }

  /** A restarted run writes into a directory of its own, beside what it did before. */
  get #root(): string {
    const { restarts } = this.#log;
    return restarts === 0 ? this.#place.logs : join(this.#place.logs, `restart-${restarts}`);
  }

  /** A node in a branch has a folder there, too: others may have copies of it. */
  #foldersOf(end: VisitEnd, run: Run): readonly string[] {
    const plain = join(this.#root, end.step);
    const inside = branchPath(run, end.scope);
    return inside.length === 0
      ? [plain]
      : [plain, join(this.#root, "branches", ...inside, end.step)];
  }

  #writeNode(folder: string, end: VisitEnd, run: Run): void {
    const at = attemptOfEnd(end);
    const attempt = at === undefined ? undefined : attemptDirOf(this.#place.dir, at);
    const visit = findVisit(run, end);
    const work = visit && stepOf(visit).work;
    const said = work?.kind === "pass" ? work.simulates : undefined;
    const prompt =
      said?.prompt === undefined
        ? attempt && textOf(join(attempt, PROMPT_FILE))
        : promptText(run, visit, said.prompt);
    const answer = end.type === "step.completed" ? end.answer : undefined;
    const response =
      said === undefined
        ? attempt && textOf(join(attempt, RESPONSE_FILE))
        : typeof answer === "string"
          ? answer
          : said.answer;
    if (prompt !== undefined) writeWhole(folder, PROMPT_FILE, prompt);
    if (response !== undefined) writeWhole(folder, RESPONSE_FILE, response);
    writeWhole(folder, "status.json", json(statusJson(end)));
  }

  #writeCheckpoint(run: Run): void {
    const { json: checkpoint, artifacts } = this.#log.checkpoint(run, this.#place.project);
    for (const [name, text] of artifacts) writeWhole(join(this.#root, "artifacts"), name, text);
    writeWhole(this.#root, "checkpoint.json", json(checkpoint));
    // Who resumes looks in the directory that was named.
    if (this.#log.restarts > 0) writeWhole(this.#place.logs, "checkpoint.json", json(checkpoint));
  }
}

/** Where a scope is, from the outside inwards: the nodes that opened scopes, and their branches. */
function branchPath(run: Run, id: string): readonly string[] {
  const path: string[] = [];
  for (let at = run.scopes.get(id); at?.parent !== undefined; at = at.parent.record.scope) {
    const { id: node, work } = stepOf(at.parent);
    const branch = work.kind === "branches" ? work.branches[at.index]?.id : undefined;
    path.unshift(node, ...(branch === undefined ? [] : [branch]));
  }
  return path;
}

/** The prompt as it would have been sent; what cannot be found out stands there as it was written. */
function promptText(run: Run, visit: Visit | undefined, prompt: string): string {
  return renderText(prompt, (source) => {
    const found = visit && evaluateIn(run, visit, source, {});
    return found?.ok === true ? found.value : `\${{ ${source} }}`;
  });
}

function json(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function writeWhole(folder: string, name: string, text: string): void {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, name);
  const draft = `${path}.new`;
  writeFileSync(draft, text);
  renameSync(draft, path);
}
