/** All runs of this machine, live: which one needs me, and where is the one that I look for? */
import { type ReactNode, useCallback, useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import { address } from "../api.ts";
import { Button, CommandLine, Empty, Failure, Loading } from "../parts/basics.tsx";
import { countText } from "../parts/figures.tsx";
import { Icon } from "../parts/icon.tsx";
import { useMayAct, useServer } from "../server.ts";
import { FilterBar, useRunFilter } from "./filter-bar.tsx";
import { isOpen } from "./run-filter.ts";
import { useRunList } from "./run-list.ts";
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
