/**
 * The texts of a plan as texts of a DOT file: the way back from templates.
 *
 * Owns: `$name` for what comes from the input, and `${{` that means itself.
 * Does not: know what else an expression says; DOT has no words for that.
 */
import { parseTemplate } from "../util/template.ts";
import { fromInput } from "./dot-text.ts";

/** A template in which nothing is an expression, as the text that it stands for. */
export function plainText(template: string): string {
  return template.replaceAll("$${{", () => "${{");
}

/** A template as a prompt: what comes from the input under a name is `$name`. */
export function templateText(template: string): string {
  const parsed = parseTemplate(template);
  if (!parsed.ok) return template;
  return parsed.parts
    .map((part) => {
      if (part.kind !== "expression") return part.text;
      const name = /"(\w+)" in input/.exec(part.source)?.[1] ?? "";
      const written = `\${{ ${part.source.trim()} }}`;
      return written === fromInput(name, `$${name}`) ? `$${name}` : written;
    })
    .join("");
}
