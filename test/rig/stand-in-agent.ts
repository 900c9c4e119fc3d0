/**
 * A program that stands for `claude` or `codex` where only the pipeline around the agent matters: it
 * carries out one command and answers, without a model.
 *
 *     STAND_INS=<dir> node test/rig/stand-in-agent.ts claude|codex FLAGS
 *
 * The command is the file `agents/<step>.sh` of STAND_INS; without it, the agent writes the outputs
 * that its step declares. The answer is `agents/<step>@<visit>.json` or `agents/<step>.json`; without
 * them, the first value that fits the schema of the answer, or a sentence.
 */
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Transcript } from "./fake-agent/transcript.ts";

interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly minimum?: number;
}

const WRITE_OUTPUTS = `env | sed -n 's/^PERDURE_OUTPUT_[^=]*=//p' | while read -r file; do
  [ -e "$file" ] || { mkdir -p "$(dirname "$file")"; echo "by the agent" > "$file"; }
done`;

const { STAND_INS = "", PERDURE_STEP = "", PERDURE_VISIT = "1" } = process.env;
/** The step without the groups and fan-outs around it. */
const step = PERDURE_STEP.split("/").at(-1) ?? "";
const [program = "", ...flags] = process.argv.slice(2);

/** The first of the files of this step that exists. */
function fileOfStep(...endings: readonly string[]): string | undefined {
  const files = endings.map((ending) => join(STAND_INS, "agents", `${step}${ending}`));
  return files.find((file) => existsSync(file));
}

/** What follows a flag. */
function valueAfter(...names: readonly string[]): string | undefined {
  const at = flags.findIndex((flag) => names.includes(flag));
  return at < 0 ? undefined : flags[at + 1];
}

function firstValue(schema: Schema): unknown {
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  switch (schema.type) {
    case "object": {
      const { properties = {}, required = [] } = schema;
      const names = [...new Set([...Object.keys(properties), ...required])];
      return Object.fromEntries(names.map((name) => [name, firstValue(properties[name] ?? {})]));
    }
    case "array":
      return schema.items === undefined ? [] : [firstValue(schema.items)];
    case "boolean":
      return true;
    case "integer":
    case "number":
      return schema.minimum ?? 1;
    default:
      return "a text";
  }
}

function schemaOfAnswer(): string | undefined {
  const file = valueAfter("--output-schema");
  return file === undefined ? valueAfter("--json-schema") : readFileSync(file, "utf8");
}

function answer(): string {
  const file = fileOfStep(`@${PERDURE_VISIT}.json`, ".json");
  if (file !== undefined) return readFileSync(file, "utf8");
  const schema = schemaOfAnswer();
  if (schema === undefined) return `${step} is done.`;
  return JSON.stringify(firstValue(JSON.parse(schema) as Schema));
}

/**
 * How many actions the conversation had before this visit: other steps may share it, and an attempt
 * that was killed continues where it was.
 */
function actionsBefore(session: string): number {
  const file = join(STAND_INS, "agents", `${session}.${step}@${PERDURE_VISIT}.before`);
  if (!existsSync(file)) {
    const done = new Transcript(process.env.FAKE_AGENT_HOME ?? "", session).actionsDone();
    writeFileSync(file, String(done));
  }
  return Number(readFileSync(file, "utf8"));
}

const script = fileOfStep(".sh");
const command = script === undefined ? WRITE_OUTPUTS : `sh -e '${script}'`;
if (program === "codex") {
  process.env.FAKE_CODEX_COMMANDS = JSON.stringify([command]);
  process.env.FAKE_CODEX_ANSWER = answer();
  process.argv.splice(2, 1);
  await import("./fake-codex.ts");
} else {
  const resumed = valueAfter("--resume");
  const session = resumed ?? valueAfter("--session-id") ?? randomUUID();
  const actions = [
    ...Array.from({ length: actionsBefore(session) }, () => ({ do: "usage", input: 0, output: 0 })),
    { do: "usage", input: 1000, output: 100 },
    { do: "shell", command },
    { do: "text", text: answer() },
  ];
  process.env.FAKE_AGENT_SCRIPT = JSON.stringify(actions);
  const naming = resumed === undefined ? "--session-id" : "--resume";
  process.argv.splice(2, Infinity, naming, session);
  await import("./fake-agent.ts");
}
