/** A patch as git prints it, as rows to show: a head for each file, and numbered lines. */

/** A row that names a file, or a line of it. */
export type PatchRow =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "hunk"; readonly text: string }
  | {
      readonly kind: "line";
      readonly tone: "added" | "removed" | "same" | "note";
      /** The numbers of the line before and after. */
      readonly before: number | undefined;
      readonly after: number | undefined;
      readonly text: string;
    };

/** One file of a patch. */
export interface PatchFile {
  readonly path: string;
  readonly rows: readonly PatchRow[];
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/;

/** The files of a patch in its order. */
export function patchFiles(patch: string): readonly PatchFile[] {
  const starts = [...patch.matchAll(/^diff --git /gm)].map(({ index }) => index);
  return starts.map((start, at) => {
    const lines = patch.slice(start, starts[at + 1] ?? patch.length).split("\n");
    if (lines.at(-1) === "") lines.pop();
    const path = pathOf(lines);
    return { path, rows: [{ kind: "file", path }, ...rowsOf(lines)] };
  });
}

/** `b/src/a.ts` of the head; the line before it when the file was removed. */
function pathOf(lines: readonly string[]): string {
  const named = (start: string): string | undefined => {
    const line = lines.find((one) => one.startsWith(start))?.slice(start.length);
    return line === undefined || line === "/dev/null" ? undefined : unquoted(line);
  };
  const found = named("+++ ") ?? named("--- ");
  if (found !== undefined) return found.replace(/^[ab]\//, "");
  return named("rename to ") ?? (lines[0] ?? "").replace(/^diff --git .* "?b\/(.*?)"?$/, "$1");
}

/** Git writes a name with unusual bytes as a string of C. */
function unquoted(name: string): string {
  const plain = name.replace(/\t$/, "");
  if (!plain.startsWith('"')) return plain;
  const bytes: number[] = [];
  const encoder = new TextEncoder();
  for (const [part, octal, escaped] of plain.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|[^\\]+/g)) {
    if (octal !== undefined) bytes.push(Number.parseInt(octal, 8));
    else bytes.push(...encoder.encode(escaped ?? part));
  }
  return new TextDecoder().decode(Uint8Array.from(bytes));
}

function rowsOf(lines: readonly string[]): readonly PatchRow[] {
  const rows: PatchRow[] = [];
  let [before, after, isInside] = [0, 0, false];
  for (const line of lines) {
    const hunk = HUNK.exec(line);
    if (hunk !== null) {
      [before, after, isInside] = [Number(hunk[1]), Number(hunk[2]), true];
      rows.push({ kind: "hunk", text: line });
    } else if (!isInside) {
      const isNote = /^(Binary files|rename |similarity |old mode|new mode|GIT binary)/.test(line);
      if (isNote) rows.push(noteRow(line));
    } else if (line.startsWith("+")) {
      rows.push({
        ...{ kind: "line", tone: "added", before: undefined },
        after: after++,
        text: line,
      });
    } else if (line.startsWith("-")) {
      rows.push({
        ...{ kind: "line", tone: "removed" },
        before: before++,
        after: undefined,
        text: line,
      });
    } else if (line.startsWith("\\")) {
      rows.push(noteRow(line));
    } else {
      rows.push({ kind: "line", tone: "same", before: before++, after: after++, text: line });
    }
  }
  return rows;
}

function noteRow(text: string): PatchRow {
  return { kind: "line", tone: "note", before: undefined, after: undefined, text };
}
