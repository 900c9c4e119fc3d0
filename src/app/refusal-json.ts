/** An error for programs, a refusal or a bug of Perdure: the same document in every face. */

import type { DocumentJson } from "../view/json/documents.ts";
import { diagnosticJson } from "../view/json/part-json.ts";
import { commandText } from "../view/text.ts";
import {
  asRefusal,
  InputRefusal,
  nextLines,
  PipelineInvalid,
  PrintedRefusal,
  type Refusal,
  RunError,
} from "./refusal.ts";

/** The value of a refusal. */
export function refusalJson(refusal: Refusal): DocumentJson<"error"> {
  if (refusal instanceof PrintedRefusal) return { error: refusal.printed };
  const { code, message, next } = refusal;
  const texts = nextLines(next);
  return {
    error: {
      code,
      message,
      next: next.map(({ command: words }, index) => ({
        text: texts[index] ?? "",
        command: words === undefined ? null : commandText(...words),
      })),
      ...(refusal instanceof PipelineInvalid
        ? { diagnostics: refusal.diagnostics.map(diagnosticJson) }
        : {}),
      ...(refusal instanceof InputRefusal ? { fields: refusal.fields } : {}),
    },
  };
}

/** The value of any error; one that is no refusal is a bug of Perdure. */
export function errorJson(error: unknown): DocumentJson<"error"> {
  const refusal = asRefusal(error);
  if (refusal !== undefined) return refusalJson(refusal);
  const run = error instanceof RunError ? [error.shortId] : [];
  const text = "This is a bug in perdure. The journal is valid; continue";
  const next = [{ text, command: commandText("resume", ...run) }];
  return { error: { code: "internal", message: bugText(error), next } };
}

/** The stack of an error that is a bug of Perdure. */
export function bugText(error: unknown): string {
  const bug = error instanceof RunError ? error.cause : error;
  return bug instanceof Error ? (bug.stack ?? bug.message) : String(bug);
}
