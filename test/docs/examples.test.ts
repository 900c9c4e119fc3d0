/**
 * The pipelines in examples/ work at the first run. Killed at random moments and resumed, they do
 * everything that they do to the world exactly once.
 */
import { readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { eventually } from "../rig/project.ts";
import { StandIns } from "../rig/stand-ins.ts";
import { userGit } from "../workspace/rig.ts";
import { filesIn } from "./situations.ts";

interface Example {
  /** What follows `perdure run FILE`. */
  readonly words?: readonly string[];
  readonly files?: Readonly<Record<string, string>>;
  /** More than the stand-ins do by themselves. */
  readonly prepare?: (site: StandIns) => void;
  /** How often each effect happens. */
  readonly effects: Readonly<Record<string, number>>;
}

const ROOT = resolve(import.meta.dirname, "../..");

/** Shell text that counts one effect. */
const effect = (name: string): string => `echo "${name}" >> "$STAND_INS/effects"`;
/** A script of the project that does one effect and leaves evidence of it for a probe. */
const deed = (name: string): string =>
  `#!/bin/sh\n${effect(name)}\ntouch "$STAND_INS/${name.replaceAll(" ", "-")}"\n`;
const probe = (name: string): string => `#!/bin/sh\ntest -e "$STAND_INS/${name}"\n`;

const RELEASE = {
  words: ["-i", "version=1.4.0", "--auto-approve"],
  files: {
    deploy: `#!/bin/sh\n${effect("deploy $1")}\ntouch "$STAND_INS/deployed-$1"\n`,
    deployed: probe("deployed-$1"),
    "smoke-test": "#!/bin/sh\n",
    announce: deed("announce"),
    rollback: deed("rollback"),
    unlock: deed("unlock"),
    notify: `#!/bin/sh\n${effect("$1")}\n`,
  },
  effects: {
    ...{ "deploy staging": 1, "deploy live": 1, announce: 1, unlock: 1 },
    "release of 1.4.0 completed": 1,
  },
} satisfies Example;

const EXAMPLES: Readonly<Record<string, Example>> = {
  "checks.ts": { effects: {} },
  "document.yaml": {
    words: ["--auto-approve"],
    files: { "src/a.ts": "", "src/b.ts": "", "src/c/d.ts": "" },
    prepare: (site) => {
      site.agentDoes("describe", `${effect("describe")}; echo text > "$PERDURE_OUTPUT_TEXT"`);
    },
    effects: { describe: 3 },
  },
  "etl.yaml": {
    words: ["-i", 'regions=["eu","us","asia"]'],
    files: {
      extract: "#!/bin/sh\necho $1,1\n",
      load: `#!/bin/sh\n${effect("load $1")}\ntouch "$STAND_INS/key-$2"\n`,
      "is-loaded": '#!/bin/sh\ntest -e "$STAND_INS/key-$1"\n',
    },
    effects: { "load eu": 1, "load us": 1, "load asia": 1 },
  },
  "feature.yaml": {
    words: ["-i", "task=Add an option"],
    prepare: (site) => {
      site.agentDoes("implement", `${effect("implement")}; echo code > code.js`);
      site.agentDoes("fix", `${effect("fix")}; echo fixed >> code.js`);
      site.agentAnswers("review@1", { approved: false, comments: "It needs a fix." });
      // The first test fails, the review after the second test asks for more.
      site.program("npm", "test -e code.js && grep -q fixed code.js");
    },
    effects: { implement: 1, fix: 2 },
  },
  "hello.yaml": { effects: {} },
  "release.yaml": RELEASE,
  "upgrade.yaml": {
    files: { "package-lock.json": "{}" },
    prepare: (site) => {
      userGit(site.world.dir, "init", "-q", "--bare", "origin");
      userGit(site.dir, "remote", "add", "origin", site.world.path("origin"));
      site.program("npm", 'case "$1" in update) echo "{ }" > package-lock.json;; esac');
      const create = `${effect("request")}; echo https://example.com/pull/1 | tee "$STAND_INS/url"`;
      site.program("gh", `case "$2" in create) ${create};; list) cat "$STAND_INS/url";; esac`);
    },
    effects: { request: 1 },
  },
};

function open({ files = {}, prepare }: Example, { snapshots = true } = {}): StandIns {
  const site = new StandIns({ ...filesIn("examples"), ...files }, { snapshots });
  prepare?.(site);
  return site;
}

it("every example is here", () => {
  expect(readdirSync(join(ROOT, "examples")).sort()).toEqual(Object.keys(EXAMPLES).sort());
});

/** How often the runner is killed before it may reach the end. */
const KILLS = 2;

/** Starts the runner and kills it when it has printed some lines; false when it ended before. */
async function killAfter(
  site: StandIns,
  lines: number,
  words: readonly string[],
): Promise<boolean> {
  const runner = site.world.start(words, site.options());
  let ended = false;
  void runner.ended.then(() => {
    ended = true;
  });
  await eventually(`${lines} lines`, () => ended || runner.stdout.split("\n").length > lines);
  const { signal } = await runner.kill("SIGKILL");
  return signal === "SIGKILL";
}

describe.each(Object.entries(EXAMPLES))("%s", (name, example) => {
  const { words = [], effects } = example;
  const run = ["run", `examples/${name}`, ...words];
  const resume = ["resume", ...words.filter((word) => word === "--auto-approve")];
  let printed = 0;

  it("works at the first run", async () => {
    // The next test has the snapshots that a run takes by itself.
    const site = open(example, { snapshots: false });
    try {
      const { exit, stdout, stderr } = await site.perdure(...run);
      expect(exit, stdout + stderr).toBe(0);
      expect(site.world.effects()).toEqual(effects);
      printed = stdout.split("\n").length;
    } finally {
      await site.remove();
    }
  });

  it("is killed at random moments, and resumes", async () => {
    const site = open(example);
    const kills: number[] = [];
    try {
      let command = run;
      for (let kill = 0; kill < KILLS; kill++) {
        // The first two lines name the run; before them there may be none.
        const lines = 2 + Math.floor((Math.random() * printed) / KILLS);
        kills.push(lines);
        if (!(await killAfter(site, lines, command))) break;
        command = resume;
      }
      const { exit, stdout, stderr } = await site.perdure(...resume, await site.newestId());
      const story = `killed after ${kills.join(", ")} lines\n${stdout}${stderr}`;
      expect(exit, story).toBe(0);
      expect(site.world.effects(), story).toEqual(effects);
    } finally {
      await site.remove();
    }
  });
});

it("release.yaml rolls back a bad release, and fails", async () => {
  const smoke = '#!/bin/sh\ntest "$1" != live\n';
  const site = open({ ...RELEASE, files: { ...RELEASE.files, "smoke-test": smoke } });
  try {
    expect((await site.perdure("run", "examples/release.yaml", ...RELEASE.words)).exit).toBe(3);
    const effects = {
      ...{ "deploy staging": 1, "deploy live": 1, rollback: 1, unlock: 1 },
      "release of 1.4.0 failed": 1,
    };
    expect(site.world.effects()).toEqual(effects);
    // The resumed run reaches its end again; nothing else happens.
    expect((await site.perdure("resume", await site.newestId())).exit).toBe(3);
    const again = { ...effects, unlock: 2, "release of 1.4.0 failed": 2 };
    expect(site.world.effects()).toEqual(again);
  } finally {
    await site.remove();
  }
});
