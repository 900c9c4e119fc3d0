/** Rows of cells as lines with aligned columns; the last column is never padded. */
import { cutText, displayWidth, padText } from "./display-text.ts";

const GAP = "  ";

export interface TableOptions {
  /** The widest that each column may get; a longer cell is cut. */
  readonly widthsMax?: readonly (number | undefined)[];
}

/** The lines of a table. Cells are plain text. */
export function tableLines(
  rows: readonly (readonly string[])[],
  options: TableOptions = {},
): readonly string[] {
  const { widthsMax = [] } = options;
  const cut = rows.map((row) =>
    row.map((cell, column) => cutText(cell, widthsMax[column] ?? Number.POSITIVE_INFINITY)),
  );
  const widths: number[] = [];
  for (const row of cut) {
    row.forEach((cell, column) => {
      const widest = widths[column] ?? 0;
      widths[column] = Math.max(widest, displayWidth(cell));
    });
  }
  return cut.map((row) =>
    row
      .map((cell, column) => padText(cell, widths[column] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
}
