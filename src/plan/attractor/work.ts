/**
 * Lowers the work of a DOT node to work of the plan.
 *
 * Owns: the handlers of the language, the defaults of steps, retries and timeouts.
 * Does not: lower edges (attractor/graph.ts) or gates (attractor/gate.ts), or choose agents
 * (attractor/agent.ts).
 */

import { conditionToCel } from "../../pipeline/dot/condition.ts";
import type { DotEdge, DotNode, DotPipeline } from "../../pipeline/dot/model.ts";
import { PROMPT_TYPE, WAIT_TYPE } from "../../pipeline/dot/node-type.ts";
import type { DotReport } from "../../pipeline/dot/source.ts";
import { defined } from "../../util/defined.ts";
import { quote } from "../../util/shell.ts";
import type { PlanReading, RetryPolicy, Step, Work, WorkOf } from "../plan.ts";
import type { DotAgents } from "./agent.ts";
import { gateOf } from "./gate.ts";
import {
  expandVariables,
  fromContext,
  fromInput,
  literal,
  statusWords,
  unknownVariables,
} from "./prompt.ts";
import { type EdgeIndex, hasBranches, type Region } from "./regions.ts";

/** A DOT file and everything that lowering it needs. */
export interface DotLowering {
  readonly pipeline: DotPipeline;
  readonly settings: DotPipeline["settings"];
  readonly edgeIndex: EdgeIndex;
  readonly reading: PlanReading;
  readonly agents: DotAgents;
  readonly report: DotReport;
  /** The directory of its steps, relative to the workspace. */
  readonly cwd?: string;
  /** The text of a file whose name is relative to this one. */
  readonly readText: (name: string) => string | undefined;
  /** Another DOT file as work, or a text with the reason why it cannot run. */
  readonly child: (name: string, cwd: string | undefined) => WorkOf<"pipeline"> | string;
  /** The name of a node's step: not every name of a node is a valid name of a step. */
  readonly stepId: (node: string) => string;
  /** The name of the step that stands for a node outside of the branch. */
  readonly endId: (node: string) => string;
}

/** How many times a run may visit a step. */
export const ATTRACTOR_VISITS_MAX = 100;
const STALL_AFTER_DEFAULT = 10;
const WORKSPACE_TYPES = ["workspace.create", "workspace.merge", "workspace.cleanup"];

const ATTRACTOR_RETRY: RetryPolicy = {
  attempts: 1,
  on: "retry",
  backoff: { initialMs: 200, factor: 2, maxMs: 60_000, jitter: 0.5 },
  onResume: "keep",
};

const { backoff: BACKOFF } = ATTRACTOR_RETRY;

/** The named policies of the language. */
const RETRY_PRESETS: Readonly<Record<string, Pick<RetryPolicy, "attempts" | "backoff">>> = {
  none: { attempts: 1, backoff: BACKOFF },
  standard: { attempts: 5, backoff: BACKOFF },
  aggressive: { attempts: 5, backoff: { ...BACKOFF, initialMs: 500 } },
  linear: { attempts: 3, backoff: { ...BACKOFF, initialMs: 500, factor: 1 } },
  patient: { attempts: 3, backoff: { ...BACKOFF, initialMs: 2_000, factor: 3 } },
};

/** What runs a command in another language; the shell runs its own. */
const LANGUAGES: Readonly<Record<string, string>> = {
  sh: "",
  shell: "",
  bash: "bash -c",
  python: "python3 -c",
  python3: "python3 -c",
  javascript: "node -e",
  node: "node -e",
};

/** The limit of PERDURE_NODE_ATTRIBUTES, which a command for a custom type receives. */
const ATTRIBUTES_BYTES_MAX = 64 * 1024;

/** The fields of a step that follow from the work of its node. */
type NodeWork = Pick<Step, "work" | "env" | "retry"> &
  Partial<
    Pick<
      Step,
      | "cwd"
      | "timeoutMs"
      | "idleTimeoutMs"
      | "allowPartial"
      | "picks"
      | "fidelity"
      | "thread"
      | "threadGroup"
    >
  >;

/** The instructions of a manager. */
type Steer = NonNullable<WorkOf<"pipeline">["watch"]>["steer"];

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
    const { cwd, settings } = this.#lowering;
    const work = this.#work(node, region);
    const runs = work.kind === "shell" || work.kind === "agent";
    const timed = node.timeoutMs !== undefined && runs;
    return {
      work,
      env: runs ? this.#env(node) : {},
      retry: canRetry(work) ? this.#retry(node, work) : ATTRACTOR_RETRY,
      ...(cwd === undefined || !runs ? {} : { cwd }),
      ...(timed ? { timeoutMs: node.timeoutMs } : {}),
      ...(runs ? defined({ idleTimeoutMs: node.stallTimeoutMs ?? settings.stallTimeoutMs }) : {}),
      ...(node.allowPartial ? { allowPartial: true } : {}),
      ...(work.kind === "agent" ? briefingOf(node) : {}),
      ...(work.kind === "agent" && node.handler === "parallel.fan_in" ? { picks: true } : {}),
    };
  }

  #work(node: DotNode, region: Region): Work {
    const { edgeIndex } = this.#lowering;
    const command = handlerOf(node, this.#lowering);
    if (command !== undefined) return { kind: "shell", run: literal(command) };
    if (node.customType === WAIT_TYPE) return this.#wait(node);
    if (WORKSPACE_TYPES.includes(node.customType ?? "")) return this.#workspace(node);
    switch (node.handler) {
      case "start":
      case "exit":
        return { kind: "pass" };
      case "conditional":
        return hasPrompt(node) ? this.#agent(node, "") : { kind: "pass" };
      case "codergen":
        return this.#agent(node, "");
      case "tool":
        return this.#tool(node);
      case "parallel":
        return hasBranches(edgeIndex, node) ? this.#branches(node, region) : { kind: "pass" };
      case "parallel.fan_in":
        return hasPrompt(node) ? this.#agent(node, RESULTS) : { kind: "pick" };
      case "wait.human":
        return gateOf(node, this.#lowering);
      case "stack.manager_loop":
        return this.#child(node);
    }
  }

  /** A node by which another engine makes, merges or removes the workspace of a run. */
  #workspace({ id, customType, attributes, span }: DotNode): Work {
    const message = `\`${id}\` (${customType}) does nothing: a run has its workspace from start to end`;
    const help = "set `workspace=worktree` on the graph; `perdure merge RUN` takes the result home";
    this.#lowering.report.warn(
      attributes.get("type")?.value.span ?? span,
      "unsupported",
      message,
      help,
    );
    return { kind: "pass" };
  }

  #agent(node: DotNode, more: string): Work {
    const { agents, report, pipeline } = this.#lowering;
    const prompt = this.#prompt(node);
    const { id, customType: type } = node;
    if (type !== undefined && type !== PROMPT_TYPE && prompt === node.label) {
      const message = `nothing here runs \`${id}\`, a \`${type}\` node; an agent would get only its label`;
      const help = `say what runs it: --handler ${type}='COMMAND', or give it a \`prompt\``;
      const written = node.attributes.get("type") ?? node.attributes.get("shape");
      report.error(written?.value.span ?? node.span, "type_known", message, help);
    }
    for (const name of unknownVariables(prompt, pipeline.attributes)) {
      const message = `\`${name}\` is filled in from the input; without it, it stays as it is`;
      const place = node.attributes.get("prompt")?.value.span ?? node.span;
      report.warn(place, "unknown-variable", message, `give it: perdure run FILE -i ${name}=...`);
    }
    const asked = literal(statusWords(prompt, this.#edgesAfter(node), node));
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

  /** The edges that test the outcome of a node, including those of the diamonds after it. */
  #edgesAfter({ id }: DotNode): readonly DotEdge[] {
    const { edgeIndex } = this.#lowering;
    const testing = new Set([id]);
    const edges: DotEdge[] = [];
    for (const from of testing) {
      for (const edge of edgeIndex.outgoing(from)) {
        edges.push(edge);
        const target = edgeIndex.nodes.get(edge.to);
        if (target !== undefined && passesOn(target, this.#lowering)) testing.add(edge.to);
      }
    }
    return edges;
  }

  #tool(node: DotNode): Work {
    const { toolCommand, language = "sh", attributes, id, span } = node;
    const { report } = this.#lowering;
    if (toolCommand === undefined) {
      const message = `the tool \`${id}\` has no \`tool_command\``;
      report.error(span, "tool-command", message, 'add `tool_command="..."`');
      return { kind: "pass" };
    }
    const program = Object.hasOwn(LANGUAGES, language) ? LANGUAGES[language] : undefined;
    if (program === undefined) {
      const message = `the command of \`${id}\` is in \`${language}\`, which is no known language`;
      const help = `there are ${Object.keys(LANGUAGES).join(", ")}`;
      report.error(attributes.get("language")?.value.span ?? span, "tool-command", message, help);
    }
    const run = program ? `${program} ${quote(toolCommand)}` : toolCommand;
    return { kind: "shell", run: literal(run) };
  }

  /** A timer of other engines. */
  #wait({ id, span, durationMs }: DotNode): Work {
    if (durationMs === undefined) {
      const message = `\`${id}\` waits, but has no \`duration\``;
      this.#lowering.report.error(span, "wait-duration", message, "add `duration=30s`");
    }
    return { kind: "wait", forMs: durationMs ?? 0 };
  }

  /** The child of a manager; it runs as a part of this pipeline. */
  #child(node: DotNode): Work {
    const { report, settings } = this.#lowering;
    const file = node.childDotfile ?? settings.childDotfile;
    const cwd = node.childWorkdir ?? settings.childWorkdir;
    if (file === undefined) {
      const message = `the manager \`${node.id}\` has no pipeline to look after`;
      report.error(node.span, "manager-child", message, 'add `stack.child_dotfile="..."`');
      return { kind: "pass" };
    }
    if (!node.childAutostart) {
      const place = node.attributes.get("stack.child_autostart")?.span ?? node.span;
      const message = `nothing else starts the pipeline of \`${node.id}\`, so it does nothing`;
      report.warn(place, "manager-child", message, "take `stack.child_autostart=false` out");
      return { kind: "pass" };
    }
    const work = this.#lowering.child(file, cwd);
    if (typeof work !== "string") return { ...work, ...watchOf(node, this.#steer(node)) };
    const place = node.attributes.get("stack.child_dotfile")?.value.span ?? node.span;
    report.error(place, "manager-child", `${file} cannot be run: ${work}`);
    return { kind: "pass" };
  }

  /** The instructions of a manager for the agents of its pipeline. */
  #steer(node: DotNode): Steer {
    const { report, pipeline } = this.#lowering;
    if (!node.steers) return undefined;
    const text = node.steeringMessage ?? node.prompt;
    if (text === undefined) {
      const place = node.attributes.get("manager.actions")?.value.span ?? node.span;
      const message = `the manager \`${node.id}\` steers, but says nothing`;
      report.warn(place, "manager-child", message, 'add `manager.steering_message="..."`');
      return undefined;
    }
    const says = expandVariables(text, pipeline.attributes);
    return { says, everyMs: node.steerCooldownMs ?? node.managerPollIntervalMs };
  }

  #env(node: DotNode): Readonly<Record<string, string>> {
    const custom = handlerOf(node, this.#lowering) === undefined ? {} : attributesOf(node);
    const { attributes, settings } = this.#lowering.pipeline;
    const names = (attributes.get("params")?.value.text ?? "")
      .split(",")
      .map((name) => name.trim());
    const params = names.filter((name) => /^[a-z_]\w*$/i.test(name));
    const given = Object.fromEntries(params.map((name) => [name, fromInput(name, "")]));
    const { loopKey } = node;
    const loop = loopKey === undefined ? {} : { PERDURE_LOOP_ITERATION: fromContext(loopKey, "0") };
    return { ...given, goal: literal(settings.goal), ...loop, ...custom };
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

/** How a manager watches its child; without an interval or a number of cycles, without a limit. */
function watchOf(node: DotNode, steer: Steer): Pick<WorkOf<"pipeline">, "watch"> {
  const { managerPollIntervalMs: everyMs, managerMaxCycles: cyclesMax, attributes } = node;
  const limited = attributes.has("manager.max_cycles") || attributes.has("manager.poll_interval");
  const limit = limited && everyMs > 0 ? { everyMs, cyclesMax } : {};
  const condition = node.managerStopCondition;
  const until = condition?.ok === true ? { until: conditionToCel(condition.condition) } : {};
  const watch = { ...limit, ...until, ...defined({ steer }) };
  return Object.keys(watch).length === 0 ? {} : { watch };
}

/** The command for a type of node that the language does not have. */
function handlerOf({ customType }: DotNode, { reading }: DotLowering): string | undefined {
  return (customType && reading.handlers?.[customType]) || undefined;
}

/** True for a node without work: its edges test the outcome of the node before it. */
export function passesOn(node: DotNode, lowering: DotLowering): boolean {
  if (handlerOf(node, lowering) !== undefined || node.customType === WAIT_TYPE) return false;
  return node.handler === "conditional" && !hasPrompt(node);
}

/** True for a node with a prompt of its own, which an agent gets. */
function hasPrompt({ prompt, promptFile }: DotNode): boolean {
  return prompt !== undefined || promptFile !== undefined;
}

/** The addition to the prompt of a fan-in. */
const RESULTS = [
  "",
  "",
  "The results of the branches:",
  '${{ context["parallel.results"] }}',
  "",
  "Name the branch that you pick: end your answer with a line that has only its id, or write",
  '{"context_updates": {"parallel.fan_in.best_id": "ID"}} to the file that the environment variable',
  "PERDURE_STATUS_FILE names.",
].join("\n");

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

/**
 * The language has no rule against equal failures. A loop that meets the same one this often costs
 * money and will not end by itself; `stall_after` sets another number.
 */
function stallAfter(visitsMax: number): number {
  return Math.min(visitsMax + 1, STALL_AFTER_DEFAULT);
}
