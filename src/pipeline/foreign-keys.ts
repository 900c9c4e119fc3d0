/**
 * Keys that other systems have (GitHub Actions, GitLab, Airflow, Compose, Argo, Wave, Prodigy), and
 * the key of Perdure for the same purpose.
 *
 * Owns: the hint for each of them.
 */

/** Our key, and what to write. */
interface ForeignKey {
  readonly ours: string;
  readonly help: string;
}

/** The hint of a key, where `known` are the keys that are allowed there. */
export function foreignKey(key: string, known: readonly string[]): ForeignKey | undefined {
  const name = key.toLowerCase().replaceAll("-", "_");
  const meant = FOREIGN.find(([words, ours]) => words.includes(name) && known.includes(ours));
  if (meant === undefined) return undefined;
  const [, ours, form] = meant;
  return { ours, help: form };
}

/** The words of others, our key, and the form in which it is written. */
const FOREIGN: readonly (readonly [words: readonly string[], ours: string, help: string])[] = [
  [["if", "condition", "only_if", "when_expr"], "when", "write `when: context.size == 'big'`"],
  [["unless", "skip_if"], "when", "write `when:` with the opposite condition"],
  [
    ["depends_on", "dependson", "depends", "dependencies", "after", "upstream", "requires"],
    "needs",
    "write `needs: [build]`: the steps that must complete before this one",
  ],
  [["uses"], "run", "there are no actions: write `run:`, or `pipeline:` for another pipeline"],
  [["with", "params", "parameters", "args"], "env", "write `env:`, or `input:` for a sub-pipeline"],
  [["name", "title", "label"], "id", "a step is named by its `id`"],
  [["description", "comment"], "id", "write a comment: `# ...`"],
  [
    ["command", "cmd", "script", "shell", "bash", "exec", "test"],
    "run",
    "write `run:` with the shell command",
  ],
  [["claude", "codex", "gemini", "persona"], "agent", "write `agent: claude` and `prompt: ...`"],
  [["retries", "max_retries", "max_attempts", "attempts"], "retry", "write `retry: 3`"],
  [["timeout_minutes", "time_limit", "max_duration"], "timeout", "write `timeout: 5m`"],
  [
    ["continue_on_error", "allow_failure", "ignore_errors"],
    "on_failure",
    "write `on_failure: continue`",
  ],
  [
    ["on_error", "catch", "rescue"],
    "on_failure",
    "write `on_failure:` and the step that handles it",
  ],
  [["working_directory", "workdir", "working_dir", "dir"], "cwd", "write `cwd: packages/app`"],
  [
    ["strategy", "matrix", "with_items", "map", "parallel_for"],
    "for_each",
    "write `for_each: [a, b]` and `steps:`; each item is `${{ item }}`",
  ],
  [["environment", "variables", "vars"], "env", "write `env: { NAME: value }`"],
  [
    ["concurrency", "parallelism", "max_workers", "parallel"],
    "max_parallel",
    "write `max_parallel: 4`",
  ],
  [["artifacts", "output", "produces"], "outputs", "write `outputs: { report: report.md }`"],
  [["approval", "approve", "manual", "confirm"], "gate", 'write `gate: "Ship it?"`'],
  [["sleep", "delay"], "wait", "write `wait: 10m`"],
  [["validate", "assert", "verify"], "check", "write `check:` with a command that must succeed"],
  [["contract"], "output_schema", "write `output_schema:` with a JSON schema"],
  [["workflow", "subpipeline", "include", "call"], "pipeline", "write `pipeline: other.yaml`"],
  [["max_iterations"], "max_visits", "write `max_visits: 5`"],
  [["conversation", "memory", "context_from"], "session", "write `session: main`"],
  [
    ["jobs", "stages", "tasks", "nodes", "workflow", "pipeline"],
    "steps",
    "list all steps under `steps:`, and connect them with `needs:`",
  ],
  [
    ["schedule", "triggers", "trigger"],
    "steps",
    'a run starts with `perdure run`, or by `on: {schedule: "0 3 * * *"}`',
  ],
  [["inputs", "parameters", "params"], "input", "write `input:` with a JSON schema"],
];
