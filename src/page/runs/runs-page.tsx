/** All runs of this machine, live: which one needs me, and where is the one that I look for? */
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import {
  type ApiError,
  address,
  asApiError,
  type Doc,
  read,
  useMayAct,
  useServer,
} from "../api.ts";
import { useLive } from "../live.ts";
import { Button, CommandLine, Empty, Failure, Loading } from "../parts/basics.tsx";
import { countText } from "../parts/figures.tsx";
import { Icon } from "../parts/icon.tsx";
import { FilterBar, useRunFilter } from "./filter-bar.tsx";
import { isOpen, paramsOf, type RunFilter, type RunRows, withChanges } from "./run-filter.ts";
import { RunTable } from "./run-table.tsx";
import "../styles/runs.css";

/** Runs that can be compared at once. */
const COMPARED = 2;

export function RunsPage(): ReactNode {
  const [filter, change] = useRunFilter();
  const { list, error, isOld, more } = useRunList(filter);
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const choose = useCallback((run: string) => {
    setChosen((before) =>
      before.includes(run)
        ? before.filter((other) => other !== run)
        : [...before, run].slice(-COMPARED),
    );
  }, []);
  const projects = useProjectNames();
  const isEmpty = list?.runs.length === 0;
  return (
    <>
      <header className="page-head">
        <h1>Runs</h1>
        <span className="faint figure">{list === undefined ? "" : countText(list.total)}</span>
        <RunsActions chosen={chosen} />
      </header>
      {error === undefined ? null : <Failure error={error} />}
      {isEmpty && isOpen(filter) ? null : (
        <FilterBar filter={filter} onChange={change} list={list} projects={projects} />
      )}
      {list === undefined && error === undefined ? <Loading lines={8} /> : null}
      {isEmpty ? (
        <NoRuns isFiltered={!isOpen(filter)} />
      ) : list === undefined ? null : (
        <div className="run-list" data-old={isOld} aria-busy={isOld}>
          <RunTable
            rows={list.runs}
            total={list.total}
            projects={projects}
            chosen={chosen}
            onChoose={choose}
            onMore={more}
          />
        </div>
      )}
    </>
  );
}

/** The names of the projects by key; empty when there is only one. */
function useProjectNames(): ReadonlyMap<string, string> {
  const projects = useServer()?.projects;
  return useMemo(() => {
    const all = (projects ?? []).map(({ project, name }) => [project, name] as const);
    return new Map(all.length > 1 ? all : []);
  }, [projects]);
}

function RunsActions({ chosen }: { chosen: readonly string[] }): ReactNode {
  const [, go] = useLocation();
  const mayAct = useMayAct();
  const [left, right] = chosen;
  return (
    <div className="actions">
      <Button
        icon="compare"
        className="button compare-button"
        disabled={right === undefined}
        title="Choose two runs in the table to compare them"
        onClick={() => go(address("/compare", { left, right }))}
      >
        {chosen.length === 1 ? "Compare (choose one more)" : "Compare"}
      </Button>
      {mayAct ? (
        <Link className="button" data-look="primary" href="/start">
          <Icon name="start" />
          Start a run
        </Link>
      ) : null}
    </div>
  );
}

function NoRuns({ isFiltered }: { isFiltered: boolean }): ReactNode {
  const mayAct = useMayAct();
  if (isFiltered) {
    return (
      <Empty title="No run matches">
        <p>
          <Link href="/">Show all runs</Link>
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No runs yet">
      <p>Start a pipeline in a terminal, and it appears here:</p>
      <CommandLine command="perdure run pipeline.yaml" />
      <p>No pipeline at hand? This command writes one:</p>
      <CommandLine command="perdure init" />
      {mayAct ? (
        <p>
          or <Link href="/start">start one from this page</Link>
        </p>
      ) : null}
    </Empty>
  );
}

const ROWS_PER_PAGE = 200;

interface RunList {
  /** What was read; undefined before the first answer. */
  readonly list: RunRows | undefined;
  readonly error: ApiError | undefined;
  /** What is shown belongs to an earlier filter. */
  readonly isOld: boolean;
  /** Reads the next page, if there is one. */
  readonly more: () => void;
}

/** The runs that the filter lets through. */
function useRunList(filter: RunFilter): RunList {
  const query = paramsOf(filter);
  const key = JSON.stringify(query);
  const [loaded, setLoaded] = useState<{ key: string; list: RunRows }>();
  const [error, setError] = useState<ApiError>();
  const isReading = useRef(false);
  const latest = useRef({ key, filter });
  latest.current = { key, filter };

  useEffect(() => {
    const controller = new AbortController();
    const first = { ...(JSON.parse(key) as Record<string, string>), limit: ROWS_PER_PAGE };
    read<RunRows>("/api/runs", first, controller.signal)
      .then((list) => {
        setLoaded({ key, list });
        setError(undefined);
      })
      .catch((failure: unknown) => {
        if (!controller.signal.aborted) setError(asApiError(failure));
      });
    return () => controller.abort();
  }, [key]);

  const next = loaded?.key === key ? (loaded.list.next ?? undefined) : undefined;
  const more = useCallback(() => {
    if (next === undefined || isReading.current) return;
    isReading.current = true;
    const after = { ...(JSON.parse(key) as Record<string, string>), cursor: next };
    read<RunRows>("/api/runs", { ...after, limit: ROWS_PER_PAGE })
      .then((page) => {
        setLoaded((before) =>
          before?.key === key ? { key, list: joined(before.list, page) } : before,
        );
      })
      .catch((failure: unknown) => setError(asApiError(failure)))
      .finally(() => {
        isReading.current = false;
      });
  }, [key, next]);

  useLive<Doc<"runChanges">>(
    loaded === undefined ? undefined : { path: "/api/runs/changes", event: "runs" },
    (changes) => {
      setLoaded((before) =>
        before?.key === latest.current.key
          ? { ...before, list: withChanges(before.list, changes, latest.current.filter) }
          : before,
      );
    },
  );
  return { list: loaded?.list, error, isOld: loaded !== undefined && loaded.key !== key, more };
}

function joined(before: RunRows, page: RunRows): RunRows {
  const known = new Set(before.runs.map(({ run_id: id }) => id));
  const added = page.runs.filter(({ run_id: id }) => !known.has(id));
  return { ...page, runs: [...before.runs, ...added] };
}
