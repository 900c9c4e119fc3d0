/** Attractor pipelines run by the real program: how often each node works, and how the run ends. */
import { afterEach, describe, expect, it } from "vitest";
import { storedRuns } from "../crash/canonical.ts";
import { PlainProject, type Project } from "../rig/project.ts";
import { writeDot } from "./dot-writer.ts";
import type { Clause, Flow, FlowEdge, FlowNode, FlowWork } from "./flow.ts";

const projects: Project[] = [];
afterEach(async () => {
  for (const project of projects.splice(0)) await project.remove();
});

/** A command that counts, and says how it went: the first time one thing, later another. */
function counted(name: string, first = "", later = first): string {
  const file = `effects-${name}`;
  const say = (status: string): string =>
    status === "" ? "true" : `printf '%s' '${status}' > "$PERDURE_STATUS_FILE"`;
  return `echo x >> ${file}; if [ "$(grep -c x ${file})" = 1 ]; then ${say(first)}; else ${say(later)}; fi`;
}

function edge(to: number, more: Partial<FlowEdge> = {}): FlowEdge {
  return { to, clauses: [], weight: 0, restart: false, ...more };
}

function when(key: Clause["key"], value: string): Pick<FlowEdge, "clauses"> {
  return { clauses: [{ key, equal: true, value }] };
}

function node(id: string, work: FlowWork, edges: readonly FlowEdge[], more = {}): FlowNode {
  return { id, work, edges, goal: false, ...more };
}

const pass: FlowWork = { kind: "pass" };

function tool(command: string, retries = 0): FlowWork {
  return { kind: "tool", command, retries, allowPartial: false };
}

const FAIL = '{"outcome":"fail"}';

const FLOWS: Readonly<Record<string, readonly [Flow, Readonly<Record<string, number>>]>> = {
  "a loop that asks a diamond how it went": [
    {
      goal: "green",
      maxVisits: 3,
      nodes: [
        node("start", pass, [edge(1)]),
        node("build", tool(counted("build")), [edge(2)]),
        node("test", tool(counted("test", FAIL, '{"context_updates":{"color":"blue"}}')), [
          edge(3),
        ]),
        node("ask", pass, [edge(1, when("outcome", "fail")), edge(4, when("color", "blue"))]),
        node("exit", pass, []),
      ],
    },
    { build: 2, test: 2 },
  ],
  "branches, one of which fails": [
    {
      goal: "",
      maxVisits: 2,
      nodes: [
        node("start", pass, [edge(1)]),
        node(
          "fork",
          {
            kind: "fork",
            branches: [[counted("a"), counted("b")], [`${counted("c")}; exit 3`], [counted("d")]],
            maxParallel: 1,
            first: false,
          },
          [edge(2)],
        ),
        node("after", tool(counted("after")), [edge(3)]),
        node("exit", pass, []),
      ],
    },
    { a: 1, b: 1, c: 1, d: 1, after: 1 },
  ],
  "a gate, tries, and a goal that is missed once": [
    {
      goal: 'say "hi"',
      maxVisits: 4,
      nodes: [
        node("start", pass, [edge(1)]),
        node("ask", { kind: "gate", question: "Go on?" }, [
          edge(2, { label: "[Y] Yes" }),
          edge(4, { label: "No" }),
        ]),
        node("try", tool(`${counted("try")}; [ "$(grep -c x effects-try)" -ge 2 ]`, 2), [edge(3)]),
        node(
          "goal",
          tool(counted("goal", FAIL, "")),
          [edge(4, { clauses: [], label: "on" }), edge(4, when("outcome", "fail"))],
          {
            goal: true,
            retryTarget: 1,
          },
        ),
        node("exit", pass, []),
      ],
    },
    { try: 3, goal: 2 },
  ],
};

interface Ran {
  readonly status: string;
  readonly effects: Readonly<Record<string, number>>;
}

async function ran(text: string, names: readonly string[]): Promise<Ran> {
  const project = new PlainProject();
  projects.push(project);
  project.write("flow.dot", text);
  await project.run(["run", "flow.dot", "--auto-approve"]);
  const [run] = await storedRuns(project);
  const count = (name: string): number =>
    project.exists(`effects-${name}`)
      ? project.read(`effects-${name}`).trim().split("\n").length
      : 0;
  return {
    status: run?.status ?? "none",
    effects: Object.fromEntries(names.map((name) => [name, count(name)])),
  };
}

describe("the real program", () => {
  for (const [name, [flow, effects]] of Object.entries(FLOWS)) {
    it(`runs ${name}`, async () => {
      expect(await ran(writeDot(flow), Object.keys(effects))).toEqual({
        status: "completed",
        effects,
      });
    });
  }
});
