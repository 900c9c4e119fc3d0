/** Pictures of plans and runs: exact texts of small ones, escaping, bounds and geometry. */
import { describe, expect, test } from "vitest";
import { EVENT_VERSION } from "../../src/core/event.ts";
import { seededRandom } from "../../src/util/random.ts";
import { dotText } from "../../src/view/graph/dot.ts";
import {
  type Drawing,
  EDGES_MAX,
  ITEMS_MAX,
  leftOutText,
  NODES_MAX,
  planDrawing,
  runDrawing,
} from "../../src/view/graph/drawing.ts";
import { type Box, type Link, layOut } from "../../src/view/graph/layout.ts";
import { mermaidText } from "../../src/view/graph/mermaid.ts";
import { svgText } from "../../src/view/graph/svg.ts";
import { graphJson } from "../../src/view/json/graph-json.ts";
import { graphOf, planOf } from "../core/plans.ts";
import { bad, ok, Play } from "../core/play.ts";
import { randomPlan } from "../sim/random-plan.ts";

const agent = { kind: "agent", agent: "claude", prompt: "x", settings: {} } as const;

function drawn(play: Play): Drawing {
  const events = play.events.map((event, index) => ({
    seq: index + 1,
    time: 1_000,
    version: EVENT_VERSION,
    event,
  }));
  return runDrawing(play.plan, play.run, events, "free");
}

/** A loop, a failure that is handled, an agent, a condition. */
function looping(): Play {
  const plan = planOf("plan>test test!>fix fix>test test>ship", {
    plan: { work: agent },
    test: { join: "any" },
    ship: { when: 'context.risk == "low"' },
  });
  let tests = 0;
  const ending = (path: string) => (path === "test" && tests++ === 0 ? bad : ok({ risk: "low" }));
  return new Play(plan).open().finish(ending);
}

const fan = (count: number, onItemFailure: "fail" | "continue" = "continue") =>
  planOf("each>end", {
    each: {
      work: {
        kind: "each",
        items: "input",
        graph: graphOf("lint>fix"),
        maxParallel: count,
        onItemFailure,
      },
    },
  });

test("a plan as Mermaid", () => {
  expect(mermaidText(planDrawing(looping().plan))).toMatchInlineSnapshot(`
    "flowchart TD
      n1(["plan<br>agent claude"])
      n2["test"]
      n3["fix"]
      n4["ship<br>when context.risk == #34;low#34;"]
      n1 --> n2
      n2 -->|"on failure"| n3
      n3 --> n2
      n2 --> n4
      linkStyle 1 stroke:#cf222e
    "
  `);
});

test("a run as Mermaid", () => {
  expect(mermaidText(drawn(looping()))).toMatchInlineSnapshot(`
    "flowchart TD
      n1(["✓ plan<br>agent claude"])
      n2["✓ test<br>visit 2"]
      n3["✓ fix"]
      n4["✓ ship<br>when context.risk == #34;low#34;"]
      n1 ==> n2
      n2 ==>|"on failure"| n3
      n3 ==> n2
      n2 ==> n4
      classDef done fill:#dafbe1,stroke:#1a7f37,color:#1f2328
      class n1,n2,n3,n4 done
      linkStyle 1 stroke:#cf222e
    "
  `);
});

test("a fan-out as Mermaid has a box for each item", () => {
  const play = new Play(fan(2), ["a", { b: 1 }]).open();
  play.finish((path) => (path === "each@1.1[1]/lint" ? bad : ok()));
  expect(mermaidText(drawn(play))).toMatchInlineSnapshot(`
    "flowchart TD
      subgraph n1["✓ each · for each of input · 2 of 2 items, 1 failed"]
        subgraph n2["[0] #34;a#34;"]
          n3["✓ lint"]
          n4["✓ fix"]
        end
        subgraph n5["[1] {#34;b#34;:1}"]
          n6["✗ lint<br>it exited with 1"]
          n7["· fix"]
        end
      end
      n8["✓ end"]
      n1 ==> n8
      n3 ==> n4
      n6 -.-> n7
      classDef done fill:#dafbe1,stroke:#1a7f37,color:#1f2328
      class n1,n2,n3,n4,n8 done
      classDef handled fill:#fff1e5,stroke:#bc4c00,color:#1f2328
      class n5,n6 handled
      classDef pending fill:#ffffff,stroke:#8c959f,color:#1f2328
      class n7 pending
      linkStyle 2 stroke:#8c959f
    "
  `);
});

test("a loop as Mermaid shows the states of its last iteration", () => {
  const work = {
    kind: "loop",
    graph: graphOf("edit>grade"),
    until: "results.grade.exit == 0",
    iterationsMax: 3,
    onExhausted: "continue",
  } as const;
  const plan = planOf("polish>end", { polish: { work } });
  expect(mermaidText(planDrawing(plan))).toMatchInlineSnapshot(`
    "flowchart TD
      subgraph n1["polish · until results.grade.exit == 0 · at most 3 times"]
        n2["edit"]
        n3["grade"]
      end
      n4["end"]
      n1 --> n4
      n2 --> n3
    "
  `);
  expect(
    mermaidText(drawn(new Play(plan).open().end("polish@1.1[0]/edit"))),
  ).toMatchInlineSnapshot(`
    "flowchart TD
      subgraph n1["▶ polish · until results.grade.exit == 0 · at most 3 times · was running · iteration 1"]
        n2["✓ edit"]
        n3["▶ grade<br>was running"]
      end
      n4["· end"]
      n1 -.-> n4
      n2 ==> n3
      classDef running fill:#ddf4ff,stroke:#0969da,color:#1f2328
      class n1,n3 running
      classDef done fill:#dafbe1,stroke:#1a7f37,color:#1f2328
      class n2 done
      classDef pending fill:#ffffff,stroke:#8c959f,color:#1f2328
      class n4 pending
      linkStyle 0 stroke:#8c959f
    "
  `);
});

test("edges with the same text for success and failure are drawn as one", () => {
  const { picture } = planDrawing(planOf("ask>yes?go ask!>yes?go"));
  expect(picture.edges.map(({ label, failure }) => [label, failure])).toEqual([["go", false]]);
});

test("a plan as DOT", () => {
  expect(dotText(planDrawing(fan(2)))).toMatchInlineSnapshot(`
    "digraph "test" {
      compound=true;
      node [shape=box, style="filled", fontname="Courier", fontsize=11];
      edge [fontname="Courier", fontsize=9];
      graph [fontname="Courier", fontsize=11];
      subgraph cluster_n1 {
        label="each\\nfor each of input"; style="filled"; fillcolor="#f6f8fa"; color="#57606a";
        n2 [label="lint", style="filled", fillcolor="#f6f8fa", color="#57606a"];
        n3 [label="fix", style="filled", fillcolor="#f6f8fa", color="#57606a"];
        n2 -> n3;
      }
      n4 [label="end", style="filled", fillcolor="#f6f8fa", color="#57606a"];
      n3 -> n4 [ltail=cluster_n1];
    }
    "
  `);
});

test("a run as DOT", () => {
  expect(dotText(drawn(looping()))).toMatchInlineSnapshot(`
    "digraph "test" {
      compound=true;
      node [shape=box, style="filled", fontname="Courier", fontsize=11];
      edge [fontname="Courier", fontsize=9];
      graph [fontname="Courier", fontsize=11];
      n1 [label="✓ plan\\nagent claude", style="filled,rounded", fillcolor="#dafbe1", color="#1a7f37"];
      n2 [label="✓ test\\nvisit 2", style="filled", fillcolor="#dafbe1", color="#1a7f37"];
      n3 [label="✓ fix", style="filled", fillcolor="#dafbe1", color="#1a7f37"];
      n4 [label="✓ ship\\nwhen context.risk == \\"low\\"", style="filled", fillcolor="#dafbe1", color="#1a7f37"];
      n1 -> n2 [style=bold];
      n2 -> n3 [label="on failure", style=bold, color="#cf222e"];
      n3 -> n2 [style=bold, constraint=false];
      n2 -> n4 [style=bold];
    }
    "
  `);
});

test("a run as SVG", () => {
  const svg = svgText(drawn(new Play(planOf("a>b")).open().end("a", bad)));
  expect(
    svg.replace(/<style>.*<\/style>/, "<style/>").replace(/<defs>.*<\/defs>/, "<defs/>"),
  ).toMatchInlineSnapshot(`
    "<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" width="196" height="190" viewBox="0 0 196 190">
    <title>test</title>
    <style/>
    <defs/>
    <rect class="ground" width="196" height="190"/>
    <g class="failed">
    <title>✗ a it exited with 1</title>
    <rect x="20" y="20" width="156" height="49" rx="8"/>
    <circle cx="40" cy="36.5" r="8"/>
    <text class="mark" x="40" y="40">✗</text>
    <text x="56" y="40.5">a</text>
    <text class="small" text-anchor="start" x="32" y="58">it exited with 1</text>
    </g>
    <g class="pending">
    <title>· b</title>
    <rect x="20" y="121" width="156" height="49" rx="8"/>
    <circle cx="40" cy="137.5" r="8"/>
    <text class="mark" x="40" y="141">·</text>
    <text x="56" y="141.5">b</text>
    </g>
    <path class="untaken" d="M98 69 L98 121" marker-end="url(#faint)"/>
    </svg>
    "
  `);
});

describe("texts that look like markup", () => {
  const evil = '"]; <b>&x</b> `y` \\ # 100%; $z | {a} -- _i_ *j* \u001b[31mred\nline';
  const plan = planOf("a>b", { a: { when: evil }, b: { work: { ...agent, agent: evil } } });
  const named = { ...plan, name: evil };

  test("cannot end a label in Mermaid", () => {
    for (const line of mermaidText(planDrawing(named)).split("\n")) {
      const label = /^ {2}n\d+\(?\[(.*)\]\)?$/.exec(line)?.[1];
      if (label === undefined) continue;
      expect(label).toMatch(/^"(?:[^"#&<>`\\;*|$]|#\d+;|<br>)*"$/);
    }
  });

  test("cannot end a string in DOT", () => {
    for (const [, body = ""] of dotText(planDrawing(named)).matchAll(
      /label=("(?:\\.|[^"\\])*")/g,
    )) {
      const text = JSON.parse(body) as string;
      expect(text).toMatch(/^[ab]\n/);
    }
  });

  test("cannot open a tag in SVG", () => {
    const svg = svgText(planDrawing(named));
    expect(isWellFormed(svg)).toBe(true);
    expect(svg).not.toContain("<b>");
    expect(svg).not.toMatch(/[^\n\P{Cc}]/u);
  });
});

describe("the limits of a picture (view/B1)", () => {
  test("draw the first steps of a plan with 100,000, and count the others", () => {
    const steps = Array.from({ length: 100_000 }, (_, index) => `s${index}`);
    const small = planOf("a>b");
    const [first] = small.graph.steps;
    const graph = {
      steps: steps.map((id) => ({ ...(first as NonNullable<typeof first>), id })),
      edges: steps.slice(1).map((_, index) => ({
        from: index,
        to: index + 1,
        on: "completed" as const,
        weight: 0,
        back: false,
      })),
    };
    const drawing = planDrawing({ ...small, graph });
    expect(drawing.picture.nodes).toHaveLength(NODES_MAX);
    expect(leftOutText(drawing)).toBe("not drawn: 99500 more steps, 99500 more edges");
    for (const text of [mermaidText(drawing), dotText(drawing), svgText(drawing)]) {
      expect(text).toContain("not drawn: 99500 more steps");
    }
  });

  test("draw the first edges of a plan in which each step leads to every other one", () => {
    const ids = Array.from({ length: 120 }, (_, index) => `s${index}`);
    const edges = ids.flatMap((to, index) => ids.slice(0, index).map((from) => `${from}>${to}`));
    const drawing = planDrawing(planOf(edges.join(" ")));
    expect(drawing.picture.edges).toHaveLength(EDGES_MAX);
    expect(leftOutText(drawing)).toBe("not drawn: 5140 more edges");
    expect(isWellFormed(svgText(drawing))).toBe(true);
  });

  test("draw failed items first when there are many", () => {
    const items = Array.from({ length: 100 }, (_, index) => index);
    const play = new Play(fan(4), items).open();
    play.finish((path) => (path === "each@1.1[77]/lint" ? bad : ok()));
    const [each] = drawn(play).picture.nodes;
    const shown = each?.inner?.nodes.map(({ label }) => label);
    expect(shown).toHaveLength(ITEMS_MAX);
    expect(shown?.slice(0, 3)).toEqual(["[77] 77", "[0] 0", "[1] 1"]);
    expect(each?.notes).toEqual([
      "for each of input",
      "100 of 100 items, 1 failed",
      "and 92 more items that are not drawn",
    ]);
  });
});

describe("the layout", () => {
  test("keeps boxes apart and below the boxes that lead to them (view/Q1)", () => {
    const random = seededRandom(7);
    for (let round = 0; round < 200; round++) {
      const count = 1 + random.below(25);
      const boxes: Box[] = Array.from({ length: count }, () => ({
        width: 40 + random.below(200),
        height: 20 + random.below(150),
      }));
      const links: Link[] = Array.from({ length: random.below(2 * count) }, () => {
        const [a, b] = [random.below(count), random.below(count)];
        const back = a >= b || random.chance(0.1);
        return { from: a, to: b, back, labelWidth: random.below(50) };
      });
      expectGoodLayout(boxes, links);
    }
  });

  test("is well-formed for random plans", () => {
    for (let seed = 1; seed <= 100; seed++) {
      const svg = svgText(planDrawing(randomPlan(seededRandom(seed))));
      expect(isWellFormed(svg)).toBe(true);
      expect(svg).not.toContain("NaN");
    }
  });
});

describe("the positions in the JSON of a picture", () => {
  test("put boxes inside their parents, and edges between boxes", () => {
    const play = new Play(fan(2), ["a", "b"]).open().finish(() => ok());
    const graph = graphJson(drawn(play));
    const byId = new Map(graph.nodes.map((node) => [node.id, node]));
    const corner = (id: string | null): { x: number; y: number } => {
      const node = id === null ? undefined : byId.get(id);
      if (node === undefined) return { x: 0, y: 0 };
      const { x, y } = corner(node.parent);
      return { x: x + node.x, y: y + node.y };
    };
    const around = { width: graph.width, height: graph.height };
    for (const node of graph.nodes) {
      const parent = node.parent === null ? around : byId.get(node.parent);
      expect(node.x).toBeGreaterThanOrEqual(0);
      expect(node.x + node.width).toBeLessThanOrEqual((parent?.width ?? 0) + 0.2);
      expect(node.y + node.height).toBeLessThanOrEqual((parent?.height ?? 0) + 0.2);
    }
    expect(graph.edges).toHaveLength(3);
    for (const { from, to, points } of graph.edges) {
      expect(points[0]?.y).toBeCloseTo(corner(from).y + (byId.get(from)?.height ?? 0), 0);
      expect(points.at(-1)?.y).toBeCloseTo(corner(to).y, 0);
    }
  });

  test("do not move when the run progresses (view/Q3)", () => {
    const boxes = (play: Play) =>
      graphJson(drawn(play)).nodes.map(({ x, y, width, height }) => [x, y, width, height]);
    const play = new Play(planOf("plan>test test>ship", { plan: { work: agent } })).open();
    const before = boxes(play);
    expect(boxes(play.end("plan", ok()).end("test", bad))).toEqual(before);
  });
});

function expectGoodLayout(boxes: readonly Box[], links: readonly Link[]): void {
  const { corners, routes, width, height } = layOut(boxes, links);
  const placed = boxes.map((box, index) => ({ ...box, ...corners[index] }));
  for (const [index, one] of placed.entries()) {
    expect(one.x).toBeGreaterThanOrEqual(0);
    expect((one.x ?? 0) + one.width).toBeLessThanOrEqual(width + 1e-6);
    expect((one.y ?? 0) + one.height).toBeLessThanOrEqual(height + 1e-6);
    for (const other of placed.slice(index + 1)) {
      const beside =
        (one.x ?? 0) + one.width <= (other.x ?? 0) || (other.x ?? 0) + other.width <= (one.x ?? 0);
      const below =
        (one.y ?? 0) + one.height <= (other.y ?? 0) ||
        (other.y ?? 0) + other.height <= (one.y ?? 0);
      expect(beside || below).toBe(true);
    }
  }
  for (const [index, { from, to, back }] of links.entries()) {
    const upper = placed[from];
    const lower = placed[to];
    const [first, last] = [routes[index]?.points[0], routes[index]?.points.at(-1)];
    expect(first?.y).toBeCloseTo((upper?.y ?? 0) + (upper?.height ?? 0));
    expect(last?.y).toBeCloseTo(lower?.y ?? 0);
    if (!back) expect(lower?.y).toBeGreaterThanOrEqual((upper?.y ?? 0) + (upper?.height ?? 0));
  }
}

/** Every tag is closed, in order, and nothing outside of tags looks like one. */
function isWellFormed(xml: string): boolean {
  const open: string[] = [];
  const rest = xml
    .replace(/<style>[^<]*<\/style>/g, "")
    .replace(
      /<(\/?)([a-z]+)((?: [\w:-]+="[^"<]*")*)(\/?)>/g,
      (_, closing: string, name: string, _attributes: string, empty: string) => {
        if (closing === "/" && open.pop() !== name) open.push("!");
        if (closing === "" && empty === "") open.push(name);
        return "";
      },
    );
  return open.length === 0 && !/[<>]|&(?!(?:amp|lt|gt|quot|#39);)/.test(rest);
}
