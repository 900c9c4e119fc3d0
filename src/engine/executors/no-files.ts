/** The executor of files for runs whose files are not kept. */
import type { Executor, FilesOperationType } from "./executor.ts";

/** Nothing is saved, restored or merged; a run that needs that stops loudly instead of waiting. */
export const NO_FILES: Executor<FilesOperationType> = {
  begin: (operation, outlet) => {
    const why = "its files are to be put back first, and that needs git: install it, then resume";
    outlet.fail(new Error(operation.type === "rewind-files" ? why : `${operation.type} needs git`));
  },
  close: () => Promise.resolve(),
};
