/**
 * Lowers the work of a DOT node to work of the plan.
 *
 * Owns: the handlers of the language, the defaults of steps, retries and timeouts; the question and
 * the choices of a `wait.human` node, which are the edges that leave it.
 * Does not: lower edges (attractor/graph.ts) or choose agents (attractor/agent.ts).
 */

import type { DotEdge, DotNode, DotPipeline, DotSettings } from "../../pipeline/dot/model.ts";
import { choiceNamed, choiceOf } from "../../util/choice.ts";
import { defined } from "../../util/defined.ts";
import type {
  Backoff,
  Choice,
  GateWork,
  PipelineWork,
  PlanReading,
  RetryPolicy,
  Step,
  Work,
} from "../plan.ts";
import type { DotAgents } from "./agent.ts";
import { expandVariables, fromInput, literal, statusWords, unknownVariables } from "./prompt.ts";
import { type EdgeIndex, hasBranches, type Region } from "./regions.ts";
import type { DotReport } from "./report.ts";

/** A DOT file and everything that lowering it needs. */
export interface DotLowering {
  readonly pipeline: DotPipeline;
  readonly settings: DotSettings;
  readonly edgeIndex: EdgeIndex;
  readonly reading: PlanReading;
  readonly agents: DotAgents;
  readonly report: DotReport;
  /** The directory of its steps, relative to the workspace. */
  readonly cwd?: string;
  /** The text of a file whose name is relative to this one. */
  readonly readText: (name: string) => string | undefined;
  /** Another DOT file as work, or a text with the reason why it cannot run. */
  readonly child: (name: string, cwd: string | undefined) => PipelineWork | string;
  /** The name of a node's step: not every name of a node is a valid name of a step. */
  readonly stepId: (node: string) => string;
  /** The name of the step that stands for a node outside of the branch. */
  readonly endId: (node: string) => string;
}

/** How many times a run may visit a step. */
export const ATTRACTOR_VISITS_MAX = 100;

const ATTRACTOR_RETRY: RetryPolicy = {
  attempts: 1,
  on: "retry",
  backoff: { initialMs: 200, factor: 2, maxMs: 60_000, jitter: 0.5 },
  onResume: "keep",
};

const { backoff: BACKOFF } = ATTRACTOR_RETRY;

/** The named policies of the language. */
const RETRY_PRESETS: Readonly<
  Record<string, { readonly attempts: number; readonly backoff: Backoff }>
> = {
  none: { attempts: 1, backoff: BACKOFF },
  standard: { attempts: 5, backoff: BACKOFF },
  aggressive: { attempts: 5, backoff: { ...BACKOFF, initialMs: 500 } },
  linear: { attempts: 3, backoff: { ...BACKOFF, initialMs: 500, factor: 1 } },
  patient: { attempts: 3, backoff: { ...BACKOFF, initialMs: 2_000, factor: 3 } },
};

/** Attributes of a manager that polls its child; here the child runs to its end. */
const POLLING = [
  "manager.poll_interval",
  "manager.max_cycles",
  "manager.stop_condition",
  "manager.actions",
];

/** The limit of PERDURE_NODE_ATTRIBUTES, which a command for a custom type receives. */
const ATTRIBUTES_BYTES_MAX = 64 * 1024;

/** The fields of a step that follow from the work of its node. */
type NodeWork = Pick<Step, "work" | "env" | "retry"> &
  Partial<Pick<Step, "cwd" | "timeoutMs" | "allowPartial" | "fidelity" | "thread" | "threadGroup">>;

/** A step with the defaults of the language. */
export function plainStep(id: string, work: Work, visitsMax: number): Step {
  return {
    id,
    join: "any",
    split: "one",
    work,
    env: {},
    retry: ATTRACTOR_RETRY,
    outputs: {},
    once: false,
    visitsMax,
    stallAfter: stallAfter(visitsMax),
  };
}

/** Lowers the work of nodes; the caller lowers branches. */
export class DotWork {
  readonly #lowering: DotLowering;
  readonly #branches: (node: DotNode, region: Region) => Work;

  constructor(lowering: DotLowering, branches: (node: DotNode, region: Region) => Work) {
    this.#lowering = lowering;
    this.#branches = branches;
  }

  /** The work of a node with its own settings. */
  of(node: DotNode, region: Region): NodeWork {
    const { cwd } = this.#lowering;
    const work = this.#work(node, region);
    const runs = work.kind === "shell" || work.kind === "agent";
    const timed = node.timeoutMs !== undefined && runs;
    return {
      work,
      env: runs ? this.#env(node) : {},
      retry: canRetry(work) ? this.#retry(node, work) : ATTRACTOR_RETRY,
      ...(cwd === undefined || !runs ? {} : { cwd }),
      ...(timed ? { timeoutMs: node.timeoutMs } : {}),
      ...(node.allowPartial ? { allowPartial: true } : {}),
      ...(work.kind === "agent" ? briefingOf(node) : {}),
    };
  }

  #work(node: DotNode, region: Region): Work {
    const { edgeIndex } = this.#lowering;
    const command = handlerOf(node, this.#lowering);
    if (command !== undefined) return { kind: "shell", run: literal(command) };
    switch (node.handler) {
      case "start":
      case "exit":
      case "conditional":
        return { kind: "pass" };
      case "codergen":
        return this.#agent(node, "");
      case "tool":
        return this.#tool(node);
      case "parallel":
        return hasBranches(edgeIndex, node) ? this.#branches(node, region) : { kind: "pass" };
      case "parallel.fan_in":
        return node.prompt === undefined ? { kind: "pick" } : this.#agent(node, RESULTS);
      case "wait.human":
        return gateOf(node, this.#lowering);
      case "stack.manager_loop":
        return this.#child(node);
    }
  }

  #agent(node: DotNode, more: string): Work {
    const { agents, report, pipeline } = this.#lowering;
    const prompt = this.#prompt(node);
    for (const name of unknownVariables(prompt, pipeline.attributes)) {
      const message = `nothing here is called \`$${name}\`; it is filled in from the input, or stays`;
      const place = node.attributes.get("prompt")?.value.span ?? node.span;
      report.warn(place, "unknown-variable", message, `give it: perdure run FILE -i ${name}=...`);
    }
    const asked = literal(statusWords(prompt, this.#edgesAfter(node)));
    const text = `${expandVariables(prompt, pipeline.attributes)}${more}${asked}`;
    return agents.work(node, pipeline, text, report);
  }

  /** A prompt may be in a file of its own: `prompt_file`, or `prompt="@file"`. */
  #prompt(node: DotNode): string {
    const { promptFile, prompt, label } = node;
    const named = promptFile ?? (/^@\S+$/.test(prompt ?? "") ? prompt?.slice(1) : undefined);
    if (named === undefined) return prompt ?? label;
    const text = this.#lowering.readText(named);
    if (text !== undefined) return text;
    const place = node.attributes.get(promptFile === undefined ? "prompt" : "prompt_file");
    const message = `there is no file ${named} with a prompt; its name is all that the agent gets`;
    this.#lowering.report.warn(place?.value.span ?? node.span, "prompt-file", message);
    return prompt ?? label;
  }

  /** The edges that test the outcome of a node, also those of a diamond after it. */
  #edgesAfter(node: DotNode): readonly DotEdge[] {
    const { edgeIndex } = this.#lowering;
    return edgeIndex.outgoing(node.id).flatMap((edge) => {
      const target = edgeIndex.nodes.get(edge.to);
      return target !== undefined && passesOn(target, this.#lowering)
        ? [edge, ...edgeIndex.outgoing(edge.to)]
        : [edge];
    });
  }

  #tool(node: DotNode): Work {
    if (node.toolCommand !== undefined) return { kind: "shell", run: literal(node.toolCommand) };
    const message = `\`${node.id}\` has no \`tool_command\`; it does nothing`;
    this.#lowering.report.warn(node.span, "tool-command", message, 'add `tool_command="..."`');
    return { kind: "pass" };
  }

  /** The child of a manager; it runs as a part of this pipeline. */
  #child(node: DotNode): Work {
    const { report, settings } = this.#lowering;
    const file = node.childDotfile ?? settings.childDotfile;
    const cwd = node.childWorkdir ?? settings.childWorkdir;
    if (file === undefined) {
      const message = `\`${node.id}\` has no pipeline to look after; it does nothing`;
      report.warn(node.span, "manager-child", message, 'add `stack.child_dotfile="..."`');
      return { kind: "pass" };
    }
    if (!node.childAutostart) {
      const place = node.attributes.get("stack.child_autostart")?.span ?? node.span;
      const message = `nothing else starts the pipeline of \`${node.id}\`, so it does nothing`;
      report.warn(place, "manager-child", message, "take `stack.child_autostart=false` out");
      return { kind: "pass" };
    }
    for (const name of POLLING.filter((one) => node.attributes.has(one))) {
      const message = `the pipeline of \`${node.id}\` is run to its end; \`${name}\` does nothing`;
      report.warn(node.attributes.get(name)?.span ?? node.span, "unsupported", message);
    }
    const work = this.#lowering.child(file, cwd);
    if (typeof work !== "string") return work;
    const place = node.attributes.get("stack.child_dotfile")?.value.span ?? node.span;
    report.error(place, "manager-child", `${file} cannot be run: ${work}`);
    return { kind: "pass" };
  }

  #env(node: DotNode): Readonly<Record<string, string>> {
    const custom = handlerOf(node, this.#lowering) === undefined ? {} : attributesOf(node);
    const { attributes, settings } = this.#lowering.pipeline;
    const names = (attributes.get("params")?.value.text ?? "")
      .split(",")
      .map((name) => name.trim());
    const params = names.filter((name) => /^[a-z_]\w*$/i.test(name));
    const given = Object.fromEntries(params.map((name) => [name, fromInput(name, "")]));
    return { ...given, goal: literal(settings.goal), ...custom };
  }

  #retry(node: DotNode, work: Work): RetryPolicy {
    const { settings, report } = this.#lowering;
    const preset = node.retryPreset === undefined ? undefined : RETRY_PRESETS[node.retryPreset];
    if (node.retryPreset !== undefined && preset === undefined) {
      const place = node.attributes.get("retry_preset")?.value.span ?? node.span;
      const message = `there is no retry preset \`${node.retryPreset}\`; it is ignored`;
      report.warn(
        place,
        "attribute-value",
        message,
        `there are ${Object.keys(RETRY_PRESETS).join(", ")}`,
      );
    }
    const retries =
      node.maxRetries ?? (preset === undefined ? settings.defaultMaxRetries : undefined);
    // A tool rarely reports `retry`, so an author who gives it retries wants failures retried.
    const asked = work.kind === "shell" && node.maxRetries !== undefined;
    return {
      attempts: retries === undefined ? (preset?.attempts ?? 1) : retries + 1,
      on: asked ? "any" : "retry",
      backoff: preset?.backoff ?? BACKOFF,
      onResume: "keep",
    };
  }
}

/** The question of a node. */
function gateOf(node: DotNode, lowering: DotLowering): GateWork {
  const { edgeIndex, pipeline } = lowering;
  const edges = edgeIndex.outgoing(node.id);
  // An edge without a label is labelled with the name of its target in the file.
  const choices = edgeChoices(edges.map(({ label, to }) => ({ label: label ?? to, to })));
  const named = choices.map(({ next, ...choice }) =>
    next === undefined ? choice : { ...choice, next: lowering.stepId(next) },
  );
  const otherwise = defaultOf(node, choices, lowering);
  return {
    kind: "gate",
    ask: expandVariables(node.label, pipeline.attributes),
    choices: named,
    text: "optional",
    ...defined({ timeoutMs: node.timeoutMs }),
    ...(otherwise === undefined || node.timeoutMs === undefined ? {} : { default: otherwise }),
  };
}

/** The edge that `human.default_choice` names: by its target, its key or its label. */
function defaultOf(
  { id, humanDefaultChoice, attributes, span, timeoutMs }: DotNode,
  choices: readonly Choice[],
  { report }: DotLowering,
): string | undefined {
  if (humanDefaultChoice === undefined) return undefined;
  const found =
    choices.find(({ next }) => next === humanDefaultChoice) ??
    choiceNamed(choices, humanDefaultChoice);
  const place = attributes.get("human.default_choice")?.value.span ?? span;
  if (found === undefined) {
    const message = `no edge of \`${id}\` leads to \`${humanDefaultChoice}\`; there is no default`;
    report.warn(place, "gate-default", message, "name the target of one of its edges");
  } else if (timeoutMs === undefined) {
    const message = `\`${id}\` has a default but no timeout, so it waits for an answer`;
    report.warn(place, "gate-default", message, "add `timeout=1h`");
  }
  return found?.key;
}

/** The only choice of a gate without edges. */
const ALONE: Choice = { key: "C", label: "Continue" };

/** One choice for each label of the edges; of equal labels the first edge counts. */
function edgeChoices(
  edges: readonly { readonly label?: string | undefined; readonly to: string }[],
): readonly Choice[] {
  const choices: Choice[] = [];
  for (const { label: written, to } of edges) {
    const { key, text: label } = choiceOf(written ?? to);
    if (choices.some((choice) => choice.label === label)) continue;
    choices.push({ key: freeKey(key, label, choices), label, next: to });
  }
  return choices.length === 0 ? [ALONE] : choices;
}

/** An unused key: the wanted one, another letter of the label, or a number. */
function freeKey(wanted: string, label: string, choices: readonly Choice[]): string {
  const taken = new Set(choices.map(({ key }) => key));
  const letters = [...label.toUpperCase()].filter((letter) => /[\p{L}\p{N}]/u.test(letter));
  const free = [wanted, ...letters].find((key) => key.trim() !== "" && !taken.has(key));
  if (free !== undefined) return free;
  for (let number = 1; ; number++) if (!taken.has(String(number))) return String(number);
}

/** The command for a type of node that the language does not have. */
function handlerOf({ customType }: DotNode, { reading }: DotLowering): string | undefined {
  return (customType && reading.handlers?.[customType]) || undefined;
}

/** True for a node without work: its edges test the outcome of the node before it. */
export function passesOn(node: DotNode, lowering: DotLowering): boolean {
  const { handler, toolCommand, childDotfile = lowering.settings.childDotfile } = node;
  if (handlerOf(node, lowering) !== undefined) return false;
  if (handler === "tool") return toolCommand === undefined;
  return handler === "stack.manager_loop" ? childDotfile === undefined : handler === "conditional";
}

/** The addition to the prompt of a fan-in. */
const RESULTS = '\n\nThe results of the branches:\n${{ context["parallel.results"] }}';

/** The fidelity and the thread of an agent step. */
function briefingOf({ fidelity, threadId, subgraphClass }: DotNode) {
  return defined({ fidelity, thread: threadId, threadGroup: subgraphClass });
}

function attributesOf(node: DotNode): Readonly<Record<string, string>> {
  const written = [...node.attributes].map(([name, { value }]) => [name, value.text] as const);
  const text = JSON.stringify(Object.fromEntries(written));
  return text.length > ATTRIBUTES_BYTES_MAX ? {} : { PERDURE_NODE_ATTRIBUTES: literal(text) };
}

/** True for work that can report `retry` or reach its timeout. */
function canRetry({ kind }: Pick<Work, "kind">): boolean {
  return kind === "shell" || kind === "agent" || kind === "gate" || kind === "pipeline";
}

/** The language has no rule against equal failures, so only the limit on visits ends a loop. */
function stallAfter(visitsMax: number): number {
  return visitsMax + 1;
}
