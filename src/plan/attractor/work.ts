/**
 * Lowers the work of a DOT node to work of the plan.
 *
 * Owns: the handlers of the language, the defaults of steps, retries and timeouts.
 * Does not: lower edges (attractor/graph.ts) or choose agents (attractor/agent.ts).
 */

import type { DotEdge, DotNode } from "../../pipeline/dot/model.ts";
import { defined } from "../../util/defined.ts";
import type { Backoff, RetryPolicy, Step, Work } from "../plan.ts";
import { gateOf } from "./gate.ts";
import {
  type AskingEdge,
  expandVariables,
  fromInput,
  literal,
  statusWords,
  unknownVariables,
} from "./prompt.ts";
import { isFork, type Region } from "./regions.ts";
import type { DotSite } from "./site.ts";

/** How many times a run may visit a step. */
export const ATTRACTOR_VISITS_MAX = 100;

const ATTRACTOR_RETRY: RetryPolicy = {
  attempts: 1,
  on: "retry",
  backoff: { initialMs: 200, factor: 2, maxMs: 60_000, jitter: 0.5 },
  onResume: "keep",
};

/** The named policies of the language. */
const { backoff: BACKOFF } = ATTRACTOR_RETRY;
export const RETRY_PRESETS: Readonly<
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
  readonly #site: DotSite;
  readonly #branches: (node: DotNode, region: Region) => Work;

  constructor(site: DotSite, branches: (node: DotNode, region: Region) => Work) {
    this.#site = site;
    this.#branches = branches;
  }

  /** The work of a node with its own settings. */
  of(node: DotNode, region: Region): NodeWork {
    const { cwd } = this.#site;
    const work = this.#work(node, region);
    const runs = work.kind === "shell" || work.kind === "agent";
    const timed = node.timeoutMs !== undefined && runs;
    return {
      work,
      env: runs ? this.#env(node) : {},
      retry: isTried(work) ? this.#retry(node, work) : ATTRACTOR_RETRY,
      ...(cwd === undefined || !runs ? {} : { cwd }),
      ...(timed ? { timeoutMs: node.timeoutMs } : {}),
      ...(node.allowPartial ? { allowPartial: true } : {}),
      ...(work.kind === "agent" ? tellingOf(node) : {}),
    };
  }

  #work(node: DotNode, region: Region): Work {
    const { edgeIndex } = this.#site;
    const command = handlerOf(node, this.#site);
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
        return isFork(edgeIndex, node) ? this.#branches(node, region) : { kind: "pass" };
      case "parallel.fan_in":
        return node.prompt === undefined ? { kind: "pick" } : this.#agent(node, RESULTS);
      case "wait.human":
        return gateOf(node, this.#site);
      case "stack.manager_loop":
        return this.#child(node);
    }
  }

  #agent(node: DotNode, more: string): Work {
    const { agents, report, pipeline } = this.#site;
    const prompt = this.#prompt(node);
    for (const name of unknownVariables(prompt, pipeline.attributes)) {
      const message = `nothing here is called \`$${name}\`; it is filled in from the input, or stays`;
      const place = node.attributes.get("prompt")?.value.span ?? node.span;
      report.warn(place, "unknown-variable", message, `give it: perdure run FILE -i ${name}=...`);
    }
    const asked = literal(statusWords(prompt, this.#edgesBehind(node).map(askingEdge)));
    const text = `${expandVariables(prompt, pipeline.attributes)}${more}${asked}`;
    return agents.work(node, pipeline, text, report);
  }

  /** A prompt may be in a file of its own: `prompt_file`, or `prompt="@file"`. */
  #prompt(node: DotNode): string {
    const { promptFile, prompt, label } = node;
    const named = promptFile ?? (/^@\S+$/.test(prompt ?? "") ? prompt?.slice(1) : undefined);
    if (named === undefined) return prompt ?? label;
    const text = this.#site.readText(named);
    if (text !== undefined) return text;
    const place = node.attributes.get(promptFile === undefined ? "prompt" : "prompt_file");
    const message = `there is no file ${named} with a prompt; its name is all that the agent gets`;
    this.#site.report.warn(place?.value.span ?? node.span, "prompt-file", message);
    return prompt ?? label;
  }

  /** The edges that test the outcome of a node, also those of a diamond after it. */
  #edgesBehind(node: DotNode): readonly DotEdge[] {
    const { edgeIndex } = this.#site;
    return edgeIndex.outgoing(node.id).flatMap((edge) => {
      const target = edgeIndex.nodes.get(edge.to);
      return target !== undefined && passesOn(target, this.#site)
        ? [edge, ...edgeIndex.outgoing(edge.to)]
        : [edge];
    });
  }

  #tool(node: DotNode): Work {
    if (node.toolCommand !== undefined) return { kind: "shell", run: literal(node.toolCommand) };
    const message = `\`${node.id}\` has no \`tool_command\`; it does nothing`;
    this.#site.report.warn(node.span, "tool-command", message, 'add `tool_command="..."`');
    return { kind: "pass" };
  }

  /** The child of a manager; it runs as a part of this pipeline. */
  #child(node: DotNode): Work {
    const { report, settings } = this.#site;
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
    const work = this.#site.child(file, cwd);
    if (typeof work !== "string") return work;
    const place = node.attributes.get("stack.child_dotfile")?.value.span ?? node.span;
    report.error(place, "manager-child", `${file} cannot be run: ${work}`);
    return { kind: "pass" };
  }

  #env(node: DotNode): Readonly<Record<string, string>> {
    const custom = handlerOf(node, this.#site) === undefined ? {} : attributesOf(node);
    const { attributes, settings } = this.#site.pipeline;
    const names = (attributes.get("params")?.value.text ?? "")
      .split(",")
      .map((name) => name.trim());
    const params = names.filter((name) => /^[a-z_]\w*$/i.test(name));
    const given = Object.fromEntries(params.map((name) => [name, fromInput(name, "")]));
    return { ...given, goal: literal(settings.goal), ...custom };
  }

  #retry(node: DotNode, work: Work): RetryPolicy {
    const { settings, report } = this.#site;
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

/** The command for a type of node that the language does not have. */
function handlerOf({ customType }: DotNode, { reading }: DotSite): string | undefined {
  return (customType && reading.handlers?.[customType]) || undefined;
}

/** True for a node without work: its edges test the outcome of the node before it. */
export function passesOn(node: DotNode, site: DotSite): boolean {
  const { handler, toolCommand, childDotfile = site.settings.childDotfile } = node;
  if (handlerOf(node, site) !== undefined) return false;
  if (handler === "tool") return toolCommand === undefined;
  return handler === "stack.manager_loop" ? childDotfile === undefined : handler === "conditional";
}

function askingEdge({ label, condition }: DotEdge): AskingEdge {
  return {
    ...defined({ label }),
    ...(condition === undefined
      ? {}
      : { condition: condition.ok ? condition.condition : "unread" }),
  };
}

/** The addition to the prompt of a fan-in. */
export const RESULTS = '\n\nThe results of the branches:\n${{ context["parallel.results"] }}';

/** The fidelity and the thread of an agent step. */
function tellingOf({ fidelity, threadId, subgraphClass }: DotNode) {
  return {
    ...defined({ fidelity, thread: threadId, threadGroup: subgraphClass }),
  };
}

function attributesOf(node: DotNode): Readonly<Record<string, string>> {
  const written = [...node.attributes].map(([name, { value }]) => [name, value.text] as const);
  const text = JSON.stringify(Object.fromEntries(written));
  return text.length > ATTRIBUTES_BYTES_MAX ? {} : { PERDURE_NODE_ATTRIBUTES: literal(text) };
}

/** True for work that can report `retry` or reach its timeout. */
function isTried({ kind }: Pick<Work, "kind">): boolean {
  return kind === "shell" || kind === "agent" || kind === "gate" || kind === "pipeline";
}

/** The language has no rule against equal failures, so only the limit on visits ends a loop. */
function stallAfter(visitsMax: number): number {
  return visitsMax + 1;
}
