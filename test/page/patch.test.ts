/** The rows of a patch: numbers of lines, names of files. */
import { expect, test } from "vitest";
import { patchFiles } from "../../src/page/parts/patch.ts";

const PATCH = `diff --git a/src/a.ts b/src/a.ts
index 1..2 100644
--- a/src/a.ts
+++ b/src/a.ts
@@ -10,3 +10,3 @@ function f() {
 same
-old
+new
+--- not a head
\\ No newline at end of file
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git "a/gr\\303\\274n" "b/gr\\303\\274n"
--- "a/gr\\303\\274n"
+++ "b/gr\\303\\274n"
@@ -1 +1 @@
-a
+b
diff --git a/old.png b/new.png
similarity index 90%
rename from old.png
rename to new.png
Binary files a/old.png and b/new.png differ
`;

test("a patch becomes files with numbered lines", () => {
  const files = patchFiles(PATCH);
  expect(files.map(({ path }) => path)).toEqual(["src/a.ts", "gone", "grün", "new.png"]);
  const lines = files[0]?.rows.flatMap((row) =>
    row.kind === "line" ? [[row.before, row.after, row.tone]] : [],
  );
  expect(lines).toEqual([
    [10, 10, "same"],
    [11, undefined, "removed"],
    [undefined, 11, "added"],
    [undefined, 12, "added"],
    [undefined, undefined, "note"],
  ]);
  expect(files[3]?.rows.map(({ kind }) => kind)).toEqual(["file", "line", "line", "line", "line"]);
});

test("a text that is no patch has no files", () => {
  expect(patchFiles("")).toEqual([]);
  expect(patchFiles("diff --git\n")).toEqual([]);
});
