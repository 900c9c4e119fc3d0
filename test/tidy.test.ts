/** The rules of the house that a machine can hold: rooms, purity, names, sizes. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { functionsIn } from "../scripts/source-functions.ts";

const SRC = resolve(import.meta.dirname, "../src");

/** Each room may import itself and what its row says. */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  util: [],
  pipeline: ["util"],
  plan: ["pipeline", "util"],
  core: ["plan", "util"],
  view: ["core", "plan", "util"],
  journal: ["core", "util"],
  workspace: ["util"],
  runner: ["util"],
  engine: ["core", "plan", "journal", "workspace", "runner", "util"],
  telemetry: ["view", "util"],
  app: [
    ...["util", "pipeline", "plan", "core", "view", "journal", "workspace", "runner", "engine"],
    "telemetry",
  ],
  // Faces parse, call and show. Types of other rooms are no code, so a face may name them.
  cli: ["app", "view", "core", "util"],
  library: ["app", "view", "core", "util", "pipeline"],
  web: ["app", "view", "core", "util"],
  mcp: ["app", "view", "core", "util"],
  fleet: ["app", "view", "core", "util"],
  // The page runs in a browser: it takes documents from the server, and pure functions from here.
  page: ["view", "util"],
};

/** Rooms that may name the types of every room. */
const FACES = ["cli", "library", "web", "mcp", "fleet", "page"];

/** C1: these read no clock, no environment, no disk and no dice, and return no promise. */
const PURE = ["core", "plan", "view"];
const FILE_LINES_MAX = 450;
const LINE_COLUMNS_MAX = 110;
const FUNCTION_LINES_MAX = 70;

interface Source {
  readonly path: string;
  readonly room: string;
  readonly text: string;
  readonly lines: readonly string[];
  readonly imports: readonly string[];
}

const sources: readonly Source[] = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.tsx?$/.test(name))
  .map((name) => {
    const text = readFileSync(join(SRC, name), "utf8");
    const imports = [...text.matchAll(/(?:from|import\()\s*"([^"]+)"/g)].map(
      (match) => match[1] ?? "",
    );
    return { path: name, room: name.split("/")[0] ?? "", text, lines: text.split("\n"), imports };
  });

/** The files that a source imports, relative to src. */
function localImports({ path, imports }: Pick<Source, "path" | "imports">): readonly string[] {
  return imports
    .filter((name) => name.startsWith("."))
    .map((name) => relative(SRC, resolve(SRC, dirname(path), name)));
}

/** A source without the imports and exports that only name types. */
function withoutTypes({ path, text }: Source): Pick<Source, "path" | "imports"> {
  const code = text.replace(/^(import|export) type [^;]*;/gm, "");
  const imports = [...code.matchAll(/(?:from|import\()\s*"([^"]+)"/g)].map(
    ([, name]) => name ?? "",
  );
  return { path, imports };
}

describe("rooms", () => {
  it("are all in the table", () => {
    expect([...new Set(sources.map(({ room }) => room))].sort()).toEqual(Object.keys(ROOMS).sort());
  });

  it("import only what their row says", () => {
    const wrong = sources.flatMap((source) =>
      localImports(FACES.includes(source.room) ? withoutTypes(source) : source)
        .map((target) => target.split("/")[0] ?? "")
        .filter((room) => room !== source.room && !ROOMS[source.room]?.includes(room))
        .filter((room) => room !== "..")
        .map((room) => `${source.path} imports ${room}`),
    );
    expect(wrong).toEqual([]);
  });

  it("have no import cycles", () => {
    const byPath = new Map(sources.map((source) => [source.path, source]));
    const done = new Set<string>();
    const cycles: string[] = [];
    const visit = (path: string, trail: readonly string[]): void => {
      if (trail.includes(path)) {
        cycles.push([...trail.slice(trail.indexOf(path)), path].join(" -> "));
        return;
      }
      const source = byPath.get(path);
      if (source === undefined || done.has(path)) return;
      for (const target of localImports(source)) visit(target, [...trail, path]);
      done.add(path);
    };
    for (const { path } of sources) visit(path, []);
    expect(cycles).toEqual([]);
  });
});

describe("what speaks to a server", () => {
  /** What is behind `import()` and only needed for a store. */
  const DOOR = /^(journal\/postgres|app\/fleet|fleet)\//;
  /** Everything that a source may load without passing a door. */
  const loadedBy = (entry: string): ReadonlySet<string> => {
    const byPath = new Map(sources.map((source) => [source.path, source]));
    const seen = new Set<string>();
    const visit = (name: string): void => {
      const source = byPath.get(name);
      if (seen.has(name)) return;
      seen.add(name);
      if (source === undefined) return;
      const code = source.text.replace(/^(import|export) type [^;]*;/gm, "");
      for (const [, kind = "", to = ""] of code.matchAll(/(from |import\()\s*"([^"]+)"/g)) {
        const path = to.startsWith(".") ? relative(SRC, resolve(SRC, dirname(name), to)) : to;
        if (kind === "from " || !DOOR.test(path)) visit(path);
      }
    };
    visit(entry);
    return seen;
  };

  it("is loaded by no program that has no address of one", () => {
    const entries = ["cli/main.ts", "library/perdure.ts", "web/main.ts", "mcp/main.ts"];
    for (const entry of entries) {
      const loaded = [...loadedBy(entry)];
      expect(loaded.length).toBeGreaterThan(100);
      expect(loaded.filter((name) => /^pg(-boss)?$|journal\/postgres/.test(name))).toEqual([]);
    }
    expect([...loadedBy("journal/postgres/postgres.ts")]).toContain("pg");
  });

  it("is in one room for each library", () => {
    const users = (name: string): readonly string[] =>
      sources.filter(({ imports }) => imports.includes(name)).map(({ path }) => dirname(path));
    expect([...new Set(users("pg"))]).toEqual(["journal/postgres"]);
    expect(users("pg-boss").filter((folder) => folder !== "app/fleet")).toEqual([]);
  });
});

describe("pure rooms (C1)", () => {
  const pure = sources.filter(({ room }) => PURE.includes(room));

  it("import nothing from node", () => {
    const wrong = pure.filter(({ imports }) => imports.some((name) => name.startsWith("node:")));
    expect(wrong.map(({ path }) => path)).toEqual([]);
  });

  it("read no clock, environment or dice, and wait for nothing", () => {
    const FORBIDDEN =
      /\b(Date\.now|new Date\(\)|Math\.random|performance\.|process\.|await |Promise<)/;
    const wrong = pure.flatMap(({ path, lines }) =>
      lines.flatMap((line, index) =>
        FORBIDDEN.test(line.replace(/\/[/*].*|^\s*\*.*/, "")) ? [`${path}:${index + 1}`] : [],
      ),
    );
    expect(wrong).toEqual([]);
  });
});

describe("files", () => {
  it("are named as nouns in kebab case", () => {
    const wrong = sources.filter(({ path }) => {
      const name = path.split("/").at(-1) ?? "";
      const vague = /^(utils?|helpers?|types|common|index|misc)\.ts$/.test(name);
      return vague || !/^[a-z0-9]+(-[a-z0-9]+)*\.tsx?$/.test(name);
    });
    expect(wrong.map(({ path }) => path)).toEqual([]);
  });

  it("begin with what they are for", () => {
    const wrong = sources.filter(({ text, lines }) => lines.length > 40 && !text.startsWith("/**"));
    expect(wrong.map(({ path }) => path)).toEqual([]);
  });

  it("are not too long, nor are their lines", () => {
    const long = sources.filter(({ lines }) => lines.length > FILE_LINES_MAX);
    const wide = sources.flatMap(({ path, lines }) =>
      lines.flatMap((line, index) =>
        line.length > LINE_COLUMNS_MAX ? [`${path}:${index + 1}`] : [],
      ),
    );
    expect([...long.map(({ path }) => path), ...wide]).toEqual([]);
  });

  it("have functions that fit on a screen", () => {
    const wrong = sources.flatMap(({ path, lines }) =>
      functionsIn(lines)
        .filter((found) => found.lines > FUNCTION_LINES_MAX)
        .map((found) => `${path}:${found.line}`),
    );
    expect(wrong).toEqual([]);
  });

  it("say what each exported function and class is for", () => {
    const wrong = sources.flatMap(({ path, lines }) =>
      lines.flatMap((line, index) => {
        const exported = /^export (async )?(function|class|abstract class)\b/.test(line);
        // A component is named after what it shows.
        if (path.endsWith(".tsx") && /^export function [A-Z]/.test(line)) return [];
        return exported && !/\*\/$/.test(lines[index - 1] ?? "") ? [`${path}:${index + 1}`] : [];
      }),
    );
    expect(wrong).toEqual([]);
  });

  it("name nothing Manager, Service, Handler, Helper or Impl, and export no default", () => {
    const wrong = sources.filter(({ text }) =>
      /\b(class|interface|type) \w*(Manager|Service|Handler|Helper|Impl)\b|^export default|^(export )?(const )?enum /m.test(
        text,
      ),
    );
    expect(wrong.map(({ path }) => path)).toEqual([]);
  });

  it("outside journal do not know which journal they have", () => {
    const wrong = sources.filter(({ room, imports }) => {
      const known = imports.some((name) => /journal\/(sqlite|postgres|memory)/.test(name));
      return room !== "journal" && known;
    });
    expect(wrong.map(({ path }) => path)).toEqual([]);
  });

  it("hold SQL only where SQL lives (journal/J3)", () => {
    const SQL = /["'`]\s*(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE TABLE)\b/;
    const homes = /^journal\/(sqlite|postgres)\/(sql|migrations)\.ts$/;
    const wrong = sources.filter(({ path, text }) => SQL.test(text) && !homes.test(path));
    expect(wrong.map(({ path }) => path)).toEqual([]);
  });
});
