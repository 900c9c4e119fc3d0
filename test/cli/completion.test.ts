/** Completion in shells: commands, options and their values, runs, steps, gates and choices. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cleanEnvironment, PlainProject, PROGRAM, type Project } from "../rig/project.ts";

let project: Project;
let id: string;

beforeAll(async () => {
  project = new PlainProject();
  project.write(
    "p.yaml",
    `steps:
  - { id: package, run: echo package }
  - { id: map, for_each: { in: [1, 2] }, steps: [{ id: fix, run: echo fix }] }
  - { id: approve, gate: { ask: "Ship it?" } }
`,
  );
  mkdirSync(project.path("pipelines"));
  project.write("pipelines/release.yaml", "# Ships it.\nsteps: [{ id: a, run: ls }]\n");
  project.write("compose.yaml", "services: {}\n");
  expect((await project.run(["run", "p.yaml"])).exit).toBe(6);
  id = (await project.newestId()).slice(0, 8);
});

afterAll(() => project.discard());

/** The words of the command line, the last one incomplete, and what is offered for it. */
const LINES: readonly (readonly [line: string, offered: string])[] = [
  ["resu", "resume"],
  ["resume --dry", "--dry-run"],
  ["rewind --files ", "keep restore"],
  ["resume --recover re", "restart"],
  ["list --status co", "completed"],
  ["report --format ", "md html json"],
  ["completion ", "bash zsh fish"],
  ["show ID3", "ID"],
  ["merge ", "ID"],
  ["resume --pipeline-id ", "ID"],
  ["logs p", "package"],
  ["logs ID p", "package"],
  ["retry map", "map map[0]/fix map[1]/fix"],
  ["fork --at a", "approve"],
  ["answer ap", "approve"],
  ["answer ID ", "approve"],
  ["answer approve ", "approve reject"],
  ["answer ID approve r", "reject"],
  ["settle package ", "done redo abort"],
  ["run ", "release p.yaml"],
  ["validate re", "release"],
];

/** Puts the id of the run in the place of ID, and its beginning in the place of ID3. */
const filled = (text: string): string => text.replace("ID3", id.slice(0, 3)).replace("ID", id);

describe("perdure complete", () => {
  it.each(LINES)("%s", async (line, offered) => {
    const said = await project.must(["complete", "--", ...filled(line).split(" ")]);
    const words = said
      .trimEnd()
      .split("\n")
      .map((one) => one.split("\t")[0]);
    expect(words.join(" ")).toBe(filled(offered));
  });

  it("offers every command with its description, and files for file arguments", async () => {
    const said = await project.must(["complete", "--", ""]);
    expect(said).toContain("retry\trun a step again, and every step after it\n");
    expect(said).not.toContain("sessions");
    for (const line of ["run deep/", "report -o ", "import "]) {
      expect(await project.must(["complete", "--", ...line.split(" ")])).toBe(":files\n");
    }
  });

  it("offers nothing, without an error, where there are no runs", async () => {
    expect(await project.must(["complete", "--", "logs", ""], { cwd: "/" })).toBe("");
  });
});

/** The script of a shell, and a function in the place of the installed program. */
async function scriptFor(shell: string): Promise<string> {
  return project.path(
    project.write(`completion.${shell}`, await project.must(["completion", shell])),
  );
}

it.each(["bash", "zsh", "fish"])("the script of %s has no mistakes", async (shell) => {
  // From a file: what a test sends as input is a socket, which fish 3.6 does not read.
  const file = await scriptFor(shell);
  const env = { ...cleanEnvironment(), ...project.own, HOME: project.dir };
  const checker = spawnSync(shell, ["-n", file], { env, encoding: "utf8" });
  if (checker.error === undefined) expect(checker.stderr).toBe("");
});

it("completes in bash", async () => {
  const file = await scriptFor("bash");
  const complete = (line: string): string =>
    execFileSync(
      "bash",
      [
        "-c",
        `perdure() { "${process.execPath}" ${PROGRAM} "$@"; }
source ${file}
COMP_WORDS=(perdure ${line}); COMP_CWORD=$((\${#COMP_WORDS[@]}-1)); _perdure
printf '%s\\n' "\${COMPREPLY[@]}"`,
      ],
      { cwd: project.dir, encoding: "utf8" },
    ).trim();
  expect(complete("resu")).toBe("resume");
  expect(complete("answer approve ''")).toBe("approve\nreject");
  expect(complete(`retry 'map[1]'`)).toBe("map[1]/fix");
});

it("completes in fish, if it is installed", async () => {
  const shell = "fish";
  const file = await scriptFor(shell);
  if (spawnSync(shell, ["--version"]).error !== undefined) return;
  const complete = (line: string): string => {
    const { stdout } = spawnSync(
      shell,
      [
        "-c",
        `function perdure; "${process.execPath}" ${PROGRAM} $argv; end
source ${file}
complete -C "perdure ${line}"`,
      ],
      {
        cwd: project.dir,
        env: { ...cleanEnvironment(), ...project.own, HOME: project.dir },
        encoding: "utf8",
      },
    );
    return stdout.trim();
  };
  expect(complete("resu")).toBe("resume\tcontinue a run from where it stopped");
  expect(complete("answer approve ")).toBe("approve\nreject");
  expect(complete("rewind --files k")).toBe("keep");
});
