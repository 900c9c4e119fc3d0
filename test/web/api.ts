/**
 * Asks a server of the dashboard, and validates every answer against the OpenAPI document that the
 * server itself sends.
 */
import { type Schema, Validator } from "@cfworker/json-schema";
import { expect } from "vitest";
import type { Dashboard } from "../rig/dashboard.ts";

interface Operation {
  readonly operationId: string;
  readonly responses: Readonly<
    Record<string, { readonly content: Readonly<Record<string, { readonly schema: Schema }>> }>
  >;
}

interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** A document that was validated: a test may read each of its fields. */
type Validated = ReturnType<typeof JSON.parse>;

/** An answer in JSON. */
export interface Answered {
  readonly status: number;
  readonly json: Validated;
}

/** One event of a stream. */
export interface Streamed {
  readonly event: string;
  readonly id: string;
  readonly data: Validated;
}

/** A client of one server. */
export class Api {
  readonly dashboard: Dashboard;
  readonly #interface: OpenApi;
  readonly #validators = new Map<string, Validator>();

  private constructor(dashboard: Dashboard, described: OpenApi) {
    this.dashboard = dashboard;
    this.#interface = described;
  }

  static async of(dashboard: Dashboard): Promise<Api> {
    const response = await dashboard.fetch("/api/openapi.json");
    return new Api(dashboard, (await response.json()) as OpenApi);
  }

  /** The document that describes the interface. */
  get described(): OpenApi {
    return this.#interface;
  }

  async get(path: string): Promise<Answered> {
    return this.#checked("get", path, await this.dashboard.fetch(path));
  }

  async post(path: string, body: unknown): Promise<Answered> {
    const response = await this.dashboard.fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return this.#checked("post", path, response);
  }

  /** The document of a GET that must succeed. */
  async must(path: string): Promise<Answered["json"]> {
    const { status, json } = await this.get(path);
    expect(status, JSON.stringify(json)).toBe(200);
    return json;
  }

  /** The document of a POST that must succeed. */
  async done(path: string, body: unknown): Promise<Answered["json"]> {
    const { status, json } = await this.post(path, body);
    expect(status, JSON.stringify(json)).toBe(200);
    return json;
  }

  /** The events of a stream, each validated; the stream ends when the caller stops reading. */
  async *stream(path: string, lastId?: string): AsyncGenerator<Streamed> {
    const gone = new AbortController();
    const headers = lastId === undefined ? {} : { "last-event-id": lastId };
    const response = await this.dashboard.fetch(path, { headers, signal: gone.signal });
    expect(response.status).toBe(200);
    let text = "";
    const decoder = new TextDecoder();
    try {
      for await (const chunk of response.body ?? []) {
        text += decoder.decode(chunk, { stream: true });
        for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
          const fields = new Map(text.slice(0, end).split("\n").map(fieldOf));
          text = text.slice(end + 2);
          const [event, id, data] = ["event", "id", "data"].map((name) => fields.get(name));
          if (event === undefined || id === undefined || data === undefined) continue;
          const value: unknown = JSON.parse(data);
          this.#validate("get", path, "200", "text/event-stream", value);
          yield { event, id, data: value };
        }
      }
    } finally {
      gone.abort();
    }
  }

  async #checked(method: string, path: string, response: Response): Promise<Answered> {
    const json: unknown = await response.json();
    const which = response.ok ? "200" : "default";
    this.#validate(method, path, which, "application/json", json);
    return { status: response.status, json };
  }

  #validate(method: string, path: string, which: string, type: string, value: unknown): void {
    const [plain = ""] = path.split("?");
    const found = Object.entries(this.#interface.paths).filter(
      ([template, operations]) => operations[method] !== undefined && fits(template, plain),
    );
    // A path without a choice of the caller comes first.
    const [, operations] = found.sort(([a], [b]) => braces(a) - braces(b))[0] ?? [];
    const schema = operations?.[method]?.responses[which]?.content[type]?.schema;
    expect(schema, `${method} ${path} is not described`).toBeDefined();
    const { valid, errors } = this.#validatorOf(schema?.$ref ?? "").validate(value);
    const faults = errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
    expect(valid ? [] : faults, `${method} ${path}`).toEqual([]);
  }

  #validatorOf(reference: string): Validator {
    const known = this.#validators.get(reference);
    if (known !== undefined) return known;
    const text = JSON.stringify({
      $ref: reference,
      $defs: this.#interface.components.schemas,
    });
    const schema = JSON.parse(text.replaceAll("#/components/schemas/", "#/$defs/")) as Schema;
    const validator = new Validator(schema, "2020-12", false);
    this.#validators.set(reference, validator);
    return validator;
  }
}

function fieldOf(line: string): readonly [string, string] {
  const colon = line.indexOf(": ");
  return [line.slice(0, colon), line.slice(colon + 2)];
}

function fits(template: string, path: string): boolean {
  const pattern = template.replaceAll(/[.*+?^$()|[\]\\]/g, "\\$&").replaceAll(/\{\w+\}/g, "[^/]+");
  return new RegExp(`^${pattern}$`).test(path);
}

function braces(template: string): number {
  return template.split("{").length;
}
