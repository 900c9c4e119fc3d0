/** What the pages suppose: files of the project, its programs, and the runs that exist. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

export interface Situation {
  readonly files?: Readonly<Record<string, string>>;
  /** Shell text that runs before the snippets. */
  readonly before?: string;
  /** Its runs take snapshots without asking for them; those of other pages take none. */
  readonly snapshots?: true;
}

const ROOT = resolve(import.meta.dirname, "../..");

/** The files of a folder of this repository. */
export function filesIn(folder: string): Readonly<Record<string, string>> {
  const names = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  return Object.fromEntries(
    names.map((name) => [name.slice(ROOT.length + 1), readFileSync(name, "utf8")]),
  );
}

/** A run that the page about runs looks at: an agent fixed something, an item of a fan-out failed. */
const RUN_WITH_FAILED_ITEM = `
cat > work.yaml <<'END'
workspace: worktree
steps:
  - { id: build, run: "echo built > built.txt" }
  - { id: fix, agent: claude, prompt: Fix it. }
  - id: map
    for_each: { in: [0, 1, 2, 3, 4, 5, 6, 7], on_item_failure: continue }
    run: test \${{ item % 4 }} != 3 || test -e "$HOME/allowed"
  - { id: ship, run: echo shipped }
END
git add -A; git commit -qm work
perdure run work.yaml
touch "$HOME/allowed"
`;

/** A run whose pipeline was edited after a step failed. */
const EDIT_AND_UPDATE = `#!/bin/sh
cat > edited.yaml <<'END'
defaults: { agent: claude }
steps:
  - { id: plan, prompt: Make a plan. }
  - { id: build, prompt: Build it. }
  - { id: test, run: "false" }
  - { id: ship, run: echo shipped }
END
perdure run edited.yaml
cat > edited.yaml <<'END'
defaults: { agent: claude }
steps:
  - { id: plan, prompt: Make a plan. }
  - { id: build, prompt: Build it well. }
  - { id: test, run: "false" }
  - { id: notify, run: echo done }
END
echo '$ perdure resume 1a2b3c4d --update'
perdure resume --update --dry-run
`;

export const SITUATIONS: Readonly<Record<string, Situation>> = {
  "README.md": {
    files: { ...filesIn("examples"), "docs/intro.md": "# Introduction\n" },
  },
  "docs/COMING_FROM.md": {
    before: `echo "touch x; git add x; git commit -qm x" > "$STAND_INS/agents/work.sh"`,
  },
  "docs/CONFIGURATION.md": {
    files: {
      "release.yaml": `defaults: { retry: 1 }
workspace: here
env: { NODE_ENV: live }
steps:
  - { id: plan, prompt: Plan the release. }
  - { id: build, run: make }
  - { id: test, run: make test }
  - { id: ship, run: ./ship }
`,
    },
    before: `echo 'env: { EDITOR: vi }' > "$HOME/.config/perdure/config.yaml"`,
  },
  "docs/COOKBOOK.md": {
    files: {
      compare: "#!/bin/sh\nexit 1\n",
      scan: `#!/bin/sh\necho '{"items": [{"file": "a.ts", "score": 9}, {"file": "b.ts", "score": 1}]}'\n`,
      // It fails the first time.
      "still-works": '#!/bin/sh\ntest -e "$HOME/called" || { touch "$HOME/called"; exit 1; }\n',
      "prompts/author.md": "Write short functions.\n",
      "schemas/findings.json": '{ "type": "array" }',
      "findings.json": "[]",
      serve: "#!/bin/sh\nexec sleep 600\n",
      "find-payment": "#!/bin/sh\necho payment-1\n",
    },
    before: `echo "touch changed" > "$STAND_INS/agents/fix.sh"`,
  },
  "docs/DOT.md": { files: { "goal.md": "Make the tests pass.\n" } },
  "docs/GRAPHS.md": {
    files: {
      triage: '#!/bin/sh\necho size=big >> "$PERDURE_CONTEXT"\n',
      "src/a.ts": "",
      "src/b.ts": "",
      "publish.yaml": "steps: [{ id: out, run: echo published }]\n",
      "audits/security.yaml": "steps: [{ id: look, run: echo secure }]\n",
      "audits/style.yaml": "steps: [{ id: look, run: echo stylish }]\n",
    },
  },
  "docs/CHECKS.md": {
    files: { "schemas/report.json": "{}", "report.json": "{}" },
  },
  "docs/LIBRARY.md": {
    files: {
      "ship.dot": `digraph ship { start [shape=Mdiamond]; exit [shape=Msquare]
        out [type=deploy]; ok [shape=hexagon, label="Ship it?"]
        start -> ok; ok -> out [label="Yes"]; ok -> exit [label="No"]; out -> exit }\n`,
      "deploy.sh": "#!/bin/sh\n",
    },
    before: `mkdir node_modules && ln -s '${ROOT}' node_modules/perdure; chmod +x deploy.sh`,
  },
  "docs/PERMISSIONS.md": { files: { "../design/notes.md": "" } },
  // It reuses the results of earlier runs.
  "docs/PIPELINES.md": { snapshots: true },
  "docs/RUNNING_AGENTS.md": { files: { "prompts/plan.md": "Make a plan.\n" } },
  "docs/TROUBLESHOOTING.md": {
    before: `echo 'steps: [{ id: test, run: "echo tested" }]' > p.yaml; perdure run p.yaml`,
  },
  "docs/RUNS.md": {
    files: {
      "edit-and-update.sh": EDIT_AND_UPDATE,
      "generate-steps": "#!/bin/sh\necho 'steps: [{ id: made, run: echo made }]'\n",
    },
    before: RUN_WITH_FAILED_ITEM,
  },
};
