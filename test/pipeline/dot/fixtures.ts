/**
 * Pipelines as people really write them: raw line ends in texts, missing commas and semicolons, odd
 * escapes, custom outcomes, subgraphs, stylesheets, other engines' words. All of them can be run.
 */

export interface DotFixture {
  readonly name: string;
  readonly text: string;
}

const PLAIN = `digraph plain {
    graph [goal="Say hello in three languages"]
    rankdir=LR

    start [shape=Mdiamond, label="Start"]
    exit  [shape=Msquare, label="Exit"]

    plan      [label="Plan", prompt="Plan how to reach: $goal", timeout=900s]
    implement [label="Implement", prompt="Follow the plan", max_retries=2, goal_gate=true, retry_target=plan]
    check     [shape=parallelogram, label="Check", tool_command="make test", timeout=15m]

    start -> plan -> implement -> check
    check -> exit      [condition="outcome=success", label="ok"]
    check -> implement [condition="outcome=fail", label="broken", weight=5]
}
`;

const RAW_LINES = `// Texts that go over many lines, as an editor leaves them.
digraph RawLines {
  graph [
    goal="Port the parser",
    model_stylesheet="
      * { llm_model: small-1; llm_provider: acme; reasoning_effort: low; }
      box { reasoning_effort: medium; }
      .review { llm_model: large-2; }
      #final { llm_model: \\"large-3\\"; reasoning_effort: high }
    "
  ];
  Start [shape=Mdiamond]; Exit [shape=Msquare];

  Port [
    shape=box,
    prompt="Read the notes.

Steps:
1. Find what is \\"missing\\"
2. Write it\\tdown

Do not touch:\\n- the tests"
  ]
  Verify [shape=parallelogram, tool_command="set -eu
if grep -qE '^\\s*\\[x\\]' todo.md; then
  printf 'done'
else
  printf 'open' | sed 's/\\./-/' \\
    | tr a-z A-Z
fi"]
  Look [class="review,careful" prompt="Look at it"]
  final [prompt="Last words"]

  Start -> Port -> Verify
  Verify -> Look [condition="context.tool.output=done && outcome=success"]
  Verify -> Port [condition="context.tool.output!=done"]
  Look -> final -> Exit
}
`;

const NO_COMMAS = `digraph "no-commas" {
  goal = "Do it"
  node [shape=box timeout="300"]
  edge [weight=1]
  start [
    shape=Mdiamond
    label="Start"
  ];
  exit [ shape=Msquare label="Exit" ];
  a [ label="A" prompt="Do a" fidelity=summary:high ];
  b [ prompt="Do b"; max_retries = 1; ]
  start -> a [ ];
  a -> b [ label="on" weight=3 ]
  b -> exit
}
`;

const SUBGRAPHS = `digraph subgraphs {
  start [shape=Mdiamond]
  done [shape=Msquare]
  node [timeout=10m]

  subgraph cluster_loop {
    label = "Code Review!"
    node [thread_id="loop", timeout=20m]
    edge [fidelity=full]
    write [prompt="Write"]
    subgraph {
      graph [label="Deep  Look"]
      look [prompt="Look", class="sharp"]
    }
    write -> look
  }
  after [prompt="Sum up"]
  fan [shape=component, join_policy=first_success, max_parallel=2]
  join [shape=tripleoctagon]

  start -> write
  look -> fan -> { left [prompt="l"] right [prompt="r"] } -> join -> after -> done
}
`;

const PEOPLE = `digraph people {
  start [shape=Mdiamond]
  exit [shape=Msquare]
  draft [prompt="Draft"]
  ask [shape=hexagon, label="Ship it?", human.default_choice="ship", timeout=1h]
  route [shape=diamond, label="Sure?"]
  ship [shape=parallelogram, tool_command="true"]
  watch [shape=house, stack.child_dotfile="child.dot", manager.poll_interval=250ms,
         manager.max_cycles=3, manager.stop_condition="context.stack.child.status=done",
         manager.actions="observe, steer"]

  start -> draft -> ask
  ask -> ship  [label="[S] Ship"]
  ask -> draft [label="F) Fix", loop_restart=true]
  ask -> watch [label="W - Wait"]
  watch -> ship
  ship -> route
  route -> exit  [condition="outcome!=fail"]
  route -> draft [condition="outcome=fail && context.failure_class=transient"]
}
`;

const DIALECT = `digraph dialect {
  graph [goal="Other engines' words" default_max_retry=3 target_dir="out" context_fidelity_default=truncate]
  start [shape=Mdiamond]
  exit [shape=Msquare]
  sort [shape=tab, llm_prompt="Sort these", model="small-1", max_visits=4]
  test [shape=parallelogram, script="cargo test"]
  observe [node_type="stack.observe", shape=ellipse, prompt="Look on", is_codergen=true]
  start -> sort
  sort -> test    [condition="outcome=needs_dod"]
  sort -> observe [condition="outcome=has_dod"]
  test -> exit    [condition="outcome=succeeded"]
  test -> sort    [condition="outcome=failed || context.tries >= 3", restart=true]
  observe -> exit [condition="context.last_response contains READY"]
  observe -> sort [condition="tool_stdout startswith \\"no-\\""]
}
`;

const COMMENTS = `\uFEFF#!/usr/bin/env perdure\r
# a line for the preprocessor\r
/* over\r
   lines */ digraph comments { // behind a brace\r
  start [shape=Mdiamond /* inside */, label="http://not/a/comment"]\r
  exit [shape=Msquare, color=#ff0000]\r
  say [prompt="one\r
two"]\r
  start->say->exit; // no blanks\r
}\r
`;

export const FIXTURES: readonly DotFixture[] = [
  { name: "plain", text: PLAIN },
  { name: "raw lines", text: RAW_LINES },
  { name: "no commas", text: NO_COMMAS },
  { name: "subgraphs", text: SUBGRAPHS },
  { name: "people", text: PEOPLE },
  { name: "dialect", text: DIALECT },
  { name: "comments", text: COMMENTS },
];

/** The text of a fixture. */
export function fixture(name: string): string {
  const found = FIXTURES.find((one) => one.name === name);
  if (found === undefined) throw new Error(`there is no fixture ${name}`);
  return found.text;
}
