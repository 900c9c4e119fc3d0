/** The shape of a pipeline's `workspace`. */
import * as z from "zod";
import { duration } from "./schema-text.ts";
import { ENTRIES_MAX, path } from "./schema-values.ts";

const FILE_MB_MAX = 100_000;

const workspaceKind = z.enum(["here", "worktree", "directory", "copy"]);
