/** The fake model as a program, controlled by its control endpoint. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { at, type Json, listAt, textAt } from "./json.ts";
import { queue, stall, stateless, text } from "./reply.ts";
import { post } from "./wire.ts";

const PROGRAM = join(import.meta.dirname, "main.ts");

async function start(script: Json): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), "perdure-model-"));
  const file = join(dir, "script.json");
  writeFileSync(file, JSON.stringify(script));
  const child = spawn(process.execPath, [PROGRAM, "--port", "0", "--script", file], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
    rmSync(dir, { recursive: true });
  });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  return textAt(JSON.parse(line.toString()) as Json, "url");
}

async function control(url: string, body: Json): Promise<Json> {
  const init = { method: "POST", body: JSON.stringify(body) };
  return (await (await fetch(`${url}/__control`, init)).json()) as Json;
}

it("serves, stalls and is released over HTTP", async () => {
  const script = queue(stall("middle", text("A long enough text.")));
  const url = await start(script as unknown as Json);
  const answer = post(url, "chat", { stream: true }).then((response) => response.text());
  const reported = await control(url, { do: "await-stall" });
  expect(textAt(reported, "stalled", "stalledAt")).toBe("middle");
  expect(await control(url, { do: "release" })).toEqual({ released: 1 });
  expect(await answer).toContain("[DONE]");

  const other = stateless(text("Another.")) as unknown as Json;
  expect(await control(url, { do: "play", scripts: [other] })).toEqual({ playing: true });
  expect(await (await post(url, "chat")).text()).toContain("Another.");

  const standing = (await (await fetch(`${url}/__control?requests=work`)).json()) as Json;
  expect(at(standing, "work")).toBe(2);
  expect(listAt(standing, "requests")).toHaveLength(2);
  expect(textAt(standing, "requests", 0, "body", "model")).toBe("m");
});

it("says what is wrong with a script", async () => {
  const url = await start(queue(text("x")) as unknown as Json);
  expect(await control(url, { do: "play", scripts: [{ mode: "queue", replies: [{}] }] })).toEqual({
    error: "script 1, reply 1: moves is a list",
  });
  expect(await control(url, { do: "dance" })).toEqual({
    error: "do: release, await-stall or play",
  });
});
