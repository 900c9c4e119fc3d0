/**
 * Names: exported types are built from the words of docs/GLOSSARY.md, and the words that the glossary
 * replaced appear in no file name and in no exported name.
 *
 * The lists of exceptions hold what has not been renamed yet. They may only become shorter: an entry
 * that is no exception any more fails, too.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const SRC = resolve(import.meta.dirname, "../src");
const GLOSSARY = readFileSync(resolve(import.meta.dirname, "../docs/GLOSSARY.md"), "utf8");

/** Words that another word has replaced. */
const REPLACED = [
  ...["edge", "edges", "talk", "talks", "telling", "retelling", "told", "saying", "sayings"],
  ...["doubt", "doubts", "unsettled", "pretend", "pretended", "pretence", "wish", "wishes", "desk"],
  ...["hands", "belongings", "reign", "walk", "walks", "walked", "way", "ways", "going"],
];

/** Exported types with a word that is not in the glossary. */
const TYPES_TO_RENAME: readonly string[] = [
  "AcpTrouble",
  "Acquired",
  "AgentTrouble",
  "AgreedUpdate",
  "Arrival",
  "Edge",
  "Ask",
  "AskedCall",
  "AskingEdge",
  "AttributeReading",
  "Back",
  "BackOptions",
  "BackRequest",
  "BackTarget",
  "Begun",
  "Bell",
  "BesideOptions",
  "Box",
  "CarriedConversation",
  "CarriedRun",
  "CarriedTranscript",
  "CatchUp",
  "CheckSurroundings",
  "CleanOptions",
  "CutOff",
  "DotSite",
  "Doubt",
  "DrivenRun",
  "Evaluate",
  "Exceptions",
  "FilesUse",
  "FilesWish",
  "ForeignFiles",
  "Found",
  "GoingOn",
  "Held",
  "Inlet",
  "ItemsFound",
  "KeptExit",
  "KeptFile",
  "KeysOn",
  "LaunchSite",
  "Leaving",
  "LeftMessage",
  "LeftOut",
  "LeftResult",
  "LeftRunning",
  "LexedDot",
  "Life",
  "LineFold",
  "LivingRunError",
  "Migratable",
  "MissedGoal",
  "NamedPlace",
  "NewestEvent",
  "Outlet",
  "OutputSite",
  "Paint",
  "PassWork",
  "Permits",
  "PipelineEdit",
  "Place",
  "PlaceFile",
  "Placed",
  "PlanReading",
  "PlannedFile",
  "PreflightSite",
  "Pretended",
  "PricedTokens",
  "Reached",
  "ReadingOptions",
  "ReceivedRun",
  "Redact",
  "Redecided",
  "Referable",
  "RememberedEnvironment",
  "RepeatedBy",
  "Retelling",
  "RunReturned",
  "SayRequest",
  "Saying",
  "Says",
  "Seen",
  "Served",
  "ServedStep",
  "Sharing",
  "Shelf",
  "Shortened",
  "ShownPlan",
  "Site",
  "Spot",
  "StepLook",
  "StyledNode",
  "Submission",
  "Surroundings",
  "TakesUp",
  "Talk",
  "Telling",
  "Told",
  "Trouble",
  "TroubleKind",
  "UncountedField",
  "UncountedOf",
  "UncountedSetting",
  "UnsealedEvent",
  "UsedBefore",
  "WalkFiles",
  "Walked",
  "WantedFidelity",
  "Way",
  "Wishes",
  "WorktreePlace",
];

/** Exported names with a replaced word. */
const NAMES_TO_RENAME: readonly string[] = [
  "Edge",
  "Doubt",
  "FilesWish",
  "GoingOn",
  "Pretended",
  "Retelling",
  "Saying",
  "Talk",
  "Telling",
  "Told",
  "WALK_DIRECTORIES_MAX",
  "WALK_FILES_MAX",
  "WalkFiles",
  "Walked",
  "Way",
  "Wishes",
  "applyDoubt",
  "edgeAt",
  "edges",
  "doubtFiles",
  "goingOn",
  "isInDoubt",
  "markBackEdges",
  "noteTold",
  "pretend",
  "reduceWalk",
  "talkAfter",
  "talkOf",
  "talkOfWork",
  "talks",
  "telling",
  "tellingFor",
  "told",
  "unsettled",
  "visitInDoubt",
  "walkAgain",
  "walkFilesOf",
  "walkFirst",
  "wayTo",
];

/** Files with a replaced word in their path. */
const FILES_TO_RENAME: readonly string[] = [
  "app/going-back.ts",
  "app/going-on.ts",
  "app/walk-files.ts",
  "app/wishes.ts",
  "core/doubt-flow.ts",
  "core/doubt.ts",
  "core/pretence.ts",
  "core/talk-flow.ts",
  "core/talk.ts",
  "core/telling.ts",
  "workspace/walk.ts",
];

interface Named {
  readonly path: string;
  readonly name: string;
}

const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((name) =>
  name.endsWith(".ts"),
);

function exported(pattern: RegExp): readonly Named[] {
  return files.flatMap((path) =>
    [...readFileSync(join(SRC, path), "utf8").matchAll(pattern)].map(([, name = ""]) => ({
      path,
      name,
    })),
  );
}

const types = exported(/^export (?:interface|type|(?:abstract )?class) (\w+)/gm);
const values = exported(/^export (?:async )?(?:const|let|function\*?) (\w+)/gm);

/** "RunLogOptions" is run, log, options; "EVENTS_MAX" is events, max. */
function wordsOf(name: string): readonly string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .toLowerCase()
    .split(/[\s_.-]+/);
}

/** The words of the first columns of the tables, and the list of ordinary words. */
function knownWords(): ReadonlySet<string> {
  const rows = [...GLOSSARY.matchAll(/^\| ([a-z][^|]*) \|/gm)].map(([, words = ""]) => words);
  const ordinary = GLOSSARY.split("## Ordinary words")[1] ?? "";
  const words = [...rows, ordinary].flatMap((text) => text.toLowerCase().split(/[^a-z]+/));
  return new Set(words.flatMap((word) => [word, `${word}s`]));
}

function different(names: readonly string[]): readonly string[] {
  return [...new Set(names)].sort();
}

describe("names", () => {
  it("of exported types are built from the glossary", () => {
    const known = knownWords();
    const wrong = types.filter(({ name }) => wordsOf(name).some((word) => !known.has(word)));
    expect(different(wrong.map(({ name }) => name))).toEqual(TYPES_TO_RENAME);
  });

  it("do not use words that the glossary replaced", () => {
    const replaced = (name: string): boolean =>
      wordsOf(name).some((word) => REPLACED.includes(word));
    const names = [...types, ...values].map(({ name }) => name).filter(replaced);
    expect(different(names)).toEqual(NAMES_TO_RENAME);
    const paths = files.filter((path) => replaced(path.replaceAll("/", "-")));
    expect(different(paths)).toEqual(FILES_TO_RENAME);
  });
});
