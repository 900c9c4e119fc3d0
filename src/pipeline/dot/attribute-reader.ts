/**
 * Reads attributes as texts, numbers and booleans. An invalid value is reported once and counts as
 * absent.
 *
 * Owns: the diagnostics about values.
 * Does not: define the attributes (attribute.ts).
 */
import { assert } from "../../util/assert.ts";
import type { Diagnostic } from "../diagnostic.ts";
import type { Fidelity } from "../fidelity.ts";
import { diagnosticAt } from "../source.ts";
import type { DotAttribute } from "./ast.ts";
import { type AttributeOwner, attributeKind, readAttribute } from "./attribute.ts";
import type { DotAttributes } from "./collect.ts";
import type { DotSource } from "./source.ts";

/** Longer texts are read once and cached: a default may belong to many nodes (collect/D2). */
const KEPT_FROM_LENGTH = 64;
const JOIN_POLICIES = ["wait_all", "first_success"] as const;

/** Reads the attributes of one file. */
export class AttributeReader {
  readonly #source: DotSource;
  readonly #diagnostics: Diagnostic[];
  /** The positions of reported values: a default may belong to many nodes. */
  readonly #reported = new Set<number>();
  /** The attributes with a warning: one for each attribute is enough. */
  readonly #noted = new Set<string>();
  /** The results of long texts, by position. */
  readonly #kept = new Map<number, Map<unknown, unknown>>();

  constructor(source: DotSource, diagnostics: Diagnostic[]) {
    this.#source = source;
    this.#diagnostics = diagnostics;
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

  fidelity(attributes: DotAttributes, owner: AttributeOwner, name: string): Fidelity | undefined {
    return this.#read(attributes, owner, name) as Fidelity | undefined;
  }

  joinPolicy(attributes: DotAttributes): (typeof JOIN_POLICIES)[number] {
    const attribute = attributes.get("join_policy");
    const policy = JOIN_POLICIES.find((known) => known === attribute?.value.text);
    if (attribute !== undefined && policy === undefined) {
      const message = `there is no join policy \`${attribute.value.text}\`; it is read as \`wait_all\``;
      this.#report(attribute, "attribute-value", message, `there are ${JOIN_POLICIES.join(", ")}`);
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
      this.#report(attribute, rule, `${read.message}; \`${name}\` is not set`, read.help);
      return undefined;
    }
    if (read.note !== undefined && !this.#noted.has(name)) {
      this.#noted.add(name);
      this.#report(attribute, rule, read.note);
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

  #report({ value }: DotAttribute, rule: string, message: string, help?: string): void {
    if (this.#reported.has(value.span.start)) return;
    this.#reported.add(value.span.start);
    const finding = { severity: "warning", rule, message, help } as const;
    this.#diagnostics.push(diagnosticAt(this.#source, value.span, finding));
  }
}
