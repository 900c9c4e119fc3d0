/**
 * Makes the projects of some directories, one after the other.
 *
 *     node test/rig/new-projects.ts DIRECTORY...
 */
import { mkdirSync } from "node:fs";
import { createProject } from "../../src/app/project/project.ts";

for (const directory of process.argv.slice(2)) {
  mkdirSync(directory);
  const { journal } = await createProject(directory);
  await journal.close();
}
