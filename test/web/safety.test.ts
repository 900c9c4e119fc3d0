/** The safety rules of the server, each with an attack that fails (web/A1, web/A2, web/B1). */
import * as fs from "node:fs";
import { type IncomingHttpHeaders, request } from "node:http";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ENDPOINTS } from "../../src/web/endpoints.ts";
import { Dashboard } from "../rig/dashboard.ts";
import { Project } from "../rig/project.ts";

let project: Project;
let env: Record<string, string>;
let dashboard: Dashboard;
let runId: string;
let cookie: string;

beforeAll(async () => {
  project = new Project();
  env = { XDG_STATE_HOME: project.path("state") };
  project.write("quick.yaml", 'name: quick\nsteps:\n  - { id: one, run: "echo one" }\n');
  await project.must(["run", "quick.yaml"], { env });
  runId = await project.newestId();
  dashboard = await Dashboard.start(project, { env });
  const entered = await raw("/", { query: `token=${dashboard.token}`, cookie: "" });
  cookie = (entered.headers["set-cookie"]?.[0] ?? "").split(";")[0] ?? "";
});
afterAll(async () => {
  await project?.remove();
});

interface Raw {
  readonly method?: string;
  readonly query?: string;
  /** Without it: the one that the server gave. */
  readonly cookie?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly port?: number;
}

interface Response {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly code: string | undefined;
}

/** Sends a request exactly as it is: `fetch` would correct paths and headers. */
function raw(
  path: string,
  { method = "GET", query, headers, body, ...rest }: Raw,
): Promise<Response> {
  const own = rest.cookie ?? cookie;
  return new Promise((done, fail) => {
    const sent = request(
      {
        host: "127.0.0.1",
        // Each request has a connection of its own.
        agent: false,
        port: rest.port ?? dashboard.port,
        method,
        path: query === undefined ? path : `${path}?${query}`,
        headers: { ...(own === "" ? {} : { cookie: own }), ...headers },
      },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8");
        answer.on("data", (chunk: string) => {
          text += chunk;
        });
        answer.on("end", () => {
          const isJson = answer.headers["content-type"] === "application/json";
          const code = isJson ? JSON.parse(text).error?.code : undefined;
          done({ status: answer.statusCode ?? 0, headers: answer.headers, text, code });
        });
      },
    );
    sent.on("error", fail);
    sent.end(body);
  });
}

const JSON_TYPE = { "content-type": "application/json" };

describe("the way in", () => {
  it("is the token of the first address, then a strict cookie without the token", async () => {
    const given = await raw("/", { query: `token=${dashboard.token}`, cookie: "" });
    expect([given.status, given.headers.location]).toEqual([303, "/"]);
    const [set = ""] = given.headers["set-cookie"] ?? [];
    expect(set).toMatch(/^perdure=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/$/);
    expect(set).not.toContain(dashboard.token);
    expect((await raw("/api/projects", {})).status).toBe(200);
    const secret = fs.readdirSync(project.path("state", "perdure")).map((name) => {
      return [name, fs.statSync(project.path("state", "perdure", name)).mode & 0o077];
    });
    expect(secret).toEqual([
      ["projects", 0],
      ["ui-secret", 0],
    ]);
    expect(project.read("state", "perdure", "ui-secret")).not.toContain(dashboard.token);
  });

  it.each([
    ["no cookie", { cookie: "" }],
    ["an empty cookie", { cookie: "perdure=" }],
    ["a wrong cookie", { cookie: `perdure=${"A".repeat(43)}` }],
    ["the cookie under another name", { cookie: "other=x" }],
    ["a wrong bearer", { cookie: "", headers: { authorization: "Bearer x" } }],
    ["an empty bearer", { cookie: "", headers: { authorization: "Bearer " } }],
    ["another scheme", { cookie: "", headers: { authorization: "Basic eDp4" } }],
    ["a wrong token", { cookie: "", query: "token=x" }],
  ] as const)("is closed to a request with %s", async (_, sent) => {
    for (const path of ["/api/projects", `/api/runs/${runId}`, "/", "/icon.svg"]) {
      const answer = await raw(path, sent);
      expect([path, answer.status, answer.code]).toEqual([path, 401, "no-token"]);
      expect(answer.text).not.toContain(runId);
    }
  });

  it("tells a person in a browser what to do", async () => {
    const headers = { "sec-fetch-dest": "document", "sec-fetch-site": "none" };
    const answer = await raw("/", { cookie: "", headers });
    expect([answer.status, answer.headers["content-type"]]).toEqual([
      401,
      "text/plain; charset=utf-8",
    ]);
    expect(answer.text).toContain("perdure ui");
  });

  it("leads on from a page of our own after a click in another program", async () => {
    const headers = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" };
    const answer = await raw("/", { cookie: "", query: `token=${dashboard.token}`, headers });
    expect([answer.status, answer.headers["set-cookie"]?.length]).toEqual([200, 1]);
    expect(answer.text).toContain('url=/"');
  });
});

describe("pages of other sites", () => {
  it.each([
    ["another name (DNS rebinding)", { host: "evil.example" }, "wrong-host"],
    ["another port of this machine", { host: "127.0.0.1:1" }, "wrong-host"],
    ["a name with ours in it", { host: "127.0.0.1.evil.example" }, "wrong-host"],
    ["a foreign origin", { origin: "https://evil.example" }, "foreign-origin"],
    ["no origin at all, from a sandbox", { origin: "null" }, "foreign-origin"],
    ["the origin of another local server", { origin: "http://127.0.0.1:1" }, "foreign-origin"],
    ["a request across sites", { "sec-fetch-site": "cross-site" }, "cross-site"],
    ["a request from another local port", { "sec-fetch-site": "same-site" }, "cross-site"],
  ])("cannot ask with %s", async (_, headers, code) => {
    const own = `127.0.0.1:${dashboard.port}`;
    for (const method of ["GET", "POST"]) {
      const body = method === "POST" ? { body: "{}" } : {};
      const sent = { method, headers: { host: own, ...JSON_TYPE, ...headers }, ...body };
      const answer = await raw(`/api/runs/${runId}/show`, sent);
      expect([answer.code, answer.headers["access-control-allow-origin"]]).toEqual([
        code,
        undefined,
      ]);
      expect([403, 421]).toContain(answer.status);
    }
  });

  it("cannot use a token that they guess to set a cookie", async () => {
    const headers = { "sec-fetch-site": "cross-site" };
    const answer = await raw("/", { cookie: "", query: "token=guess", headers });
    expect([answer.status, answer.headers["set-cookie"]]).toEqual([403, undefined]);
  });

  it("cannot send a form: a change needs JSON, and a preflight is not answered", async () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
      const headers = { "content-type": type };
      const answer = await raw(`/api/runs/${runId}/stop`, { method: "POST", headers, body: "{}" });
      expect([answer.status, answer.code]).toEqual([415, "not-json"]);
    }
    const none = await raw(`/api/runs/${runId}/stop`, { method: "POST", body: "{}" });
    expect(none.status).toBe(415);
    const preflight = await raw("/api/projects", {
      method: "OPTIONS",
      headers: { origin: `http://127.0.0.1:${dashboard.port}` },
    });
    expect(preflight.status).toBe(405);
  });

  it("cannot frame or embed ours", async () => {
    for (const path of ["/", "/api/projects", "/api/nothing", "/nothing.js"]) {
      const { headers } = await raw(path, {});
      expect(headers["content-security-policy"]).toMatch(
        /default-src 'none'; script-src 'self'; style-src 'self';.*frame-ancestors 'none'; base-uri 'none'; form-action 'none'/,
      );
      expect(headers["x-content-type-options"]).toBe("nosniff");
      expect(headers["referrer-policy"]).toBe("no-referrer");
      expect(headers["cross-origin-resource-policy"]).toBe("same-origin");
    }
    expect((await raw("/api/projects", {})).headers["cache-control"]).toBe("no-store");
    expect((await raw("/", {})).headers["cache-control"]).toBe("no-cache");
  });
});

describe("requests that are not as they should be", () => {
  it.each(["PUT", "DELETE", "PATCH", "TRACE"])("%s is refused everywhere", async (method) => {
    const answer = await raw(`/api/runs/${runId}/show`, { method, headers: JSON_TYPE });
    expect(answer.status).toBe(405);
  });

  it("a GET changes nothing, whatever it says it is", async () => {
    const headers = { "x-http-method-override": "POST", "x-method-override": "POST" };
    for (const path of [`/api/runs/${runId}/stop`, `/api/runs/${runId}/stop?_method=POST`]) {
      expect((await raw(path, { headers })).status).toBe(404);
    }
    expect((await raw("/api/projects", { method: "POST", headers: JSON_TYPE })).status).toBe(405);
  });

  it("paths lead nowhere outside", async () => {
    const escapes = [
      "/../package.json",
      "/assets/../../package.json",
      "/..%2f..%2fpackage.json",
      "/%2e%2e/%2e%2e/package.json",
      "/assets/..%5c..%5cpackage.json",
      "//etc/passwd",
      "/api/../../../etc/passwd",
      "/index.html%00.js",
      `/api/runs/${runId}/../../../../etc/passwd`,
    ];
    for (const path of escapes) {
      const { status, text } = await raw(path, {});
      expect([path, status === 404 || text.includes('<div id="root">')]).toEqual([path, true]);
      expect(text).not.toMatch(/root:|"devDependencies"/);
    }
  });

  it("no parameter of any address takes a path", async () => {
    const bad = ["../../../../etc/passwd", "/etc/passwd", "..%2f..%2fetc", "\u0000", "%00", "-1"];
    for (const { method, path, query, sent } of Object.values(ENDPOINTS)) {
      if (method !== "GET" || sent.kind === "stream" || !path.startsWith("/api/runs/:run"))
        continue;
      for (const value of bad) {
        const given = Object.keys(query).map((name) => `${name}=${encodeURIComponent(value)}`);
        const parts = path.replace(":run", runId).replace(/:\w+/g, encodeURIComponent(value));
        const answer = await raw(parts, { query: given.join("&") });
        expect([parts, answer.status < 500]).toEqual([parts, true]);
        expect(answer.text).not.toMatch(/root:.*:0:0/);
      }
    }
  });

  it("large, broken and foreign bodies are refused, and are never kept", async () => {
    const post = (body: string): Promise<Response> =>
      raw(`/api/runs/${runId}/answer`, { method: "POST", headers: JSON_TYPE, body });
    expect((await post(`{"step":"${"x".repeat(2_000_000)}"}`)).status).toBe(413);
    for (const body of ["{", "[]", "null", '{"step":1}', '{"step":"a","other":1}']) {
      expect([body, (await post(body)).code]).toEqual([body, "bad-request"]);
    }
    const polluted = await post('{"step":"a","__proto__":{"admin":true}}');
    expect(polluted.status).toBeGreaterThanOrEqual(400);
  });

  it("clients that send or read nothing keep nobody else waiting", async () => {
    const sockets = Array.from({ length: 40 }, (_, index) => {
      const socket = connect(dashboard.port, "127.0.0.1");
      const head = `GET /api/runs/changes HTTP/1.1\r\nHost: 127.0.0.1:${dashboard.port}\r\n`;
      // Half of them never finish their request; the others never read the answer.
      socket.write(index % 2 === 0 ? head : `${head}Cookie: ${cookie}\r\n\r\n`);
      socket.on("error", () => undefined);
      return socket.pause();
    });
    for (let round = 0; round < 5; round++) {
      expect((await raw("/api/runs", {})).status).toBe(200);
    }
    for (const socket of sockets) socket.destroy();
  });
});

describe("options", () => {
  it("--read-only refuses every change, and says so", async () => {
    const server = await Dashboard.start(project, { env, args: ["--read-only"] });
    const { port } = server;
    const asked = await (await server.fetch("/api/projects")).json();
    expect(asked).toMatchObject({ read_only: true });
    for (const { method, path } of Object.values(ENDPOINTS)) {
      if (method !== "POST") continue;
      const at = path.replace(/:run\b/, runId).replace(/:\w+/g, "x");
      const answer = await raw(at, { method, port, headers: JSON_TYPE, body: "{}" });
      expect([at, answer.status, answer.code]).toEqual([at, 403, "read-only"]);
    }
    expect((await server.end()).exit).toBe(0);
  });

  it("--listen beyond this machine needs a token, and a token must be long", async () => {
    for (const args of [
      ["--listen", "0.0.0.0"],
      ["--listen", "::"],
      ["--listen", "0.0.0.0", "--token", "short"],
      ["--port", "70000"],
      ["--port", String(dashboard.port)],
    ]) {
      const { exit, stderr } = await project.run(["ui", "--no-open", ...args], { env });
      expect([args, exit, stderr]).toEqual([args, 2, expect.stringMatching(/^error: .*(--|port)/)]);
    }
    const token = "a-token-of-the-users-choice";
    const server = project.start(
      ["ui", "--no-open", "--port", "0", "--listen", "0.0.0.0", "--token", token],
      { env },
    );
    await server.printed(/token=/);
    const { port } = new URL(server.stdout.trim());
    const headers = { authorization: `Bearer ${token}` };
    const answer = await raw("/api/projects", { port: Number(port), cookie: "", headers });
    expect(answer.status).toBe(200);
    // The cookie of the other server is of no use here.
    expect((await raw("/api/projects", { port: Number(port) })).status).toBe(401);
    const foreign = { ...headers, host: `evil.example:${port}` };
    const rebound = await raw("/api/projects", {
      port: Number(port),
      cookie: "",
      headers: foreign,
    });
    expect(rebound.code).toBe("wrong-host");
    await server.kill("SIGTERM");
  });
});
