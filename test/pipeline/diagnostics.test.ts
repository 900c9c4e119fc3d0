import { describe, expect, it } from "vitest";
import { renderDiagnostics } from "../../src/pipeline/diagnostic.ts";
import { loadPipeline } from "../../src/pipeline/load.ts";

/** The drawn diagnostics of a file. */
function drawn(text: string): string {
  const { diagnostics } = loadPipeline("p.yaml", text);
  return renderDiagnostics(diagnostics, text, { color: false });
}

/** "line:column rule message" of each diagnostic; the pipeline may name these files. */
function brief(text: string, files: Readonly<Record<string, string>> = {}): string[] {
  return loadPipeline("p.yaml", text, (name) => files[name]).diagnostics.map(
    ({ line, column, rule, message }) => `${line}:${column} ${rule} ${message}`,
  );
}

const MANY_MISTAKES = `name: many
max_paralel: 3
env:
  PERDURE_X: "1"
  9A: x
agents:
  reviewer: my-agent
steps:
  - id: plan
    agent: reviewr
    prompt: "Do \${{ inptu.task }}"
    timeot: 5m
  - id: plan
    run: "true"
    timeout: 5 minutes
  - id: both
    run: ls
    agent: reviewer
    retry: {attempts: 0}
  - id: none
    needs: [pln, none]
  - run: |
      echo start
      echo "\${{ 1 + }}"
  - id: heredoc
    run: |
      cat <<'EOF'
      \${{ context.x }}
      EOF
    check: {file: x.json, schema: {type: objekt}}
`;

const MANY_MISTAKES_DRAWN = `error[unknown-key]: unknown key \`max_paralel\`
 --> p.yaml:2:1
  |
2 | max_paralel: 3
  | ^^^^^^^^^^^
  = help: did you mean \`max_parallel\`?

error[reserved-env-name]: \`PERDURE_X\` is reserved: names that start with PERDURE_ belong to Perdure
 --> p.yaml:4:3
  |
4 |   PERDURE_X: "1"
  |   ^^^^^^^^^
  = help: choose a name that does not start with PERDURE_

error[bad-env-name]: \`9A\` cannot name an environment variable
 --> p.yaml:5:3
  |
5 |   9A: x
  |   ^^
  = help: start with a letter or _, continue with letters, digits and _

error[unknown-agent]: there is no agent \`reviewr\`
  --> p.yaml:10:12
   |
10 |     agent: reviewr
   |            ^^^^^^^
   = help: did you mean \`reviewer\`?

error[unknown-variable]: unknown variable \`inptu\`
  --> p.yaml:11:21
   |
11 |     prompt: "Do \${{ inptu.task }}"
   |                     ^^^^^
   = help: did you mean \`input\`?

error[unknown-key]: unknown key \`timeot\`
  --> p.yaml:12:5
   |
12 |     timeot: 5m
   |     ^^^^^^
   = help: did you mean \`timeout\`?

error[duplicate-id]: the id \`plan\` is already taken by step 1
  --> p.yaml:13:9
   |
13 |   - id: plan
   |         ^^^^
   = help: give each step an id of its own

error[bad-duration]: \`5 minutes\` is not a duration
  --> p.yaml:15:14
   |
15 |     timeout: 5 minutes
   |              ^^^^^^^^^
   = help: write it like 250ms, 90s, 10m or 1h30m; at most 24 days

error[step-work]: step \`both\` has both \`run\` and \`agent\`
  --> p.yaml:18:5
   |
18 |     agent: reviewer
   |     ^^^^^
   = help: split it into two steps

error[out-of-range]: \`attempts\` must be at least 1
  --> p.yaml:19:23
   |
19 |     retry: {attempts: 0}
   |                       ^
   = help: \`attempts\`: The total number of attempts, the first included. Default: 1.

error[step-work]: step \`none\` has neither \`run\` nor \`agent\`
  --> p.yaml:20:9
   |
20 |   - id: none
   |         ^^^^
   = help: add \`run:\` with a command, \`agent:\` and \`prompt:\`, or \`gate:\` with a question

error[unknown-need]: there is no step \`pln\` to wait for
  --> p.yaml:21:13
   |
21 |     needs: [pln, none]
   |             ^^^
   = help: did you mean \`plan\`?

error[self-need]: a step cannot wait for itself
  --> p.yaml:21:18
   |
21 |     needs: [pln, none]
   |                  ^^^^
   = help: leave it out; \`needs: []\` waits for nothing

error[missing-key]: \`id\` is missing
  --> p.yaml:22:5
   |
22 |   - run: |
   |     ^^^
   = help: add \`id:\`

error[bad-expression]: the expression ends too early
  --> p.yaml:24:20
   |
24 |       echo "\${{ 1 + }}"
   |                    ^
   = help: expressions are CEL, such as: input.n > 3 && context.risk != "high"

error[bad-shell-place]: an expression cannot be in a here-document whose delimiter is quoted
  --> p.yaml:28:11
   |
28 |       \${{ context.x }}
   |           ^
   = help: leave the quotes off the delimiter, or pass the value through \`env\`

error[bad-json-schema]: \`objekt\` is not a type of JSON Schema
  --> p.yaml:30:42
   |
30 |     check: {file: x.json, schema: {type: objekt}}
   |                                          ^^^^^^
   = help: did you mean \`object\`?

17 errors
`;

const step = (body: string): string => `steps:\n  - id: a\n    run: ls\n${body}`;

describe("diagnostics", () => {
  it("reports all mistakes of a file at once", () => {
    expect(drawn(MANY_MISTAKES)).toBe(MANY_MISTAKES_DRAWN);
  });

  it("colours on request and never lets the file speak to the terminal", () => {
    const text = 'steps:\n  - id: "a\\e[31m"\n    run: ls\n';
    const { diagnostics } = loadPipeline("p.yaml", text);
    expect(renderDiagnostics(diagnostics, text, { color: true })).toContain(
      "\x1b[1;31merror[bad-id]",
    );
    expect(renderDiagnostics(diagnostics, text, { color: false })).not.toContain("\x1b");
  });

  it("an expression that YAML reads as something else", () => {
    const text = 'steps:\n  - id: a\n    run: echo ${{ input.x ? "yes" : "no" }}\n';
    const { diagnostics } = loadPipeline("p.yaml", text);
    expect(diagnostics[0]).toMatchObject({
      rule: "yaml-syntax",
      help: expect.stringContaining("in quotes, or write it below `|`"),
    });
  });

  it("a file that is nested too deeply", () => {
    const { diagnostics } = loadPipeline("p.yaml", "[".repeat(50_000));
    expect(diagnostics[0]?.message).toContain("the file is nested too deeply");
  });

  it.each([
    ["", "1:1 empty-pipeline the file is empty"],
    ["[1]", "1:1 wrong-type the file must be a map of keys, not a list"],
    ["steps: []", "1:8 empty-pipeline the pipeline has no steps"],
    ["name: x", "1:1 missing-key `steps` is missing"],
    [
      "steps:\n  - run: echo ${{ a ? 'b' : 'c' }}",
      "2:10 yaml-syntax nested mappings are not allowed in compact mappings",
    ],
    ["a: 1\n\tb: 2", "2:1 yaml-syntax tabs are not allowed as indentation"],
    [step("    run: pwd"), "4:5 duplicate-key the key `run` is given twice"],
    [step("    env: {A: *x}"), "4:14 yaml-aliases there is no anchor `&x` above"],
    [step("    env: {__proto__: x}"), "4:11 bad-key `__proto__` cannot be a key"],
    [step("    env: {A: [1]}"), "4:14 wrong-type `A` must be a text, not a list"],
    [step("    timeout: 10"), "4:14 wrong-type `timeout` must be a text, not the number 10"],
    [step("    timeout: 900d"), "4:14 bad-duration `900d` is not a duration"],
    [step("    once: yes"), "4:11 wrong-type `once` must be true, false or an object, not a text"],
    [step("    once: {prob: x}"), "4:12 unknown-key unknown key `prob`"],
    [step("    once: {probe: 7}"), "4:19 wrong-type `probe` must be a text, not the number 7"],
    [
      step("    once: {probe: 'test ${{ outputs.b.c }}'}"),
      "4:37 unknown-step there is no step `b`",
    ],
    [
      step("    check: {run: x, file: y}"),
      "4:21 mixed-keys `file` cannot be combined with the other keys here",
    ],
    [step("    check: {fil: y, schema: {}}"), "4:13 unknown-key unknown key `fil`"],
    [
      step("    retry: []"),
      "4:12 wrong-type `retry` must be a number of attempts or an object, not a list",
    ],
    [step("    retry: {on_resume: fresch}"), "4:24 bad-value `on_resume` cannot be `fresch`"],
    [step("    outputs: {a.b: x}"), "4:15 bad-id `a.b` is not a valid id"],
    [step("    cwd: .."), "4:10 cwd-outside the directory `..` is outside of the workspace"],
    [step("    cwd: /tmp"), "4:10 cwd-outside the directory `/tmp` is outside of the workspace"],
    [step("    prompt: x"), "4:5 step-work step `a` has both `run` and `prompt`"],
    [step("    needs: a"), "4:12 self-need a step cannot wait for itself"],
    [
      step("    when: false"),
      "4:11 unreachable-step this step is always skipped, because its condition is false",
    ],
    [step("    when: x == 1"), "4:11 unknown-variable unknown variable `x`"],
    [step("    when: a ${{ b }}"), "4:13 bad-expression unexpected character: $"],
    [step("    cwd: ${{ item }}"), "4:14 unknown-variable `item` exists only inside a fan-out"],
    [
      step("    cwd: ${{ env[input.x] }}"),
      "4:14 computed-env the name after `env` must be written out",
    ],
    [step("    cwd: ${{ input.x"), "4:10 bad-template `${{` has no closing `}}`"],
    [step("  - just text"), "4:5 wrong-type `steps[1]` must be a map of keys, not a text"],
    [step("  - {id: 1b, run: ls}"), "4:10 bad-id `1b` is not a valid id"],
    [
      step("input: {type: array}"),
      "4:15 bad-json-schema the input of a pipeline is an object or a text",
    ],
    [step("input: {properties: {a-b: true}}"), "4:22 bad-name `a-b` is not a valid name"],
    [
      step("input: {propertys: {}}"),
      "4:9 bad-json-schema `propertys` is not a keyword of JSON Schema",
    ],
    [
      step("env: {X: '${{ results.a.exit }}'}"),
      "4:23 not-before a setting for all steps cannot use the result of one step",
    ],
  ])("%j", (text, expected) => {
    expect(brief(text)).toEqual([expected]);
  });

  it("finds the place in texts of every form", () => {
    const places = [
      "    cwd: plain ${{ nope }}",
      '    cwd: "tab \\t and \\u00e9 \\" ${{ nope }}"',
      "    cwd: 'it''s ${{ nope }}'",
      "    cwd: >-\n      folded\n      text ${{ nope }}",
      "    cwd: |2\n        kept\n\n      ${{\n        nope }}",
      "    cwd: plain\n      over lines ${{ nope }}",
    ];
    for (const place of places) {
      const text = step(`${place}\n`);
      const { diagnostics } = loadPipeline("p.yaml", text);
      const lines = text.split("\n");
      const shown = diagnostics.map(({ line, column }) =>
        lines[line - 1]?.slice(column - 1).slice(0, 4),
      );
      expect(shown).toEqual(["nope"]);
    }
  });
});

describe("references between steps", () => {
  const pipeline = (last: string, needs = ""): string => `steps:
  - {id: first, run: ls, outputs: {report: r.md}}
  - {id: my-step, run: ls, outputs: {ok: o}}
  - {id: aside, run: ls, needs: []}
  - id: last
    run: ${last}
${needs}`;

  it.each([
    ["ls ${{ outputs.first.report }}", "    needs: my-step", []],
    [
      "ls ${{ outputs.first.report }}",
      "",
      ["6:25 not-before step `first` may not have finished when this step starts"],
    ],
    ["ls ${{ outputs.frist.report }}", "", ["6:25 unknown-step there is no step `frist`"]],
    [
      "ls ${{ outputs.first.rapport }}",
      "    needs: first",
      ["6:31 unknown-output step `first` has no output `rapport`"],
    ],
    ["ls ${{ results.last.status }}", "", ["6:25 not-before a step cannot use its own result"]],
    [
      "ls ${{ outputs.my-step.ok }}",
      "    needs: my-step",
      ["6:17 dashed-step `outputs.my-step` reads as a subtraction"],
    ],
    ["ls ${{ outputs['my-step'].ok }}", "    needs: my-step", []],
    // A wrong `needs` is reported once, and not once more for each reference.
    [
      "ls ${{ outputs.first.report }}",
      "    needs: [frist]",
      ["7:13 unknown-need there is no step `frist` to wait for"],
    ],
  ])("%s %s", (run, needs, expected) => {
    expect(brief(pipeline(run, needs))).toEqual(expected);
  });

  it("shows circles, and who waits for them", () => {
    const text =
      "steps:\n  - {id: a, run: ls, needs: c}\n  - {id: b, run: ls}\n  - {id: c, run: ls}\n" +
      "  - {id: d, run: ls}\n";
    expect(brief(text)).toEqual([
      "2:29 cycle these steps wait for each other: a -> c -> b -> a",
      "5:10 unreachable-step step `d` never starts: it waits for steps that wait for each other",
    ]);
  });

  it("knows the keys of a closed input", () => {
    const input = "input: {type: object, additionalProperties: false, properties: {task: {}}}\n";
    expect(brief(input + step("    cwd: ${{ input.tsak }}"))).toEqual([
      "5:20 unknown-input the input has no key `tsak`",
    ]);
    expect(brief(input + step("    cwd: ${{ input.task }}"))).toEqual([]);
  });

  it("warns when two outputs share a variable", () => {
    const text =
      "steps:\n  - {id: a-b, run: ls, outputs: {c: x}}\n  - {id: a, run: ls, outputs: {b_c: x}}\n";
    expect(brief(text)).toEqual([
      "3:32 output-clash $PERDURE_OUTPUT_A_B_C stands for both `a-b.c` and `a.b_c`",
    ]);
    expect(loadPipeline("p.yaml", text).pipeline).toBeDefined();
  });
});

describe("agents", () => {
  it("need a command or an adapter, and settings that mean something to them", () => {
    const text = `agents:
  empty: { env: {} }
  plain: { command: cat, model: x }
steps:
  - { id: a, agent: plain, prompt: p, permissions: all }
  - { id: b, run: ls, max_turns: 3 }
  - { id: c, agent: claud, prompt: p }
  - { id: d, agent: gemini, prompt: p, permissions: everything }
`;
    expect(brief(text)).toEqual([
      "2:3 agent-command the agent has neither `command` nor `adapter`",
      "3:26 agent-setting `model` has no effect on an agent that is only a command",
      "5:39 agent-setting `permissions` has no effect on an agent that is only a command",
      "6:23 agent-setting `max_turns` has no effect on a step without an agent",
      "7:21 unknown-agent there is no agent `claud`",
      "8:53 bad-value `permissions` cannot be `everything`",
    ]);
  });

  it("get the settings that they understand; the rest is a mistake everywhere", () => {
    const text = `agents:
  mine: { adapter: gemini, effort: high }
defaults: { tools: { deny: [WebFetch] } }
steps:
  - { id: a, agent: codex, permissions: edit, prompt: p, on_denied: ask }
  - { id: b, agent: gemini, prompt: p, mcp: { docs: { command: docs } } }
  - { id: c, agent: claude, prompt: p, tools: { allow: ["Bash(npm test", "a b"] } }
  - { id: d, agent: claude, prompt: p, mcp: gone.json }
  - { id: e, agent: claude, prompt: p, mcp: { docs: { comand: x } }, effort: hihg }
  - { id: f, agent: codex, tools: {}, prompt: p }
`;
    expect(brief(text)).toEqual([
      "2:28 agent-setting `effort` has no effect on gemini: it has no such setting",
      "3:13 agent-setting `tools` has no effect on codex, which step `a` uses: " +
        "its sandbox decides by files and network, not by tool",
      "5:58 agent-setting `on_denied` has no effect on codex: " +
        "it does not report what its sandbox denied",
      "6:40 agent-setting `mcp` has no effect on gemini: it takes servers only from its own settings",
      "7:57 bad-tool `Bash(npm test` does not name a tool",
      "7:74 bad-tool `a b` does not name a tool",
      "8:45 mcp-file there is no file `gone.json`",
      "9:55 unknown-key unknown key `comand`",
      "9:78 bad-value `effort` cannot be `hihg`",
      "10:21 read-only-agent step `f` cannot change files: by default, codex works in a read-only sandbox",
      "10:28 agent-setting `tools` has no effect on codex: " +
        "its sandbox decides by files and network, not by tool",
    ]);
  });

  const agent = (body: string, head = ""): string => `${head}steps:\n  - id: a\n${body}`;
  const asks = (body: string): string => agent(`    agent: claude\n    prompt: p\n${body}`);

  it.each([
    [agent("    prompt: p"), "3:5 step-work step `a` has a `prompt` but no agent"],
    [agent("    agent: claude"), "3:5 step-work step `a` names an agent but has no `prompt`"],
    [
      agent("    run: ls\n    prompt: p", "defaults: {agent: claude}\n"),
      "5:5 step-work step `a` has both `run` and `prompt`",
    ],
    [
      agent("    prompt: p", "defaults: {agent: claud}\n"),
      "1:19 unknown-agent there is no agent `claud`",
    ],
    // The kind of an agent is unknown while `agents` itself is wrong.
    [
      agent("    prompt: p", "agents: []\ndefaults: {agent: mine}\n"),
      "1:9 wrong-type `agents` must be a map of keys, not a list",
    ],
    [
      agent(
        "    agent: x\n    prompt: p\n    model: m",
        "agents: {x: {adapter: claude, args: 1}}\n",
      ),
      "1:37 wrong-type `args` must be a list, not the number 1",
    ],
    [
      asks("    relay: {at: 100%}"),
      "5:17 bad-share `100%` is neither a number of tokens nor a share from 1% to 99%",
    ],
    [
      asks("    relay: {at: much}"),
      "5:17 bad-share `much` is neither a number of tokens nor a share from 1% to 99%",
    ],
    [
      asks("    relay: {at: 0.7}"),
      "5:17 wrong-type `at` must be a number of tokens or a share such as 70%, not the number 0.7",
    ],
    [asks("    relay: {at: 999}"), "5:17 out-of-range `at` must be at least 1000"],
    [asks("    relay: {}"), "5:12 missing-key `at` is missing"],
    [asks("    relay: 70%"), "5:12 wrong-type `relay` must be a map of keys, not a text"],
    [
      asks("    output_schema: {type: objekt}"),
      "5:27 bad-json-schema `objekt` is not a type of JSON Schema",
    ],
    [asks("    output_schema: text"), "5:20 schema-file there is no file `text`"],
    [
      agent("    run: ls", "defaults: {output_schema: {type: objekt}}\n"),
      "1:34 bad-json-schema `objekt` is not a type of JSON Schema",
    ],
    [
      agent("    run: ls", "agents: {x: {adapter: claude, output_schema: {propertys: {}}}}\n"),
      "1:47 bad-json-schema `propertys` is not a keyword of JSON Schema",
    ],
    [asks("    session: a b"), "5:14 bad-id `a b` is not a valid id"],
    [asks("    recover: maybe"), "5:14 bad-value `recover` cannot be `maybe`"],
    [asks("    grace: 5"), "5:12 wrong-type `grace` must be a text, not the number 5"],
    [asks("    isolate: 1"), "5:14 wrong-type `isolate` must be true or false, not the number 1"],
  ])("%j", (text, expected) => {
    expect(brief(text)).toEqual([expected]);
  });

  it("take no settings of a conversation where there is none, which is reported once", () => {
    const text = `agents: { plain: cat }
steps:
  - { id: a, run: ls, session: s, output_schema: {}, relay: { at: 70% } }
  - { id: b, agent: plain, prompt: p, session: s, output_schema: {}, relay: { at: 70% } }
  - { id: c, run: ls, retry: { conversation: fresh } }
`;
    expect(brief(text)).toEqual([
      "3:23 agent-setting `session` has no effect on a step without an agent",
      "3:35 agent-setting `output_schema` has no effect on a step without an agent",
      "3:54 agent-setting `relay` has no effect on a step without an agent",
      "4:39 agent-setting `session` has no effect on an agent that is only a command",
      "4:51 agent-setting `output_schema` has no effect on an agent that is only a command",
      "4:70 agent-setting `relay` has no effect on an agent that is only a command",
      "5:32 agent-setting `conversation` has no effect on a step without a conversation",
    ]);
  });
});

describe("briefings", () => {
  const steps = (...lines: readonly string[]): string =>
    `agents: {plain: cat}\nsteps:\n${lines.map((line) => `  - {id: ${line}}\n`).join("")}`;
  const ask = "agent: claude, prompt: p";

  it.each([
    [steps(`a, ${ask}, fidelity: full, thread: t`, `b, ${ask}, resume_fidelity: truncate`), []],
    [steps("a, agent: plain, prompt: p, fidelity: compact"), []],
    [steps(`a, ${ask}, edges: [{to: b, fidelity: full}]`, `b, ${ask}, thread: t`), []],
    [steps(`a, ${ask}, fidelity: much`), ["3:49 bad-value `fidelity` cannot be `much`"]],
    [steps(`a, ${ask}, thread: a b`), ["3:47 bad-id `a b` is not a valid id"]],
    [
      steps(`a, ${ask}, resume_fidelity: full`),
      ["3:56 bad-value `resume_fidelity` cannot be `full`"],
    ],
    [
      `defaults: {fidelity: all}\n${steps("a, run: ls")}`,
      ["1:22 bad-value `fidelity` cannot be `all`"],
    ],
    [
      steps("a, run: ls, fidelity: full, thread: t, resume_fidelity: compact"),
      [
        "3:22 agent-setting `fidelity` has no effect on a step without an agent",
        "3:38 agent-setting `thread` has no effect on a step without an agent",
        "3:49 agent-setting `resume_fidelity` has no effect on a step without an agent",
      ],
    ],
    [
      steps("a, agent: plain, prompt: p, fidelity: full, thread: t"),
      [
        "3:38 agent-setting an agent that is only a command has no conversation to continue",
        "3:54 agent-setting `thread` has no effect on an agent that is only a command",
      ],
    ],
    [
      steps(`a, ${ask}, session: s, thread: t, fidelity: full`),
      ["3:51 agent-setting step `a` has both `session` and `thread`"],
    ],
    [
      steps(`a, ${ask}, thread: t`),
      ["3:39 unused-thread the thread of step `a` is never used: it is for `fidelity: full`"],
    ],
    [
      steps(`a, ${ask}, edges: [{to: b, fidelity: compact, thread: t}]`, "b, run: ls"),
      [
        "3:55 agent-setting `fidelity` has no effect on step `b`, which has no agent",
        "3:74 agent-setting `thread` has no effect on step `b`, which has no agent",
      ],
    ],
    [
      steps(`a, ${ask}, edges: [{to: a, fidelity: none}]`),
      ["3:65 bad-value `fidelity` cannot be `none`"],
    ],
    [
      steps("a, fidelity: full, steps: [{id: b, run: ls}]"),
      ["3:13 body-setting `fidelity` has no effect on a step that contains steps"],
    ],
  ])("%j", (text, expected) => {
    expect(brief(text)).toEqual(expected);
  });
});

describe("prompts in files", () => {
  const text = "steps:\n  - {id: a, agent: claude, prompt_file: ask.md}\n";

  it.each([
    [{}, ["2:41 prompt-file there is no file `ask.md`"]],
    [{ "ask.md": " \n" }, ["2:41 prompt-file the file `ask.md` is empty"]],
    [
      { "ask.md": "One.\nTwo ${{ inptu.x }}\n\n${{ results.b.exit }}\n" },
      [
        "2:41 unknown-variable ask.md, line 2: unknown variable `inptu`",
        "2:41 unknown-step ask.md, line 4: there is no step `b`",
      ],
    ],
    [
      { "ask.md": "One.\n${{ input.x" },
      ["2:41 bad-template ask.md, line 2: `${{` has no closing `}}`"],
    ],
    [{ "ask.md": "Do ${{ input.x }}" }, []],
  ])("%j", (files, expected) => {
    expect(brief(text, files)).toEqual(expected);
  });

  it("stand in the place of a prompt", () => {
    const both = text.replace("prompt_file", "prompt: p, prompt_file");
    expect(brief(both, { "ask.md": "p" })).toEqual([
      "2:39 step-work step `a` has both `prompt` and `prompt_file`",
    ]);
    const nobody = text.replace("agent: claude, ", "");
    expect(brief(nobody, { "ask.md": "p" })).toEqual([
      "2:13 step-work step `a` has a `prompt_file` but no agent",
    ]);
  });
});

describe("shared sessions", () => {
  const steps = (...lines: readonly string[]): string =>
    `steps:\n${lines.map((line) => `  - {prompt: p, session: s, ${line}}\n`).join("")}`;

  it.each([
    [steps("id: a, agent: claude", "id: b, agent: claude", "id: c, agent: claude"), []],
    [`defaults: {agent: claude}\n${steps("id: a", "id: b, agent: claude")}`, []],
    [
      steps("id: a, agent: claude", "id: b, agent: gemini"),
      ["3:26 shared-session steps `a` and `b` share a session but not an agent"],
    ],
    [
      steps("id: a, agent: claude", "id: b, agent: claude, needs: []"),
      ["3:26 shared-session steps `a` and `b` share a session but may run at the same time"],
    ],
    [
      steps("id: a, agent: claude", "id: b, agent: claude", "id: c, agent: claude, needs: a"),
      ["4:26 shared-session steps `b` and `c` share a session but may run at the same time"],
    ],
    [
      steps("id: a, agent: claude, needs: b", "id: b, agent: claude, needs: []"),
      ["3:26 shared-session steps `a` and `b` share a session but run in reverse order"],
    ],
  ])("%j", (text, expected) => {
    expect(brief(text)).toEqual(expected);
  });

  it("say what to do", () => {
    expect(drawn(steps("id: a, agent: claude", "id: b, agent: claude, needs: []"))).toContain(
      "  = help: add `needs: a` to `b`\n",
    );
    const turned = steps("id: a, agent: claude, needs: b", "id: b, agent: claude, needs: []");
    expect(drawn(turned)).toContain("  = help: put `b` above it\n");
  });
});
