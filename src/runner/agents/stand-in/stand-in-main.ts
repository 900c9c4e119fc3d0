/**
 * The program of the stand-in: `node stand-in-main.js CALL_FILE`. It prints what it does as lines
 * of acp/acp.ts, writes the outputs that its step declares and that are not there, and answers with
 * the first value that fits the schema of the answer, or with a sentence.
 *
 * Owns: what the stand-in does.
 * Does not: read or change anything else of the project.
 */
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout } from "node:timers/promises";
import { STAND_IN_AGENT } from "../../../util/agent-access.ts";
import { isObject, type Json } from "../../../util/json.ts";
import type { AcpLine } from "../acp/acp.ts";
import type { StandInCall } from "./stand-in.ts";

/** Long enough to be watched, or killed. */
const WORK_MS = 1_000;
const OUTPUT = /^PERDURE_OUTPUT_/;
const WORDS_MAX = 12;

function print(line: AcpLine): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** The first value that fits a JSON Schema of the usual kinds. */
function firstValue(schema: Json | undefined): Json {
  if (!isObject(schema)) return "an answer of the stand-in";
  if (schema.const !== undefined) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[0] ?? null;
  switch (schema.type) {
    case "object": {
      const properties = isObject(schema.properties) ? schema.properties : {};
      const values = Object.entries(properties).map(([name, of]) => [name, firstValue(of)]);
      return Object.fromEntries(values) as Json;
    }
    case "array":
      return schema.items === undefined ? [] : [firstValue(schema.items)];
    case "boolean":
      return true;
    case "integer":
    case "number":
      return typeof schema.minimum === "number" ? schema.minimum : 1;
    default:
      return "an answer of the stand-in";
  }
}

/** Writes the declared outputs that are missing; gives their paths. */
function writeOutputs(task: string): readonly string[] {
  const missing = Object.entries(process.env).flatMap(([name, path]) =>
    OUTPUT.test(name) && path !== undefined && !existsSync(path) ? [path] : [],
  );
  for (const path of missing) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `Written by the stand-in, which has no model. Its task was:\n\n${task}\n`);
  }
  return missing;
}

/** The beginning of a text, on one line. */
function beginning(text: string): string {
  const words = text.split(/\s+/).filter((word) => word !== "");
  const more = words.length > WORDS_MAX ? " ..." : "";
  return words.slice(0, WORDS_MAX).join(" ") + more;
}

async function main(file: string): Promise<void> {
  const call = JSON.parse(readFileSync(file, "utf8")) as StandInCall;
  const { session, transcript, outputSchema } = call;
  const task = readFileSync(call.promptFile, "utf8").trim();
  mkdirSync(dirname(transcript), { recursive: true, mode: 0o700 });
  appendFileSync(transcript, `${JSON.stringify({ type: "user", text: task })}\n`, { mode: 0o600 });
  print({ type: "session", id: session });
  print({ type: "model", model: STAND_IN_AGENT });
  print({ type: "text", text: `I am a stand-in without a model. My task: ${beginning(task)}\n` });
  print({ type: "tool-started", id: "1", name: "write", input: "the outputs of this step" });
  await setTimeout(WORK_MS);
  const written = writeOutputs(task);
  print({ type: "tool-ended", id: "1", ok: true, result: written.join("\n") || "nothing to do" });
  const sentence = "Done. A real agent would have done the work.";
  const answer = outputSchema === undefined ? sentence : JSON.stringify(firstValue(outputSchema));
  print({ type: "text", text: answer });
  appendFileSync(transcript, `${JSON.stringify({ type: "assistant", text: answer })}\n`);
  print({ type: "usage", inputTokens: 0, cachedTokens: 0, outputTokens: 0 });
  print({ type: "cost", totalUsd: 0 });
  print({ type: "result", stop: "end_turn" });
}

await main(process.argv[2] ?? "");
