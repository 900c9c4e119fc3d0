/**
 * The pipelines of the crash tests. Each step adds a line to the file `effects`, so
 * that the world can tell how often it ran; paths are relative, so that every project has the same
 * text and the same plan.
 */

export interface CrashPipeline {
  readonly name: string;
  readonly text: string;
  /** Arguments of `run` behind the file. */
  readonly args?: readonly string[];
  /** Arguments of `run` and of every resume. */
  readonly always?: readonly string[];
  /** Steps run at the same time, so only the order of each step's own events is certain. */
  readonly parallel?: boolean;
}

/** What becomes of files is walked through in workspace.test.ts. */
const PLAIN = "workspace: { snapshots: false }";

export const SEQUENTIAL: CrashPipeline = {
  name: "sequential",
  args: ["--input", "who=it's you"],
  text: `${PLAIN}
input: { type: object, properties: { who: { type: string } } }
steps:
  - id: write
    run: |
      echo write >> effects
      printf 'hello %s' \${{ input.who }} > "$PERDURE_OUTPUT_TEXT"
      echo "letters=$(($(wc -c < "$PERDURE_OUTPUT_TEXT")))" >> "$PERDURE_CONTEXT"
    outputs: { text: out/text }
  - id: read
    run: |
      echo read \${{ context.letters }} >> effects
      cat \${{ outputs.write.text }} | tee copy
      printf '{"copied": [1, true]}' > "$PERDURE_CONTEXT"
  - id: tell
    env: { BEFORE: "\${{ results.read.status }} \${{ context.copied[0] }}" }
    run: echo "tell $BEFORE" >> effects
`,
};

const PARALLEL: CrashPipeline = {
  name: "parallel",
  parallel: true,
  text: `${PLAIN}
max_parallel: 2
steps:
  - id: left
    needs: []
    run: |
      echo left >> effects
      echo left > "$PERDURE_OUTPUT_SIDE"
    outputs: { side: out/left }
  - id: middle
    needs: []
    run: |
      echo middle >> effects
      echo middle=2 >> "$PERDURE_CONTEXT"
  - id: right
    needs: []
    run: |
      echo right >> effects
      echo right=3 >> "$PERDURE_CONTEXT"
  - id: join
    needs: [left, middle, right]
    run: |
      echo join >> effects
      cat "$PERDURE_OUTPUT_LEFT_SIDE"
      echo \${{ context.middle }} \${{ context.right }} > joined
`,
};

export const RETRYING: CrashPipeline = {
  name: "retrying",
  text: `${PLAIN}
steps:
  - id: flaky
    run: |
      echo flaky >> effects
      test $(grep -c flaky effects) -ge 3
    retry: { attempts: 3, backoff: 1ms }
  - id: after
    run: echo after >> effects
`,
};

const FAILING: CrashPipeline = {
  name: "failing",
  text: `${PLAIN}
steps:
  - id: good
    run: echo good >> effects
  - id: bad
    run: |
      echo bad >> effects
      exit 9
    retry: { attempts: 2, backoff: 1ms, on_resume: keep }
  - id: never
    run: echo never >> effects
`,
};

const CHECKING: CrashPipeline = {
  name: "checking",
  text: `${PLAIN}
steps:
  - id: tested
    run: echo tested >> effects
    check: |
      echo looking
      test $(grep -c tested effects) -ge 2
    retry: { attempts: 2, backoff: 1ms }
  - id: described
    run: |
      echo described >> effects
      echo '{"count": 1}' > facts.json
    check:
      - file: facts.json
        schema: { type: object, required: [count], properties: { count: { type: integer } } }
      - { run: "echo doubtful; exit 4", on_fail: warn }
      - echo looking again
`,
};

const SKIPPING: CrashPipeline = {
  name: "skipping",
  text: `${PLAIN}
steps:
  - id: choose
    run: |
      echo choose >> effects
      echo wanted=no >> "$PERDURE_CONTEXT"
  - id: unwanted
    when: context.wanted == "yes"
    run: echo unwanted >> effects
  - id: last
    run: echo last >> effects
`,
};

/** Comes to `test` three times: after its own failure, and because the goal is not reached. */
const JUMPING: CrashPipeline = {
  name: "jumping",
  text: `
${PLAIN}
steps:
  - id: test
    run: |
      echo test-$PERDURE_VISIT >> effects
      test "$PERDURE_VISIT" -ge 2
    on_failure: test
  - id: proof
    when: run.visit == 2
    run: echo proof >> effects
    goal: true
    retry_target: test
`,
};

/** A loop in a group in a fan-out: two iterations for the first item; the second one fails. */
const NESTING: CrashPipeline = {
  name: "nesting",
  text: `
${PLAIN}
steps:
  - id: each
    for_each: { in: ["a", "b"], max_parallel: 1, on_item_failure: continue }
    steps:
      - id: group
        input: { word: "\${{ item }}" }
        steps:
          - id: again
            loop: { until: context.round == "1", max_iterations: 3 }
            steps:
              - id: turn
                run: |
                  echo \${{ input.word }}-\${{ loop.index }} >> effects
                  test "$PERDURE_ITEM" = a
                  echo "round=$PERDURE_INDEX" >> "$PERDURE_CONTEXT"
`,
};

/** Time passes, a person is asked, and each answer leads somewhere else. */
const ASKING: CrashPipeline = {
  name: "asking",
  always: ["--auto-approve"],
  text: `${PLAIN}
steps:
  - { id: pause, wait: 1ms }
  - id: approve
    gate: { ask: "Ship it?", timeout: 1h, default: reject }
    edges: [{ to: ship, label: "[S] Ship" }, { to: fix, label: reject }]
  - { id: fix, run: echo fix >> effects }
  - id: ship
    run: echo ship \${{ results.approve.answer.label }} >> effects
`,
};

export const PIPELINES = [
  ...[SEQUENTIAL, PARALLEL, RETRYING, FAILING, CHECKING, SKIPPING],
  ...[JUMPING, NESTING, ASKING],
];
