/** Text inside XML, HTML and Markdown, so that no character of it is taken for markup. */
import { plainText } from "./display-text.ts";

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
