/**
 * Follows what the program suggests: brings a situation about, does what the words before a command
 * say, runs the command as it was printed, and expects success. A situation that suggests several
 * commands that change something is put back for each of them, or is brought about again if a process
 * works in it.
 *
 * The first such command is run in every situation. Commands that only look, and alternatives to the
 * first one, are run in the first situation of a test file that suggests them.
 */
import { readdirSync, readlinkSync } from "node:fs";
import { expect } from "vitest";
import type { RefusalCode } from "../../src/app/refusal.ts";
import type { FailureReason } from "../../src/core/event.ts";
import { KeptProject } from "./kept-project.ts";
import type { Project, Result } from "./project.ts";

export interface Situation {
  /** The code of the refusal; absent when a run ends by itself, or is looked at. */
  readonly code?: RefusalCode;
  /** What is suggested, without ids and steps, where a command that only helps is not enough. */
  readonly words?: readonly string[];
  /** Brings it about; gives the result that suggests commands. */
  readonly meet: () => Promise<Result>;
  /** What the words before the command ask for. */
  readonly first?: (words: readonly string[]) => unknown;
  /** What happens while the command runs. */
  readonly during?: (words: readonly string[]) => Promise<void>;
  /** The exit status of each command, by its order; 0 for those that are not named. */
  readonly exits?: readonly number[];
}

/** What a situation needs: a new project for each command, and the program in it. */
export interface Site {
  readonly open: () => void | Promise<void>;
  /** The project, if its files are the whole situation: they are kept and put back. */
  readonly project?: () => Project;
  readonly perdure: (words: readonly string[]) => Promise<Result>;
  readonly close: () => Promise<void>;
}

/** The failures that only agents have. */
export type AgentReason = Extract<
  FailureReason,
  "agent" | "answer" | "denied" | "paused" | "relay" | "turns"
>;

/** Makes the program name the code of a refusal on stderr. */
export const SHOW_CODES = { NODE_DEBUG: "perdure" } as const;

const WORD = String.raw`(?:'[^']*'|[^\s'();])+`;
const COMMAND = new RegExp(`(^|: )\\s*perdure (${WORD}(?: ${WORD})*)`, "gm");
/** A command that follows one of the others. */
const SEQUEL = /(?:[(;] ?then|\n *Then)$/;
/** The first line of the card with which a run ends, and which `why` prints. */
const CARD = /^(?:\S )?Run [0-9a-f]{8} /;

interface Suggestion {
  readonly words: readonly string[];
  readonly kind: "look" | "change" | "sequel";
}

/** Every command that a refusal suggests, or else the last card or line, as words. */
export function suggestions(result: Result): readonly (readonly string[])[] {
  return suggestionsIn(result).map(({ words }) => words);
}

function suggestionsIn({ stdout, stderr }: Result): readonly Suggestion[] {
  const refused = /^ {2}next: (.*)/ms.exec(stderr)?.[1];
  const lines = stdout.split("\n");
  const card = lines.findLastIndex((line) => CARD.test(line));
  const advice =
    card >= 0 ? lines.slice(card).join("\n") : lines.findLast((line) => line.search(COMMAND) >= 0);
  const text = refused ?? advice ?? "";
  return Array.from(text.matchAll(COMMAND), ({ index, 2: found = "" }) => {
    const words = (found.match(new RegExp(WORD, "g")) ?? []).map(plainWord);
    if (SEQUEL.test(text.slice(0, index))) return { words, kind: "sequel" };
    return { words, kind: isLook(words) ? "look" : "change" };
  });
}

/** The command and its options. */
function plainText({ words: [name = "", ...rest] }: Suggestion): string {
  return [name, ...rest.filter((word) => word.startsWith("-"))].join(" ");
}

/** A word without its quotes; `...` stands for a value. */
function plainWord(word: string): string {
  return word.replaceAll("'", "").replace(/^(.*=)?\.\.\.$/, "$11");
}

/** Commands that change nothing, so another one can follow in the same project. */
const LOOKS: ReadonlySet<string> = new Set([
  ...["doctor", "explain", "list", "logs", "prices", "show", "timeline", "why"],
]);

function isLook([name = "", ...words]: readonly string[]): boolean {
  if (name === "answer") return words.length < 3;
  return LOOKS.has(name) && !words.includes("--repair");
}

/** What the situations of each test file have suggested so far. */
const followed = new Map<string, Set<string>>();

/** Whether no situation of this test file has suggested it before, after the same refusal. */
function isNew(suggestion: Suggestion, { code }: Partial<Situation> = {}): boolean {
  const file = expect.getState().testPath ?? "";
  const known = followed.get(file) ?? new Set();
  followed.set(file, known);
  const words = suggestion.words.map((word) => word.replace(/^[0-9a-f]{8}$/, "RUN"));
  const key = [code, ...words].join(" ");
  const isKnown = known.has(key);
  known.add(key);
  return !isKnown;
}

/** A situation that was brought about once. */
interface Kept {
  readonly met: Result;
  readonly files: KeptProject;
}

/** Whether a process works in a directory. */
function isAtWork(dir: string): boolean {
  return readdirSync("/proc").some((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return `${readlinkSync(`/proc/${name}/cwd`)}/`.startsWith(`${dir}/`);
    } catch {
      // It has ended meanwhile, or is not ours.
      return false;
    }
  });
}

function kept(met: Result, site: Site): Kept | undefined {
  const project = site.project?.();
  if (project === undefined || isAtWork(project.dir)) return undefined;
  return { met, files: new KeptProject(project) };
}

/** Brings a situation about and runs what it suggests, each command that changes something anew. */
export async function follow(situation: Situation, site: Site): Promise<void> {
  /** Which of the commands that change something are run, by their order. */
  let chosen: readonly number[] | undefined;
  let again: Kept | undefined;
  for (let turn = 0; turn < (chosen?.length || 1); turn++) {
    if (again === undefined) await site.open();
    else again.files.putBack();
    try {
      const met = again?.met ?? (await situation.meet());
      expectCode(situation, met);
      const all = suggestionsIn(met);
      const of = (kind: Suggestion["kind"]): Suggestion[] => all.filter((one) => one.kind === kind);
      expect(all, met.stdout + met.stderr).not.toEqual([]);
      if (situation.words !== undefined) expect(all.map(plainText)).toEqual(situation.words);
      chosen ??= of("change").flatMap((one, index) => {
        return isNew(one, situation) || index === 0 ? [index] : [];
      });
      if (turn === 0 && chosen.length > 1) again = kept(met, site);
      const looks = turn === 0 ? of("look").filter((one) => isNew(one)) : [];
      const change = of("change").filter((_, index) => index === chosen?.[turn]);
      for (const one of [...looks, ...change, ...of("sequel")]) {
        await situation.first?.(one.words);
        const exit = situation.exits?.[all.indexOf(one)] ?? 0;
        await expectExit(site, one.words, { exit, situation, met });
      }
    } finally {
      await site.close();
    }
  }
  again?.files.forget();
}

function expectCode({ code }: Situation, { exit, stdout, stderr }: Result): void {
  if (code !== undefined) expect(exit, stdout + stderr).not.toBe(0);
  expect(codeOf(stderr), stdout + stderr).toBe(code);
}

function codeOf(stderr: string): string | undefined {
  return /refused: ([a-z-]+)/.exec(stderr)?.[1];
}

async function expectExit(
  site: Site,
  words: readonly string[],
  { exit, situation, met }: { exit: number; situation: Situation; met: Result },
): Promise<void> {
  const running = site.perdure(words);
  await situation.during?.(words);
  let result = await running;
  // A person would be asked on a terminal; elsewhere the option that agrees is suggested.
  if (codeOf(result.stderr) === "no-terminal") {
    result = await site.perdure(suggestions(result)[0] ?? []);
  }
  const story = `${met.stdout}${met.stderr}$ perdure ${words.join(" ")}\n`;
  expect(result.exit, `${story}${result.stdout}${result.stderr}`).toBe(exit);
}
