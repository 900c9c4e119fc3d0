/** The page suggests commands of its own, beside those that the server sends: each of them exists. */
import * as fs from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { Project } from "../rig/project.ts";

const PAGE = resolve(import.meta.dirname, "../../src/page");

test("every command that stands in the page is a command of the program", async ({
  onTestFinished,
}) => {
  const project = new Project();
  onTestFinished(() => project.remove());
  const help = await project.must(["--help"]);
  const known = new Set<string | undefined>(
    Array.from(help.matchAll(/^ {2}([a-z]+)/gm), ([, name]) => name),
  );
  const files = fs
    .readdirSync(PAGE, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(tsx?|html)$/.test(name));
  const suggested = files.flatMap((name) =>
    Array.from(
      fs.readFileSync(join(PAGE, name), "utf8").matchAll(/["'`>]perdure ([a-z]+)/g),
      ([, verb = ""]) => `${name}: ${verb}`,
    ),
  );
  expect(suggested.length).toBeGreaterThan(8);
  expect(suggested.filter((one) => !known.has(one.split(": ")[1]))).toEqual([]);
});
