/** The input of a run in one line, by which people tell runs of the same pipeline apart. */
import type { Json } from "../util/json.ts";
import { cutText, plainText } from "./text.ts";

const WIDTH_MAX = 120;

/** `Exponents in numbers · high`: its texts and numbers, the longest first; undefined without any. */
export function inputText(input: Json): string | undefined {
  const values =
    typeof input === "object" && input !== null && !Array.isArray(input)
      ? Object.values(input)
      : [input];
  const words = values
    .filter((value) => typeof value === "string" || typeof value === "number")
    .map((value) => plainText(String(value)).trim())
    .filter((word) => word !== "")
    .toSorted((a, b) => b.length - a.length);
  return words.length === 0 ? undefined : cutText(words.join(" · "), WIDTH_MAX);
}
