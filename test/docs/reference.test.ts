/** The examples of docs/REFERENCE.md: each key stands on a step of one pipeline, which completes. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { INSTALL_MS_MAX, needBubblewrap } from "../../scripts/bubblewrap.ts";
import { StandIns } from "../rig/stand-ins.ts";

type Keys = Readonly<Record<string, unknown>>;

const PAGE = readFileSync(resolve(import.meta.dirname, "../../docs/REFERENCE.md"), "utf8");

const COMMAND = { run: "mkdir -p dist && echo app > dist/app.js && echo '{}'" };
const AGENT = { agent: "claude", prompt: "Do it." };
const GROUP = { steps: [{ id: "test", run: "echo tested" }] };

/** What stands beside a key on its step, where the work of its kind is not enough or too much. */
const BESIDE: Readonly<Record<string, Keys>> = {
  agent: { prompt: "Do it." },
  as: { ...COMMAND, for_each: ["a"] },
  edges: { id: "test", run: "true" },
  fail: {},
  gate: {},
  input: { pipeline: "release.yaml" },
  max_parallel: { ...COMMAND, for_each: ["a"] },
  on_item_failure: { ...COMMAND, for_each: ["a"] },
  pass: {},
  pipeline: {},
  pipelines: { for_each: ["security"], pipeline: "${{ item }}" },
  prompt: { agent: "claude" },
  prompt_file: { agent: "claude" },
  join: { ...COMMAND, needs: ["build", "lint"] },
  retry_target: { ...COMMAND, goal: true, needs: ["implement"] },
  run: {},
  steps: {},
  thread: { ...AGENT, fidelity: "full" },
  wait: {},
};

/** Other steps that the example names. */
const OTHERS: Readonly<Record<string, readonly string[]>> = {
  edges: ["fix", "ship"],
  goto: ["test"],
  join: ["build", "lint"],
  needs: ["build", "lint"],
  on_failure: ["rollback"],
  retry_target: ["implement"],
};

/** The examples, each with the kinds of steps that its key may stand on. */
function examples(): readonly { readonly key: string; readonly kinds: string; text: string }[] {
  const form = /^### `(\w+)`$[^#]*?On: ([^.]*)\.[^#]*?^```yaml\n([^`]*)^```$/gm;
  return [...PAGE.matchAll(form)].map(([, key = "", kinds = "", text = ""]) => ({
    key,
    kinds,
    text: text.replace("wait: 10m", "wait: 10ms"),
  }));
}

function workFor(kinds: string): Keys {
  if (/command|every step/.test(kinds)) return COMMAND;
  return kinds.includes("agent") ? AGENT : GROUP;
}

/** A group with the step that has the key, and the steps that the key names. */
function groupOf({ key, kinds, text }: ReturnType<typeof examples>[number]): Keys {
  const beside = BESIDE[key] ?? workFor(kinds);
  const step: Keys = { id: "it", needs: [], ...beside, ...(parse(text) as Keys) };
  const others = (OTHERS[key] ?? []).map((id) => ({ id, needs: [], run: "true" }));
  const handled = key === "fail" ? { on_failure: "continue" } : {};
  const id = `key-${key.replaceAll("_", "-")}`;
  return { id, needs: [], ...handled, steps: [...others, step] };
}

beforeAll(needBubblewrap, INSTALL_MS_MAX);

it("has an example of each key that works", async () => {
  const site = new StandIns({
    "release.yaml": "steps: [{ id: out, run: ls }]\n",
    "audits/security.yaml": "steps: [{ id: audit, run: ls }]\n",
    "prompts/review.md": "Review it.\n",
    "prompts/reviewer.md": "You review code.\n",
    "packages/app/index.js": "",
    "src/a.ts": "",
    "was-published.sh": "#!/bin/sh\necho it-happened\n",
    "../library/index.js": "",
  });
  try {
    site.program("docs-server", "");
    const all = examples();
    expect(all.length).toBe([...PAGE.matchAll(/^```yaml$/gm)].length);
    site.write(
      "all.yaml",
      stringify({ context: { risk: "high" }, workspace: "worktree", steps: all.map(groupOf) }),
    );
    site.commit();
    const { exit, stdout, stderr } = await site.perdure("run", "all.yaml", "--auto-approve");
    expect(exit, stdout + stderr).toBe(0);
  } finally {
    await site.remove();
  }
});
