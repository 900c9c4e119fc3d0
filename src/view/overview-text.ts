/** What many runs have in common, for people: their cost over time, and what waits for a person. */
import { usdText } from "../core/spending.ts";
import type { DocumentJson } from "./json/documents.ts";
import { commandText, countText, plainStyle, plainText, type Style, tableLines } from "./text.ts";

type Waiting = DocumentJson<"inbox">[keyof DocumentJson<"inbox">][number];

/** The lines of `perdure cost`. */
export function costLines(
  costs: DocumentJson<"costs">,
  style: Style = plainStyle,
): readonly string[] {
  const { by, rows, total } = costs;
  if (rows.length === 0) return [`No agent has used anything since ${costs.since.slice(0, 10)}.`];
  const share = (usd: number): string =>
    total.usd === 0 ? "" : `${((usd / total.usd) * 100).toFixed()}%`;
  const header = [...by.map((column) => column.toUpperCase()), "RUNS", "TOKENS", "COST", "SHARE"];
  const cells = rows.map((row) => [
    ...by.map((column) => plainText(row[column] ?? "")),
    ...[String(row.runs), row.tokens.toLocaleString("en"), usdText(row.usd), share(row.usd)],
  ]);
  const sum = [String(total.runs), total.tokens.toLocaleString("en"), usdText(total.usd)];
  const last = [...by.map((_, at) => (at === 0 ? "total" : "")), ...sum];
  const toneOf = (at: number): "dim" | undefined => (at === 0 ? "dim" : undefined);
  const lines = tableLines([header, ...cells, last], { style, toneOf });
  if (total.unknown_price === 0) return lines;
  const runs = countText(total.unknown_price, "run");
  return [...lines, `${runs} used a model without a known price; see: perdure prices`];
}

/** The lines of `perdure inbox`. */
export function inboxLines(
  inbox: DocumentJson<"inbox">,
  style: Style = plainStyle,
): readonly string[] {
  const questions = inbox.questions.flatMap((one) => {
    const choices = one.choices.map(({ label }) => plainText(label)).join(", ");
    const state = one.answered ? " (answered; perdure resume continues it)" : "";
    return [
      `${named(one, style)} asks: ${plainText(one.question)}${state}`,
      ...(choices === "" ? [] : [`  choices: ${choices}`]),
      `  ${commandText("-C", one.directory, "answer", one.short_id, one.step)}`,
    ];
  });
  const uncertain = inbox.uncertain.flatMap((one) => [
    `${named(one, style)} may or may not have happened: ${plainText(one.message)}`,
    `  ${commandText("-C", one.directory, "settle", one.short_id, one.step)}`,
  ]);
  const lines = [...questions, ...uncertain];
  return lines.length === 0 ? ["Nothing waits for a person."] : lines;
}

function named({ step, pipeline, short_id }: Waiting, style: Style): string {
  return `${style("strong", plainText(step))} of ${plainText(pipeline)} (${short_id})`;
}
