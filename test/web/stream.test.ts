/** A stream of events and its reader: nothing is made for a reader who does not read. */
import { expect, it } from "vitest";
import { eventStream } from "../../src/web/answer.ts";

it("the next event is made when the last one was read, and none after the reader has left", async () => {
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
  const body = eventStream({
    event: "number",
    events: numbers(),
    textOf: (value) => JSON.stringify(value),
    abort: () => {
      isAborted = true;
    },
  });
  const reader = body.getReader();
  const read = async (): Promise<string> => new TextDecoder().decode((await reader.read()).value);
  expect(await read()).toBe("retry: 1000\n\n");
  expect(made).toBe(0);
  expect(await read()).toBe('event: number\nid: 1\ndata: {"n":1}\n\n');
  expect(await read()).toBe('event: number\nid: 2\ndata: {"n":2}\n\n');
  expect(made).toBe(2);
  await reader.cancel();
  expect({ made, ended, isAborted }).toEqual({ made: 2, ended: true, isAborted: true });
});
