/** A network between a client and a server that a test can break at an exact point. */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** What is lost of the next message with a text: the message, or only the answer to it. */
interface Loss {
  readonly text: string;
  readonly loses: "message" | "answer";
}

/** A proxy on 127.0.0.1 in front of a server. */
export interface LossyProxy {
  readonly port: number;
  /** Breaks the connection that next sends a message with this text; resolves when it is broken. */
  breakAt(text: string, loses: Loss["loses"]): Promise<void>;
  close(): Promise<void>;
}

/** Starts a proxy in front of a port of this machine. */
export async function startProxy(target: number): Promise<LossyProxy> {
  const sockets = new Set<Socket>();
  let loss: (Loss & { readonly broken: () => void }) | undefined;
  const server = createServer((client) => {
    const upstream = connect(target, "127.0.0.1");
    let losesAnswer: (() => void) | undefined;
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", end);
      socket.on("close", () => {
        sockets.delete(socket);
        end();
      });
    }
    client.on("data", (bytes) => {
      if (loss === undefined || !bytes.includes(loss.text)) return void upstream.write(bytes);
      const { loses, broken } = loss;
      loss = undefined;
      if (loses === "message") {
        end();
        broken();
      } else {
        losesAnswer = broken;
        upstream.write(bytes);
      }
      return undefined;
    });
    upstream.on("data", (bytes) => {
      if (losesAnswer === undefined) return void client.write(bytes);
      end();
      losesAnswer();
      return undefined;
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    breakAt: (text, loses) =>
      new Promise((broken) => {
        loss = { text, loses, broken };
      }),
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
