/** Server-sent events: the server makes an event only when its reader asks for it. */
import { expect, it } from "vitest";
import { eventStream } from "../../src/web/server.ts";

it("makes an event after the last one was read, and none after the reader has left", async () => {
  let made = 0;
  let ended = false;
  async function* numbers(): AsyncGenerator<{ id: number; value: { n: number } }> {
    try {
      for (;;) {
        made++;
        yield { id: made, value: { n: made } };
      }
    } finally {
      ended = true;
    }
  }
  let isAborted = false;
  const body = eventStream("number", numbers(), () => {
    isAborted = true;
  });
  const reader = body.getReader();
  const read = async (): Promise<string> => new TextDecoder().decode((await reader.read()).value);
  expect(await read()).toBe("retry: 1000\n\n");
  expect(made).toBe(0);
  expect(await read()).toBe('event: number\nid: 1\ndata: {"schema_version":1,"n":1}\n\n');
  expect(await read()).toBe('event: number\nid: 2\ndata: {"schema_version":1,"n":2}\n\n');
  expect(made).toBe(2);
  await reader.cancel();
  expect({ made, ended, isAborted }).toEqual({ made: 2, ended: true, isAborted: true });
});
