/**
 * The store as an administrator sets it up, and as logins with the rights of one role use it: with the
 * real program, on a real PostgreSQL.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newDatabase, runSql, sharedPostgres } from "../rig/postgres.ts";
import type { Result } from "../rig/project.ts";
import { Fleet } from "./worker-rig.ts";

const ONE = `
concurrency: {group: roles}
steps:
  - id: only
    run: ${"${EFFECT}"}
`;

let fleet: Fleet;
beforeAll(async () => {
  fleet = await Fleet.open();
  await fleet.must(["store", "init"]);
});
afterAll(() => fleet.end());

/** The address of the fleet's store for a login with the rights of a role, and no others. */
async function loginOf(role: string): Promise<string> {
  const url = new URL(fleet.url);
  const login = `only_${role}`;
  await runSql(
    fleet.url,
    `DROP ROLE IF EXISTS ${login};
     CREATE ROLE ${login} LOGIN PASSWORD '${url.password}' IN ROLE perdure_${role}`,
  );
  return (await sharedPostgres()).url(url.pathname.slice(1), login);
}

function as(address: string, ...words: readonly string[]): Promise<Result> {
  return fleet.run(words, { env: { PERDURE_STORE: address } });
}

/** What the server says when a login may not do something; "done" when it may. */
async function tried(address: string, text: string): Promise<string> {
  return runSql(address, text).then(
    () => "done",
    (error: Error) => error.message.replace(/ (for|of) .*/, ""),
  );
}

describe("perdure store init", () => {
  test("makes everything once, says what it did, and may be repeated while a worker runs", async () => {
    const url = await newDatabase();
    const first = await as(url, "store", "init");
    expect(first.stdout).toContain("Tables: made");
    expect(first.stdout).toContain("Lease: 12.0s");
    const repeated = await as(url, "store", "init", "--lease", "30s", "--json");
    expect(JSON.parse(repeated.stdout)).toMatchObject({ lease_ms: 30_000, missing_roles: [] });
    const again = await as(url, "store", "init");
    expect(again.stdout).toContain("Tables: were there");
    expect(again.stdout).toContain("Lease: 30.0s");
    expect(again.stdout + again.stderr).not.toContain(new URL(url).password);
    for (const lease of ["1s", "1h", "soon"]) {
      expect((await as(url, "store", "init", "--lease", lease)).exit).toBe(2);
    }
  });

  test("without the right to create roles, says what an administrator has to do", async () => {
    const server = await sharedPostgres();
    const url = await newDatabase();
    const name = new URL(url).pathname.slice(1);
    await runSql(
      url,
      `DROP ROLE IF EXISTS only_owner;
       CREATE ROLE only_owner LOGIN PASSWORD '${new URL(url).password}';
       GRANT CREATE ON DATABASE ${name} TO only_owner`,
    );
    const owner = server.url(name, "only_owner");
    expect((await as(owner, "store", "init")).exit).toBe(0);
    // The roles of this server are there already; their rights are given all the same.
    expect((await as(await loginAt(url, "reader"), "workers")).exit).toBe(0);
  });
});

/** A login of a role at another database of the same server. */
async function loginAt(url: string, role: string): Promise<string> {
  const login = await loginOf(role);
  return login.replace(new URL(login).pathname, new URL(url).pathname);
}

describe("a login with the rights of a", () => {
  test("submitter, worker and reader does its work", async () => {
    const [submitter, worker, reader] = await Promise.all([
      loginOf("submitter"),
      loginOf("worker"),
      loginOf("reader"),
    ]);
    fleet.write("one.yaml", ONE.replace("${EFFECT}", fleet.effect("roles-only")));
    const submitted = await as(submitter, "submit", "one.yaml", "--requires", "roles", "--json");
    expect(submitted.stderr).toBe("");
    const runId = String((JSON.parse(submitted.stdout) as { run_id: string }).run_id);
    const words = ["worker", "--directory", `${fleet.stateHome}/roles`, "--labels", "roles"];
    const program = fleet.start(words, { env: { PERDURE_STORE: worker } });
    await fleet.reached(runId, "run.completed");
    expect(fleet.effectsOf("roles")).toEqual({ only: 1 });
    const seen = await as(reader, "workers", "--json");
    expect(JSON.parse(seen.stdout)).toMatchObject({ workers: [{ labels: ["roles"] }] });
    expect((await program.kill("SIGTERM")).exit).toBe(0);
  });

  test("reader changes nothing, a submitter drives nothing, a worker changes no table", async () => {
    const [submitter, worker, reader] = await Promise.all([
      loginOf("submitter"),
      loginOf("worker"),
      loginOf("reader"),
    ]);
    fleet.write("two.yaml", ONE.replace("${EFFECT}", "echo two"));
    const refused = await as(reader, "submit", "two.yaml");
    expect([refused.exit, refused.stderr]).toEqual([1, expect.stringContaining("rights")]);
    expect((await as(worker, "store", "init")).exit).toBe(1);
    const forbidden = {
      [reader]: [
        "insert into perdure_queue.wanted_runs values ('x', 'runs', 0)",
        "update perdure_queue.job set priority = 1",
        "delete from perdure_queue.workers",
        "delete from perdure.schedules",
      ],
      [submitter]: [
        "delete from perdure_queue.job",
        "delete from perdure_queue.wanted_runs",
        "update perdure_queue.workers set host = 'mine'",
        "update perdure.pipeline_state set owner = 'me'",
        "update perdure.store set lease_ms = 60000",
      ],
      [worker]: [
        "drop table perdure_queue.job",
        "create table perdure_queue.mine ()",
        "delete from perdure.schedules",
        "update perdure.store set lease_ms = 60000",
      ],
    };
    for (const [address, texts] of Object.entries(forbidden)) {
      for (const text of texts) {
        expect([text, await tried(address, text)]).toEqual([
          text,
          expect.stringMatching(/permission denied|must be owner/),
        ]);
      }
    }
  });

  test("nobody uses a database that is no store, and all are told what to do", async () => {
    const url = await newDatabase();
    for (const role of ["worker", "submitter", "reader"]) {
      const { exit, stderr } = await as(await loginAt(url, role), "workers");
      expect([exit, stderr]).toEqual([1, expect.stringContaining("perdure store init")]);
    }
  });
});
