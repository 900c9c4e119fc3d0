/**
 * `perdure mcp` as a program of its own in `dist`, so that no other command loads it: the server on
 * stdin and stdout, until the client closes them.
 *
 * Owns: stdin and stdout.
 * Invariants:
 * - mcp/M3 Stdout carries nothing but the protocol: whatever else this process prints goes to stderr.
 */
import { Writable } from "node:stream";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { mcpServer, type ServerOptions } from "./server.ts";

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

/** The stream for the protocol; every other writer of stdout writes to stderr from now on (mcp/M3). */
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
