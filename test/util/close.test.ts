import { expect, test } from "vitest";
import { closeAll } from "../../src/util/close.ts";

test("all are closed in order, also after one has failed, and the first error is thrown", async () => {
  const closed: string[] = [];
  const one = (name: string, problem?: string) => ({
    close: async (): Promise<void> => {
      closed.push(name);
      if (problem !== undefined) throw new Error(problem);
    },
  });
  const all = [one("a"), one("b", "first"), one("c", "second"), one("d")];
  await expect(closeAll(all)).rejects.toThrow("first");
  expect(closed).toEqual(["a", "b", "c", "d"]);
});
