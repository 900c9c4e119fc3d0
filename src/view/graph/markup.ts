/** Elements and text of XML and HTML, so that no character of a text is taken for markup. */
import { plainText } from "../text.ts";

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** For XML and HTML, in text and in quoted attributes; control characters are gone. */
export function xmlText(text: string): string {
  return plainText(text).replace(/[&<>"']/g, (found) => ENTITIES[found] ?? found);
}

/** For XML and HTML text of many lines. */
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

/** A style sheet that is written in lines, as one. */
export function styleSheet(text: string): string {
  return text.replace(/\s*\n\s*/g, "");
}
