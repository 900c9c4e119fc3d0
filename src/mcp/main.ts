/**
 * The server of the Model Context Protocol: tools and resources for agents. Only `perdure mcp` loads it,
 * as a bundle of its own. It serves on stdin and stdout until the client closes them.
 *
 * Owns: stdin and stdout, the declaration of tools, and the form of results, refusals and progress.
 * Does not: carry out a tool (reading-tools.ts, changing-tools.ts).
 * Invariants:
 * - mcp/M1 Nothing leaves the server with a secret in it: every document is masked here.
 * - mcp/M2 A refusal is a result with `isError` and the document `error`, so that the agent reads its
 *   code and the next command; a broken request is an error of the protocol.
 * - mcp/M3 Stdout carries only the protocol; everything else that this process prints goes to stderr.
 */
import { Writable } from "node:stream";
import {
  type CallToolResult,
  CLIENT_INFO_META_KEY,
  fromJsonSchema,
  type ListResourcesResult,
  McpServer,
  type ReadResourceResult,
  ResourceTemplate,
  type ServerContext,
  type ToolAnnotations,
} from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { actThrough } from "../app/drive/owner.ts";
import { listRuns } from "../app/look/run-list.ts";
import { masked, maskedJson } from "../app/output/secret-mask.ts";
import { errorJson, nextLines, type Refusal } from "../app/refusal.ts";
import { packageVersion } from "../app/this-process.ts";
import type { JsonObject } from "../util/json.ts";
import type { DocumentShape } from "../view/json/document-parts.ts";
import { SchemaParts } from "../view/json/json-schema.ts";
import { SCHEMA_VERSION } from "../view/json/part-json.ts";
import { reportMarkdown } from "../view/report/markdown.ts";
import { CHANGING_TOOLS } from "./changing-tools.ts";
import { READING_TOOLS, reportOf, showOf } from "./reading-tools.ts";
import { type AnyTool, type ToolCall, withRun } from "./tool.ts";

interface ServerOptions {
  /** The directory of the project. */
  readonly directory: string;
  /** Offers only the tools that change nothing. */
  readonly readOnly: boolean;
}

const INSTRUCTIONS = `Perdure runs pipelines of agents and shell commands durably: a run survives the \
end of every process, and continues where it was. Start one with start_run, follow it with \
wait_for_run until it ends or asks, look at it with why and show_run, and answer its questions with \
answer_question after the person has decided. A tool that cannot do what you ask returns an error \
with a code, a message, and the next command.`;

/** A server with the tools and resources of the project in a directory. */
function mcpServer({ directory, readOnly }: ServerOptions): McpServer {
  const server = new McpServer(
    { name: "perdure", title: "Perdure", version: packageVersion() },
    { instructions: INSTRUCTIONS },
  );
  const tools = [...READING_TOOLS, ...(readOnly ? [] : CHANGING_TOOLS)];
  for (const tool of tools) addTool(server, directory, tool);
  addResources(server, directory);
  return server;
}

function annotations({ title, effects }: AnyTool): ToolAnnotations {
  return {
    title,
    readOnlyHint: effects === "reads",
    destructiveHint: effects === "works",
    idempotentHint: effects === "reads" || effects === "adds-once",
    openWorldHint: effects === "works",
  };
}

function addTool(server: McpServer, directory: string, tool: AnyTool): void {
  const config = {
    title: tool.title,
    description: tool.about,
    inputSchema: tool.input,
    outputSchema: fromJsonSchema(schemaOf(tool.document)),
    annotations: annotations(tool),
  };
  server.registerTool(tool.name, config, async (input, context) => {
    actThrough(clientOf(server, context));
    const warnings: string[] = [];
    try {
      const document = await tool.call(input as never, callOf(directory, context, warnings));
      return result(document, warnings);
    } catch (error) {
      return { ...result(errorJson(error)), isError: true };
    }
  });
}

/** The JSON Schema of a document. */
function schemaOf(document: DocumentShape): JsonObject {
  const parts = new SchemaParts("#/$defs/");
  const schema = parts.document(document);
  return parts.written.size === 0
    ? schema
    : { ...schema, $defs: Object.fromEntries(parts.written) };
}

/** The result of a tool: its document as text for agents and as a value for programs (mcp/M1). */
function result(document: object, warnings: readonly string[] = []): CallToolResult {
  const structuredContent = maskedDocument(document);
  const texts = [JSON.stringify(structuredContent), ...warnings];
  return { content: texts.map((text) => ({ type: "text", text })), structuredContent };
}

function maskedDocument(document: object): Record<string, unknown> {
  return maskedJson({ schema_version: SCHEMA_VERSION, ...document });
}

/** The name that the client gave when it connected, or with this request. */
function clientOf(server: McpServer, { mcpReq }: ServerContext): string {
  const envelope = mcpReq.envelope as Readonly<Record<string, unknown>> | undefined;
  const info = envelope?.[CLIENT_INFO_META_KEY] ?? server.server.getClientVersion();
  const named = typeof info === "object" && info !== null && "name" in info ? info.name : "";
  return typeof named === "string" && named !== "" ? named : "an agent";
}

function callOf(directory: string, { mcpReq }: ServerContext, warnings: string[]): ToolCall {
  const progressToken = mcpReq._meta?.progressToken;
  const report = async (progress: number, message: string): Promise<void> => {
    if (progressToken === undefined) return;
    const params = { progressToken, progress, message: masked(message) };
    // The client may have closed the connection.
    await mcpReq.notify({ method: "notifications/progress", params }).catch(() => undefined);
  };
  const warn = (problem: Refusal | undefined): void => {
    if (problem === undefined) return;
    const next = nextLines(problem.next).join("; ");
    const why = `This is recorded, but the run does not continue: ${problem.message}`;
    warnings.push(masked(`${why}. Next: ${next}`));
  };
  return { directory, signal: mcpReq.signal, report, warn };
}

const JSON_TYPE = "application/json";
const MARKDOWN_TYPE = "text/markdown";
/** How many runs the list of resources has. */
const LISTED_RUNS_MAX = 50;

function addResources(server: McpServer, directory: string): void {
  const call: ToolCall = {
    directory,
    signal: new AbortController().signal,
    report: async () => undefined,
    warn: () => undefined,
  };
  const list = async (): Promise<ListResourcesResult> => {
    const rows = await listRuns(directory, { limit: String(LISTED_RUNS_MAX) });
    return {
      resources: rows.map(({ runId, pipeline }) => ({
        uri: `perdure://runs/${runId}`,
        name: `${pipeline} ${runId.slice(0, 8)}`,
        mimeType: JSON_TYPE,
      })),
    };
  };
  server.registerResource(
    "run",
    new ResourceTemplate("perdure://runs/{run}", { list }),
    { title: "A run", description: "Everything about a run, as JSON", mimeType: JSON_TYPE },
    async (uri, { run }) =>
      withRun(call, "read-only", String(run), async (project, known) => {
        const document = maskedDocument(await showOf(project, known));
        return content(uri, JSON_TYPE, JSON.stringify(document));
      }),
  );
  server.registerResource(
    "report",
    new ResourceTemplate("perdure://runs/{run}/report", { list: undefined }),
    { title: "The report on a run", description: "Its post-mortem", mimeType: MARKDOWN_TYPE },
    async (uri, { run }) =>
      withRun(call, "read-only", String(run), async (_, known) =>
        content(uri, MARKDOWN_TYPE, masked(reportMarkdown(await reportOf(known, false)))),
      ),
  );
}

function content(uri: URL, mimeType: string, text: string): ReadResourceResult {
  return { contents: [{ uri: uri.href, mimeType, text }] };
}

/** Serves a client on stdin and stdout; resolves when it has closed them. */
export async function serve(options: ServerOptions): Promise<void> {
  const transport = new StdioServerTransport(process.stdin, protocolOutput());
  const closed = new Promise<void>((done) => {
    process.stdin.once("end", done);
    process.stdin.once("close", done);
  });
  const handle = serveStdio(() => mcpServer(options), {
    transport,
    onerror: (error) => process.stderr.write(`${error.message}\n`),
  });
  await closed;
  await handle.close();
}

/** The stream for the protocol; from now on, all other output to stdout goes to stderr (mcp/M3). */
function protocolOutput(): Writable {
  const { stdout, stderr } = process;
  const write = stdout.write.bind(stdout);
  stdout.write = stderr.write.bind(stderr);
  return new Writable({
    write: (chunk: Buffer, encoding, done) => {
      write(chunk, encoding, (error) => done(error ?? null));
    },
  });
}
