/**
 * The attributes of the language and their kinds, other names that real files use, and reading their
 * values. An invalid value is reported once and counts as absent.
 *
 * Owns: the names of the specification, the names of other engines for the same attributes, the
 * names that only Graphviz reads; parsing numbers, durations and booleans, and the diagnostics about
 * values.
 * Does not: know the defaults of handlers (model.ts).
 */
import { assert } from "../../util/assert.ts";
import { parseDuration } from "../../util/duration.ts";
import { FIDELITIES } from "../values.ts";
import type { DotAttribute, DotAttributes } from "./ast.ts";
import type { DotReport } from "./source.ts";

/** The owner of an attribute. */
export type AttributeOwner = "graph" | "node" | "edge";

/** The type of an attribute's value. */
type AttributeKind =
  | "text"
  | "count"
  | "integer"
  /** Money: a number above 0. */
  | "amount"
  | "boolean"
  /** A boolean; some authors write a text here that describes the gate. */
  | "gate"
  | "duration"
  | "fidelity"
  /** Where the steps of a graph work, when that is committed, and where the branches of a node do. */
  | "workspace"
  | "commit"
  | "sharing";

const GRAPH: Readonly<Record<string, AttributeKind>> = {
  goal: "text",
  label: "text",
  model_stylesheet: "text",
  default_max_retries: "count",
  retry_target: "text",
  fallback_retry_target: "text",
  default_fidelity: "fidelity",
  default_thread_id: "text",
  llm_model: "text",
  llm_provider: "text",
  reasoning_effort: "text",
  "stack.child_dotfile": "text",
  "stack.child_workdir": "text",
  "tool_hooks.pre": "text",
  "tool_hooks.post": "text",
  loop_restart_persist_keys: "text",
  // Not in the specification, but in several engines.
  max_visits: "count",
  params: "text",
  workspace: "workspace",
  commit: "commit",
  stall_after: "count",
  stall_timeout: "duration",
  max_budget_usd: "amount",
};

const NODE: Readonly<Record<string, AttributeKind>> = {
  label: "text",
  shape: "text",
  type: "text",
  prompt: "text",
  max_retries: "count",
  goal_gate: "gate",
  retry_target: "text",
  fallback_retry_target: "text",
  fidelity: "fidelity",
  thread_id: "text",
  class: "text",
  timeout: "duration",
  llm_model: "text",
  llm_provider: "text",
  reasoning_effort: "text",
  auto_status: "boolean",
  allow_partial: "boolean",
  tool_command: "text",
  join_policy: "text",
  max_parallel: "count",
  "human.default_choice": "text",
  "manager.poll_interval": "duration",
  "manager.max_cycles": "count",
  "manager.stop_condition": "text",
  "manager.actions": "text",
  "manager.steering_message": "text",
  "manager.steer_cooldown": "duration",
  "stack.child_autostart": "boolean",
  "stack.child_dotfile": "text",
  "stack.child_workdir": "text",
  "tool_hooks.pre": "text",
  "tool_hooks.post": "text",
  // Not in the specification, but in several engines.
  max_visits: "count",
  max_turns: "count",
  retry_preset: "text",
  prompt_file: "text",
  system_prompt: "text",
  duration: "duration",
  mode: "text",
  stall_timeout: "duration",
  workspace: "sharing",
  loop_id: "text",
  loop_count: "count",
  loop_max: "count",
  loop_until_file: "text",
  loop_until_file_contains: "text",
  codergen_mode: "text",
  language: "text",
  allowed_tools: "text",
  max_budget_usd: "amount",
};

/** The words of attributes that have few. */
const WORDS = {
  fidelity: FIDELITIES,
  workspace: ["here", "worktree", "directory", "copy"],
  commit: ["step", "end", "never"],
  sharing: ["own", "shared"],
} as const satisfies Readonly<Partial<Record<AttributeKind, readonly string[]>>>;

const EDGE: Readonly<Record<string, AttributeKind>> = {
  label: "text",
  condition: "text",
  weight: "integer",
  fidelity: "fidelity",
  thread_id: "text",
  loop_restart: "boolean",
  // Not in the specification, but in several engines.
  freeform: "boolean",
};

const KNOWN = { graph: GRAPH, node: NODE, edge: EDGE } as const;

/** Names of older versions and of other engines for the same attributes. */
const ALIASES = {
  graph: {
    default_max_retry: "default_max_retries",
    context_fidelity_default: "default_fidelity",
    context_thread_default: "default_thread_id",
    max_node_visits: "max_visits",
    model: "llm_model",
    default_model: "llm_model",
    provider: "llm_provider",
    default_provider: "llm_provider",
    default_thread: "default_thread_id",
    loop_restart_signature_limit: "stall_after",
  },
  node: {
    node_type: "type",
    handler: "type",
    llm_prompt: "prompt",
    model: "llm_model",
    provider: "llm_provider",
    script: "tool_command",
    command: "tool_command",
    default_choice: "human.default_choice",
    human_default_choice: "human.default_choice",
    human_timeout_seconds: "timeout",
    max_agent_turns: "max_turns",
    retry_policy: "retry_preset",
    "stack.child_workflow": "stack.child_dotfile",
    dot_file: "stack.child_dotfile",
    graph_ref: "stack.child_dotfile",
    sub_pipeline: "stack.child_dotfile",
  },
  edge: { restart: "loop_restart" },
} as const;

/** An older spelling of the specification: it gives no warning. */
export const LEGACY_ATTRIBUTES: ReadonlySet<string> = new Set(["default_max_retry"]);

/** Attributes of the drawing only. */
const DRAWING: ReadonlySet<string> = new Set(
  (
    "arrowhead arrowsize arrowtail bgcolor center charset clusterrank color colorscheme comment " +
    "compound concentrate constraint decorate dir dpi fillcolor fixedsize fontcolor fontname " +
    "fontpath fontsize forcelabels gradientangle group headlabel headport height href id image " +
    "imagescale label_scheme labelangle labeldistance labelfloat labelfontcolor labelfontname " +
    "labelfontsize labeljust labelloc landscape layout len lhead lp ltail margin minlen mode " +
    "newrank nodesep nojustify ordering orientation outputorder overlap pad page pencolor penwidth " +
    "peripheries pos quantum rank rankdir ranksep ratio regular remincross rotate samehead " +
    "sametail searchsize sep sides size skew smoothing sortv splines start style taillabel " +
    "tailport target tooltip truecolor url URL vertices viewport width xdotversion xlabel xlp"
  ).split(" "),
);
/** Attributes of Graphviz with another meaning in pipelines: they give a warning. */
const NOT_DRAWING: ReadonlySet<string> = new Set(["mode", "start", "target", "sep", "pos"]);

/** The kind of an attribute of the language; undefined for any other name. */
export function attributeKind(owner: AttributeOwner, name: string): AttributeKind | undefined {
  return Object.hasOwn(KNOWN[owner], name) ? KNOWN[owner][name] : undefined;
}

/** The names of an owner's attributes. */
export function attributeNames(owner: AttributeOwner): readonly string[] {
  return Object.keys(KNOWN[owner]);
}

/** The language's own name for an attribute. */
export function canonicalName(owner: AttributeOwner, name: string): string {
  const aliases: Readonly<Record<string, string>> = ALIASES[owner];
  return Object.hasOwn(aliases, name) ? (aliases[name] ?? name) : name;
}

/** True for an attribute that only Graphviz reads. */
export function isDrawing(name: string): boolean {
  return (DRAWING.has(name) && !NOT_DRAWING.has(name)) || name.startsWith("_");
}

type AttributeReading =
  | { readonly ok: true; readonly value: string | number | boolean; readonly note?: string }
  | { readonly ok: false; readonly message: string; readonly help: string };

/** The value of a text, for its kind. */
function readAttribute(kind: AttributeKind, text: string): AttributeReading {
  switch (kind) {
    case "text":
      return { ok: true, value: text };
    case "boolean":
      return readBoolean(text);
    case "gate": {
      const read = readBoolean(text);
      if (read.ok) return read;
      return { ok: true, value: true, note: "this text is not checked; it is read as `true`" };
    }
    case "duration":
      return readDuration(text);
    case "count":
    case "integer":
      return readInteger(kind, text);
    case "amount":
      return readAmount(text);
    case "fidelity":
    case "workspace":
    case "commit":
    case "sharing": {
      const words: readonly string[] = WORDS[kind];
      if (words.includes(text.trim())) return { ok: true, value: text.trim() };
      const message = `there is no ${kind} \`${text}\``;
      return { ok: false, message, help: `possible values: ${words.join(", ")}` };
    }
  }
}

function readBoolean(text: string): AttributeReading {
  const word = text.trim().toLowerCase();
  if (["true", "yes", "1", "on"].includes(word)) return { ok: true, value: true };
  if (["false", "no", "0", "off", ""].includes(word)) return { ok: true, value: false };
  return { ok: false, message: "this is neither true nor false", help: "write `true` or `false`" };
}

function readInteger(kind: "count" | "integer", text: string): AttributeReading {
  const word = text.trim();
  const value = Number(word);
  const valid = /^[+-]?\d+(\.0*)?$/.test(word) && Number.isSafeInteger(value);
  if (valid && (kind === "integer" || value >= 0)) return { ok: true, value };
  const what = kind === "count" ? "a whole number, 0 or more" : "a whole number";
  return { ok: false, message: `\`${word}\` is not ${what}`, help: "write a number like 3" };
}

function readAmount(text: string): AttributeReading {
  const word = text.trim();
  const value = /^\d+(\.\d+)?$/.test(word) ? Number(word) : 0;
  if (value > 0) return { ok: true, value };
  const message = `\`${word}\` is not an amount above 0`;
  return { ok: false, message, help: "write a number like 2.5" };
}

/** A number without a unit is in seconds, as in the engines that allow it. */
function readDuration(text: string): AttributeReading {
  const word = text.trim();
  const value = parseDuration(word);
  if (value !== undefined) return { ok: true, value };
  const help = "write a number and a unit: 250ms, 30s, 15m, 2h, 1d";
  const seconds = /^\d+(\.\d+)?$/.test(word) ? parseDuration(`${word}s`) : undefined;
  if (seconds === undefined) return { ok: false, message: `\`${word}\` is not a duration`, help };
  return { ok: true, value: seconds, note: `\`${word}\` has no unit; it is read as seconds` };
}

/** Longer texts are read once and cached: a default may belong to many nodes (collect/D2). */
const KEPT_FROM_LENGTH = 64;
const JOIN_POLICIES = ["wait_all", "first_success"] as const;

/** Reads the attributes of one file. */
export class AttributeReader {
  readonly #report: DotReport;
  /** The positions of reported values: a default may belong to many nodes. */
  readonly #reported = new Set<number>();
  /** The attributes with a warning: one for each attribute is enough. */
  readonly #noted = new Set<string>();
  /** The results of long texts, by position. */
  readonly #kept = new Map<number, Map<unknown, unknown>>();

  constructor(report: DotReport) {
    this.#report = report;
  }

  /** Undefined when it is absent or empty. */
  text(attributes: DotAttributes, owner: AttributeOwner, name: string): string | undefined {
    const value = this.#read(attributes, owner, name);
    return value === undefined || value === "" ? undefined : String(value);
  }

  /** The result of a function for a text; undefined when the text is absent or empty. */
  derived<T>(
    attributes: DotAttributes,
    owner: AttributeOwner,
    name: string,
    derive: (text: string) => T,
  ): T | undefined {
    const text = this.text(attributes, owner, name);
    const attribute = attributes.get(name);
    if (text === undefined || attribute === undefined) return undefined;
    return this.#once(attribute, derive, () => derive(text));
  }

  number(attributes: DotAttributes, owner: AttributeOwner, name: string): number | undefined {
    const value = this.#read(attributes, owner, name);
    return typeof value === "number" ? value : undefined;
  }

  boolean(attributes: DotAttributes, owner: AttributeOwner, name: string): boolean | undefined {
    const value = this.#read(attributes, owner, name);
    return typeof value === "boolean" ? value : undefined;
  }

  /** One of the words of a kind of attribute. */
  word<K extends keyof typeof WORDS>(
    attributes: DotAttributes,
    owner: AttributeOwner,
    name: string,
  ): (typeof WORDS)[K][number] | undefined {
    return this.#read(attributes, owner, name) as (typeof WORDS)[K][number] | undefined;
  }

  joinPolicy(attributes: DotAttributes): (typeof JOIN_POLICIES)[number] {
    const attribute = attributes.get("join_policy");
    const policy = JOIN_POLICIES.find((known) => known === attribute?.value.text);
    if (attribute !== undefined && policy === undefined) {
      const message = `there is no join policy \`${attribute.value.text}\`; it is read as \`wait_all\``;
      this.#warn(
        attribute,
        "attribute-value",
        message,
        `possible values: ${JOIN_POLICIES.join(", ")}`,
      );
    }
    return policy ?? "wait_all";
  }

  #read(attributes: DotAttributes, owner: AttributeOwner, name: string) {
    const attribute = attributes.get(name);
    if (attribute === undefined) return undefined;
    const kind = attributeKind(owner, name);
    assert(kind !== undefined, "only attributes of the language are read");
    const { text } = attribute.value;
    const read = this.#once(attribute, kind, () => readAttribute(kind, text));
    const rule = kind === "fidelity" ? "fidelity_valid" : "attribute-value";
    if (!read.ok) {
      this.#warn(attribute, rule, `${read.message}; \`${name}\` is not set`, read.help);
      return undefined;
    }
    if (read.note !== undefined && !this.#noted.has(name)) {
      this.#noted.add(name);
      this.#warn(attribute, rule, read.note);
    }
    return read.value;
  }

  #once<T>({ value }: DotAttribute, what: unknown, make: () => T): T {
    if (value.text.length < KEPT_FROM_LENGTH) return make();
    const kept = this.#kept.get(value.span.start) ?? new Map<unknown, unknown>();
    this.#kept.set(value.span.start, kept);
    if (!kept.has(what)) kept.set(what, make());
    return kept.get(what) as T;
  }

  #warn({ value }: DotAttribute, rule: string, message: string, help?: string): void {
    if (this.#reported.has(value.span.start)) return;
    this.#reported.add(value.span.start);
    this.#report.warn(value.span, rule, message, help);
  }
}
