/** Elements and texts of XML and HTML; no character of a text can become markup. */
import { plainText } from "../text.ts";

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** A text for XML and HTML, also for quoted attributes; without control characters. */
export function xmlText(text: string): string {
  return plainText(text).replace(/[&<>"']/g, (found) => ENTITIES[found] ?? found);
}

/** The same for a text of several lines. */
export function xmlLines(text: string): string {
  return text.split("\n").map(xmlText).join("\n");
}

/** An element of SVG. Attributes are escaped, numbers rounded to a tenth; content is markup. */
export function element(
  name: string,
  attributes: Readonly<Record<string, string | number>>,
  ...content: readonly string[]
): string {
  const written = Object.entries(attributes).map(([key, value]) => {
    const text = typeof value === "number" ? rounded(value) : xmlText(value);
    return ` ${key}="${text}"`;
  });
  const start = `<${name}${written.join("")}`;
  return content.length === 0 ? `${start}/>` : `${start}>${content.join("")}</${name}>`;
}

/** A tenth of a pixel is enough. */
export function rounded(value: number): string {
  return String(Math.round(value * 10) / 10);
}

/** A style sheet on one line. */
export function styleSheet(text: string): string {
  return text.replace(/\s*\n\s*/g, "");
}
