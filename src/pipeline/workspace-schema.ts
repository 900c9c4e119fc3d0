/** The shape of a pipeline's `workspace`. */
import * as z from "zod";
import { duration } from "./schema-text.ts";
import { ENTRIES_MAX, path } from "./schema-values.ts";

const FILE_MB_MAX = 100_000;
const workspaceKind = z.enum(["here", "worktree", "directory", "copy"]);

/** Where the steps of a pipeline work, in short or in full. */
export const workspace = z.union([
  workspaceKind,
  z.strictObject({
    kind: workspaceKind
      .optional()
      .describe("The project itself (here), a git worktree, a fresh directory, or a copy."),
    base: path.optional().describe("Worktree: the commit or branch to begin with."),
    include: z
      .array(path)
      .max(ENTRIES_MAX)
      .optional()
      .describe("Ignored files that belong to it nevertheless: globs."),
    snapshots: z.boolean().optional().describe("False: its content is not kept. Default: true."),
    snapshot_every: duration
      .optional()
      .describe("How often it is kept during long steps. Default: 2m."),
    max_file_mb: z
      .int()
      .min(1)
      .max(FILE_MB_MAX)
      .optional()
      .describe("Larger files are not kept, but named. Default: 100."),
  }),
]);
