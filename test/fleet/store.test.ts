/**
 * The store as an administrator sets it up, and as logins with the rights of one role use it: with the
 * real program, on a real PostgreSQL.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newDatabase, runSql, sharedPostgres, startPostgres } from "../rig/postgres.ts";
import type { Result } from "../rig/project.ts";
import { Fleet, storeSays } from "./worker-rig.ts";

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
  test("sets everything up, reports what it did, and may be repeated", async () => {
    const url = await newDatabase();
    const first = await as(url, "store", "init");
    expect(first.stdout).toContain("Tables: created");
    expect(first.stdout).toContain("Lease: 12.0s");
    const repeated = await as(url, "store", "init", "--lease", "30s", "--json");
    expect(JSON.parse(repeated.stdout)).toMatchObject({ lease_ms: 30_000, missing_roles: [] });
    const again = await as(url, "store", "init");
    expect(again.stdout).toContain("Tables: up to date");
    expect(again.stdout).toContain("Lease: 30.0s");
    expect(again.stdout + again.stderr).not.toContain(new URL(url).password);
    for (const lease of ["1s", "1h", "soon"]) {
      expect((await as(url, "store", "init", "--lease", lease)).exit).toBe(2);
    }
  });

  test("brings older queues to this version, and refuses a user without the right to do so", async () => {
    const url = await newDatabase();
    await as(url, "store", "init");
    const older = "alter table perdure_queue.wanted_runs drop column stop, drop column deaths";
    await runSql(url, older);
    fleet.write("older.yaml", "steps: [{id: only, run: echo only}]");
    for (const role of ["submitter", "worker"]) {
      const login = await loginAt(url, role);
      const words = role === "worker" ? ["worker", "--supervised"] : ["submit", "older.yaml"];
      const { exit, stderr } = await as(login, ...words);
      expect([exit, stderr]).toEqual([1, expect.stringContaining("perdure store init")]);
    }
    await as(url, "store", "init");
    expect((await as(await loginAt(url, "submitter"), "submit", "older.yaml")).exit).toBe(0);
  });

  test("without the right to create roles, tells what an administrator has to do", async () => {
    const server = await startPostgres();
    try {
      const url = await server.newDatabase();
      const name = new URL(url).pathname.slice(1);
      await runSql(
        url,
        `CREATE ROLE only_owner LOGIN PASSWORD '${new URL(url).password}';
         GRANT CREATE ON DATABASE ${name} TO only_owner`,
      );
      const owner = server.url(name, "only_owner");
      const lacking = await as(owner, "store", "init");
      expect([lacking.exit, lacking.stdout]).toEqual([
        0,
        expect.stringContaining("may not create"),
      ]);
      await runSql(url, (lacking.stdout.match(/CREATE ROLE .*;/g) ?? []).join("\n"));
      const complete = await as(owner, "store", "init");
      expect(complete.stdout).toContain("have their rights");
    } finally {
      await server.close();
    }
  });
});

/** A login of a role at another database of the same server. */
async function loginAt(url: string, role: string): Promise<string> {
  const login = await loginOf(role);
  return login.replace(new URL(login).pathname, new URL(url).pathname);
}

/** Resolves when the lease of a run lasts for more than so many seconds from now. */
async function held(runId: string, seconds: number): Promise<void> {
  const text = `select held_until > now() + interval '${seconds} seconds' as long
    from perdure.pipeline_state where pipeline_id = '${runId}'`;
  await storeSays(
    () => "the lease is longer",
    async () => {
      const [row] = await runSql(fleet.url, text);
      return row?.long === true;
    },
  );
}

describe("a login", () => {
  test("of a submitter, worker or reader can do its work", async () => {
    const [submitter, worker, reader] = await Promise.all([
      loginOf("submitter"),
      loginOf("worker"),
      loginOf("reader"),
    ]);
    const hold = fleet.hold("roles");
    const step = `${fleet.effect("roles-only")}; ${hold.command}`;
    fleet.write("one.yaml", ONE.replace("${EFFECT}", step));
    const submitted = await as(submitter, "submit", "one.yaml", "--requires", "roles", "--json");
    expect(submitted.stderr).toBe("");
    const runId = String((JSON.parse(submitted.stdout) as { run_id: string }).run_id);
    const words = ["worker", "--directory", `${fleet.stateHome}/roles`, "--labels", "roles"];
    const program = fleet.start(words, { env: { PERDURE_STORE: worker } });
    await hold.arrived();
    // Setting the store up again disturbs no worker; the lease is longer from the next renewal on.
    await fleet.must(["store", "init", "--lease", "40s"]);
    await held(runId, 30);
    await fleet.must(["store", "init", "--lease", "12s"]);
    await hold.release();
    await fleet.reached(runId, "run.completed");
    expect(fleet.effectsOf("roles")).toEqual({ only: 1 });
    const seen = await as(reader, "workers", "--json");
    expect(JSON.parse(seen.stdout)).toMatchObject({ workers: [{ labels: ["roles"] }] });
    expect((await program.kill("SIGTERM")).exit).toBe(0);
  });

  test("of a reader cannot write, of a submitter cannot drive runs, of a worker cannot change tables", async () => {
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

  test("is refused by a database that is no store, with what to do", async () => {
    const url = await newDatabase();
    for (const role of ["worker", "submitter", "reader"]) {
      const { exit, stderr } = await as(await loginAt(url, role), "workers");
      expect([exit, stderr]).toEqual([1, expect.stringContaining("perdure store init")]);
    }
  });
});
