/** The adapters' command lines, word for word, and where they look for transcripts. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { acp } from "../../src/runner/agents/acp/acp.ts";
import type { AgentAdapter, AgentCall } from "../../src/runner/agents/adapter.ts";
import { claude } from "../../src/runner/agents/claude/claude.ts";
import { codex } from "../../src/runner/agents/codex/codex.ts";
import { gemini } from "../../src/runner/agents/gemini/gemini.ts";
import { opencode } from "../../src/runner/agents/opencode/opencode.ts";
import { agentAdapter } from "../../src/runner/agents/registry.ts";
import { KNOWN_AGENTS, type PermissionLevel } from "../../src/util/agent-access.ts";

const ID = "0f0e0d0c-0b0a-4908-8706-050403020100";
const SES = "ses_0a1b2c3d4e5fAAAAbbbbCCCC01";
const AT = { kind: "start", promptFile: "/a/prompt", dir: "/a", cwd: "/w" } as const;
const PLAIN: AgentCall = { ...AT, env: { HOME: "/no" }, permissions: "default", args: [] };
const FULL = {
  ...{ model: "m", system: 'Be "brief".\n', maxTurns: 3, args: ["--more", "x"] },
  outputSchema: { type: "object" },
} as const;
const ROOT = process.getuid?.() === 0;

const argvOf = (adapter: AgentAdapter, call: Partial<AgentCall>): readonly string[] =>
  adapter.command({ ...PLAIN, ...call }).argv;

describe("claude", () => {
  const HEAD = [
    ...["claude", "-p", "--output-format", "stream-json", "--verbose"],
    "--include-partial-messages",
  ];

  it("starts and continues", () => {
    const session = ID;
    expect(argvOf(claude, {})).toEqual(HEAD);
    expect(argvOf(claude, { session })).toEqual([...HEAD, "--session-id", ID]);
    expect(argvOf(claude, { session, kind: "continue" })).toEqual([...HEAD, "--resume", ID]);
  });

  it("takes permissions", () => {
    const edit = ["--permission-mode", "acceptEdits"];
    expect(argvOf(claude, { permissions: "edit" })).toEqual([...HEAD, ...edit]);
    const all = claude.command({ ...PLAIN, permissions: "all" });
    expect(all.argv).toEqual([...HEAD, "--dangerously-skip-permissions"]);
    expect(all.env.IS_SANDBOX).toBe(ROOT ? "1" : undefined);
    expect(claude.command({ ...PLAIN, permissions: "edit" }).env.IS_SANDBOX).toBeUndefined();
  });

  it("takes everything", () => {
    const { argv, files, before } = claude.command({ ...PLAIN, ...FULL, session: ID });
    expect(argv).toEqual([
      ...[...HEAD, "--session-id", ID, "--model", "m"],
      ...["--append-system-prompt-file", "/a/system.md", "--max-turns", "3"],
      ...["--json-schema", '{"type":"object"}', "--more", "x"],
    ]);
    expect(files).toEqual({ "system.md": FULL.system });
    expect(before).toBeUndefined();
  });

  it("is quiet, unless the author has set it otherwise", () => {
    expect(claude.command(PLAIN).env).toEqual({
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_TELEMETRY: "1",
      DISABLE_AUTOUPDATER: "1",
      DISABLE_ERROR_REPORTING: "1",
    });
    const env = { HOME: "/no", DISABLE_TELEMETRY: "0", DISABLE_AUTOUPDATER: "" };
    expect(Object.keys(claude.command({ ...PLAIN, env }).env)).toEqual([
      "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
      "DISABLE_ERROR_REPORTING",
    ]);
  });
});

describe("codex", () => {
  const FLAGS = ["--json", "--skip-git-repo-check", "-c", "analytics.enabled=false"];
  const START = ["codex", "exec", ...FLAGS];

  it("starts and continues", () => {
    expect(argvOf(codex, {})).toEqual([...START, "-"]);
    const again = argvOf(codex, { session: ID, kind: "continue" });
    expect(again).toEqual(["codex", "exec", "resume", ...FLAGS, ID, "-"]);
  });

  it("takes permissions", () => {
    const edit = ["-c", 'sandbox_mode="workspace-write"'];
    expect(argvOf(codex, { permissions: "edit" })).toEqual([...START, ...edit, "-"]);
    const all = "--dangerously-bypass-approvals-and-sandbox";
    expect(argvOf(codex, { permissions: "all" })).toEqual([...START, all, "-"]);
  });

  it("takes everything but turns", () => {
    const { argv, files, env } = codex.command({ ...PLAIN, ...FULL });
    expect(argv).toEqual([
      ...[...START, "-m", "m", "-c", 'developer_instructions="Be \\"brief\\".\\n"'],
      ...["--output-schema", "/a/output-schema.json", "--more", "x", "-"],
    ]);
    expect(files).toEqual({ "output-schema.json": '{"type":"object"}' });
    expect(env).toEqual({ RUST_LOG: "error" });
    expect(codex.enforces).toEqual({ maxTurns: false, outputSchema: true });
  });
});

describe("gemini", () => {
  const HEAD = ["gemini", "--output-format", "stream-json"];

  it("starts and continues", () => {
    const session = ID;
    expect(argvOf(gemini, { session })).toEqual([...HEAD, "--session-id", ID]);
    expect(argvOf(gemini, { session, kind: "continue" })).toEqual([...HEAD, "--resume", ID]);
  });

  it("takes permissions", () => {
    const edit = ["--skip-trust", "--approval-mode", "auto_edit"];
    expect(argvOf(gemini, { permissions: "edit" })).toEqual([...HEAD, ...edit]);
    expect(argvOf(gemini, { permissions: "all" })).toEqual([...HEAD, "--skip-trust", "--yolo"]);
  });

  it("takes everything but turns and a schema, and no settings", () => {
    const { argv, files, env } = gemini.command({ ...PLAIN, ...FULL });
    const prompt = `--prompt=${FULL.system}`;
    expect(argv).toEqual([...HEAD, "--model", "m", "--more", "x", prompt]);
    expect(files).toEqual({});
    expect(env).toEqual({ GEMINI_TELEMETRY_ENABLED: "false", GEMINI_CLI_NO_RELAUNCH: "true" });
  });
});

describe("opencode", () => {
  const HEAD = ["opencode", "run", "--format", "json"];

  it("starts with an import, and continues without one", () => {
    const start = opencode.command({ ...PLAIN, session: SES });
    expect(start.argv).toEqual([...HEAD, "--session", SES]);
    expect(start.before).toEqual(["opencode", "import", "/a/opencode-session.json"]);
    expect(JSON.parse(start.files["opencode-session.json"] ?? "")).toMatchObject({
      info: { id: SES, directory: "/w", title: "perdure" },
      messages: [],
    });
    const again = opencode.command({ ...PLAIN, session: SES, kind: "continue" });
    expect(again).toEqual({
      argv: [...HEAD, "--session", SES],
      env: { OPENCODE_DISABLE_AUTOUPDATE: "1" },
      files: {},
    });
    expect(argvOf(opencode, {})).toEqual([...HEAD, "--title", "perdure"]);
  });

  it("takes permissions", () => {
    const session = SES;
    expect(argvOf(opencode, { session, permissions: "all" })).toEqual([
      ...[...HEAD, "--session", SES, "--auto"],
    ]);
    const edit = opencode.command({ ...PLAIN, session, permissions: "edit" });
    expect(edit.argv).toEqual([...HEAD, "--session", SES]);
    expect(edit.env.OPENCODE_PERMISSION).toBe('{"edit":"allow"}');
    const env = { OPENCODE_PERMISSION: '{"edit":"deny","bash":"ask"}' };
    const denied = opencode.command({ ...PLAIN, env, permissions: "edit" });
    expect(denied.env.OPENCODE_PERMISSION).toBe('{"edit":"deny","bash":"ask"}');
  });

  it("adds its instructions to the author's configuration", () => {
    const content = (env: AgentCall["env"]) => opencode.command({ ...PLAIN, ...FULL, env });
    expect(content({}).env.OPENCODE_CONFIG_CONTENT).toBe('{"instructions":["/a/system.md"]}');
    const set = { OPENCODE_CONFIG_CONTENT: '{"model":"x/y","instructions":["/mine.md"]}' };
    expect(content(set).env.OPENCODE_CONFIG_CONTENT).toBe(
      '{"model":"x/y","instructions":["/mine.md","/a/system.md"]}',
    );
    const commented = content({ OPENCODE_CONFIG_CONTENT: "{ /* mine */ }" });
    expect(commented.env.OPENCODE_CONFIG_CONTENT).toBeUndefined();
    expect(commented.env.OPENCODE_CONFIG).toBe("/a/opencode-config.json");
    expect(commented.files["opencode-config.json"]).toBe('{"instructions":["/a/system.md"]}');
  });
});

describe("acp", () => {
  const callIn = (call: Partial<AgentCall>): unknown => {
    const { files } = acp.command({ ...PLAIN, command: "gemini --acp", ...call });
    return JSON.parse(files["acp-call.json"] ?? "");
  };
  const PLACES = { cwd: "/w", promptFile: "/a/prompt" };

  it("starts Perdure's client, which reads the rest from a file", () => {
    const main = join(import.meta.dirname, "../../src/runner/agents/acp/acp-main.ts");
    expect(argvOf(acp, {})).toEqual([process.execPath, main, "/a/acp-call.json"]);
    const plain = { ...PLACES, command: "gemini --acp", permissions: "default" };
    expect(callIn({})).toEqual(plain);
    expect(callIn({ session: ID })).toEqual(plain);
    expect(callIn({ session: ID, kind: "continue" })).toEqual({ ...plain, session: ID });
  });

  it("takes all that an author can say; arguments stay words", () => {
    const { model, system } = FULL;
    expect(callIn({ ...FULL, args: ["--a b", "$c"], permissions: "edit" })).toEqual({
      ...{ ...PLACES, model, system, permissions: "edit" },
      command: "gemini --acp '--a b' '$c'",
    });
  });

  it("leaves it to the agent whether it has a conversation", () => {
    expect(acp.newSession()).toBeUndefined();
    expect(acp.transcript(ID, { cwd: "/w", env: {} })).toBe(ID);
  });
});

/** The adapters that start the program of somebody else, without a `command` of the author. */
function programs(): readonly AgentAdapter[] {
  const all = KNOWN_AGENTS.map((name) => agentAdapter(name)).filter((one) => one !== undefined);
  return all.filter(({ needsCommand }) => needsCommand !== true);
}

describe("permissions (runner/G4)", () => {
  const DANGEROUS =
    /dangerous|bypass|skip-(permissions|trust)|yolo|--auto\b|auto_edit|acceptEdits|sandbox|allow/i;
  const adapters = programs();
  const wordsOf = (adapter: AgentAdapter, call: AgentCall): readonly string[] => {
    const { argv, env, before = [] } = adapter.command(call);
    return [...argv, ...before, ...Object.keys(env), ...Object.values(env)];
  };

  it("skip nothing by default, whatever the rest of the call is", () => {
    const calls = fc.record({
      kind: fc.constantFrom("start" as const, "continue" as const),
      session: fc.uuid(),
      model: fc.constantFrom("m", "gpt-5"),
      system: fc.constantFrom("Be brief.", ""),
      maxTurns: fc.nat(),
      outputSchema: fc.constant({ type: "object" }),
    });
    const whole = fc.record({ call: calls, adapter: fc.constantFrom(...adapters) });
    fc.assert(
      fc.property(whole, ({ call, adapter }) => {
        const words = wordsOf(adapter, { ...PLAIN, ...call });
        expect(words.filter((word) => DANGEROUS.test(word))).toEqual([]);
      }),
    );
  });

  it("are seen by this test where they are given", () => {
    for (const adapter of adapters) {
      for (const permissions of ["edit", "all"] as const satisfies readonly PermissionLevel[]) {
        const words = wordsOf(adapter, { ...PLAIN, permissions });
        expect(
          words.some((word) => DANGEROUS.test(word)),
          adapter.name,
        ).toBe(true);
      }
    }
  });

  it("keep the author's arguments as they are, last", () => {
    for (const adapter of adapters) {
      const { argv } = adapter.command({ ...PLAIN, session: ID, args: ["--a b", "$c"] });
      const at = argv.indexOf("--a b");
      expect(argv.slice(at, at + 2)).toEqual(["--a b", "$c"]);
    }
  });
});

describe("new sessions", () => {
  it("are of the agent's own form, and never the same", () => {
    const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
    expect(claude.newSession()).toMatch(uuid);
    expect(gemini.newSession()).toMatch(uuid);
    expect(codex.newSession()).toBeUndefined();
    const many = Array.from({ length: 100 }, () => opencode.newSession() ?? "");
    expect(new Set(many).size).toBe(100);
    for (const id of many) expect(id).toMatch(/^ses_[0-9a-f]{12}[0-9A-Za-z]{14}$/);
  });
});

describe("transcripts", () => {
  const scratch = mkdtempSync(join(tmpdir(), "perdure-home-"));
  afterAll(() => rmSync(scratch, { recursive: true }));
  const home = (): string => mkdtempSync(join(scratch, "home-"));

  function put(root: string, path: string, content: string): string {
    const file = join(root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
    return file;
  }

  it("of nobody are nowhere", () => {
    const env = { HOME: home() };
    for (const adapter of programs()) {
      for (const session of [ID, SES, "../../../etc/passwd", "*", ""]) {
        expect(adapter.transcript(session, { cwd: "/w", env })).toBeUndefined();
      }
    }
  });

  it("of Claude are found in any project, at home or where a variable says", () => {
    const root = home();
    const cwd = "/w";
    const user = '{"parentUuid":null,"type":"user","message":{}}\n';
    const own = put(root, `.claude/projects/-w/${ID}.jsonl`, user);
    expect(claude.transcript(ID, { cwd, env: { HOME: root } })).toBe(own);
    const other = put(root, `config/projects/-x/${ID}.jsonl`, user);
    const env = { HOME: root, CLAUDE_CONFIG_DIR: join(root, "config") };
    expect(claude.transcript(ID, { cwd, env })).toBe(other);
  });

  it("of Claude and Gemini in which nothing was said are none, and make way", () => {
    const root = home();
    const env = { HOME: root };
    const torn = '{"type":"queue-operation"}\n{"type":"user","mess';
    const file = put(root, `.claude/projects/-w/${ID}.jsonl`, torn);
    expect(claude.transcript(ID, { cwd: "/w", env })).toBeUndefined();
    const call = { ...PLAIN, env, session: ID };
    expect(claude.command(call).before).toEqual(["rm", "-f", "--", file]);
    expect(claude.command({ ...call, kind: "continue" }).before).toBeUndefined();
    const chat = `.gemini/tmp/w/chats/session-2026-01-01T00-00-${ID.slice(0, 8)}.jsonl`;
    const empty = put(root, chat, `{"sessionId":"${ID}","kind":"main"}\n`);
    expect(gemini.transcript(ID, { cwd: "/w", env })).toBeUndefined();
    expect(gemini.command(call).before).toEqual(["rm", "-f", "--", empty]);
  });

  it("of Codex are found by their day", () => {
    const root = home();
    const path = `sessions/2026/01/02/rollout-2026-01-02T03-04-05-${ID}.jsonl`;
    const own = put(root, `.codex/${path}`, "{}\n");
    expect(codex.transcript(ID, { cwd: "/w", env: { HOME: root } })).toBe(own);
    const other = put(root, `elsewhere/${path}`, "{}\n");
    const env = { HOME: root, CODEX_HOME: join(root, "elsewhere") };
    expect(codex.transcript(ID, { cwd: "/w", env })).toBe(other);
  });

  it("of Codex that do not even say whose they are are none: it cannot resume them", () => {
    const root = home();
    const path = `.codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-${ID}.jsonl`;
    const at = { cwd: "/w", env: { HOME: root } };
    for (const begun of ["", '{"type":"session_me', '{"type":"session_meta"}']) {
      put(root, path, begun);
      expect([begun, codex.transcript(ID, at)]).toEqual([begun, undefined]);
    }
    const whole = put(root, path, '{"type":"session_meta"}\n{"type":"eve');
    expect(codex.transcript(ID, at)).toBe(whole);
  });

  it("of Gemini belong to one directory and one id", () => {
    const root = home();
    const env = { HOME: root };
    const name = `session-2026-01-01T00-00-${ID.slice(0, 8)}.jsonl`;
    const said = (id: string): string => `{"sessionId":"${id}"}\n{"id":"1","type":"user"}\n`;
    put(root, `.gemini/tmp/a/chats/${name}`, said(ID.replace(/0$/, "1")));
    const own = put(root, `.gemini/tmp/b/chats/${name}`, said(ID));
    put(root, ".gemini/tmp/b/.project_root", root);
    expect(gemini.transcript(ID, { cwd: root, env })).toBe(own);
    expect(gemini.transcript(ID, { cwd: "/elsewhere", env })).toBeUndefined();
    const moved = { HOME: "/no", GEMINI_CLI_HOME: root };
    expect(gemini.transcript(ID, { cwd: root, env: moved })).toBe(own);
  });

  it("of opencode are in its database once something was said", () => {
    const root = home();
    const env = { HOME: root };
    const file = put(root, ".local/share/opencode/opencode.db", "");
    const database = new DatabaseSync(file);
    database.exec(
      "PRAGMA journal_mode = WAL; CREATE TABLE message (id TEXT, session_id TEXT, data TEXT)",
    );
    expect(opencode.transcript(SES, { cwd: "/w", env })).toBeUndefined();
    database.prepare("INSERT INTO message VALUES ('1', ?, '{}')").run(SES);
    // It is found while opencode has the database open, and after.
    expect(opencode.transcript(SES, { cwd: "/w", env })).toBe(file);
    database.close();
    expect(opencode.transcript(SES, { cwd: "/w", env })).toBe(file);
    const data = { HOME: "/no", XDG_DATA_HOME: join(root, ".local/share") };
    expect(opencode.transcript(SES, { cwd: "/w", env: data })).toBe(file);
  });
});
